"""Anchor credit: a step against other steps that began in the same state.

Inside one group, the steps that share a state key are an anchor group; a step's return is compared
with the returns of its anchor group. Groups never mix tasks: equal states of two tasks are two
states.

    gigpo   A^E + omega * A^S                       arXiv 2505.10978
            A^E = (R - mean over members) / F, A^S = (G_t - mean over the anchor group) / F
    hgpo    weighted mean over k = 1 .. history + 1 of (G_t - mean) / F, where the last k states
            agree; weights (k + 1)^alpha            arXiv 2602.22817

G_t is the discounted return of the step, R the undiscounted one of the member, F = 1 or a std.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import Literal

from agentrl.credit.arithmetic import Std, centred, discounted, rewards_of
from agentrl.credit.returns import checked_discount
from agentrl.credit.states import Context, context_key, state_key
from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group

Kind = Literal["gigpo", "hgpo"]
Place = tuple[int, int]
"""(member, step)"""


class AnchorCredit:
    """What a step earned against others from the same state, on top of the whole try's worth.

    `key` says what a state is: `observation`, `workspace` or a function as `module:function` (see
    `states`); `context` adds what the model had in its context; `similarity` below 1 also joins
    states whose texts are that alike (difflib ratio against the first of a cluster, so the order
    of members matters). A state that nobody else reached, or that is not known, has A^S = 0; one
    visited twice by the same try counts twice. Of a step's signals those named in `signals` are
    rewards. Members that were not judged get zeros and enter no group.

    hgpo has no A^E unless `episode` asks for it; a step with no anchor group at all gets 0 from
    it. `drop_zeros` leaves advantages that are exactly 0 out of the weighted mean, as the authors'
    code does.

    Example (discount .9): A through s0 s1 s2 earns 0 0 1, B through s0 s1' s0 nothing: A gets
    [1.04, .5, .5], B [-.77, -.5, -.77].
    """

    def __init__(
        self,
        kind: Kind = "gigpo",
        *,
        key: str = "observation",
        context: Context = "rewrite",
        omega: float = 1.0,
        discount: float = 0.95,
        std: Std = "none",
        eps: float = 1e-6,
        signals: tuple[str, ...] = (),
        similarity: float = 1.0,
        singleton: Literal["zero", "keep"] = "zero",
        history: int | None = None,
        alpha: float | None = None,
        episode: bool | None = None,
        drop_zeros: bool | None = None,
    ) -> None:
        own = {"history": history, "alpha": alpha, "episode": episode, "drop_zeros": drop_zeros}
        idle = [name for name, value in own.items() if value is not None and kind != "hgpo"]
        if idle:
            raise ConfigError(
                f"{idle[0]} has no effect on {kind}", where=f"credit.{idle[0]}",
                help='it belongs to kind = "hgpo"',
            )  # fmt: skip
        if not 0.0 < similarity <= 1.0:
            raise ConfigError(
                f"a similarity of {similarity} is not between 0 and 1", where="credit.similarity",
                help="1 means equal, .95 is what the GiGPO code uses",
            )  # fmt: skip
        self.kind = kind
        self.key, self.named, self.context = state_key(key), key, context
        self.omega, self.discount = omega, checked_discount(discount)
        self.std, self.eps = std, eps if std != "none" else 0.0
        self.signals, self.similarity, self.singleton = signals, similarity, singleton
        self.history = 1 if history is None else history
        self.alpha = 1.0 if alpha is None else alpha
        self.episode = kind == "gigpo" or bool(episode)
        self.drop_zeros = bool(drop_zeros)

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        rewards = self.judged(group)
        returns = {
            (member, step): value
            for member, row in rewards.items()
            for step, value in enumerate(discounted(row, self.discount))
        }
        groups = self.anchors(group)
        compare = self.layered if self.kind == "hgpo" else self.against
        local = compare(groups, returns)
        whole = self.episodes(rewards) if self.episode else {}
        scale = self.omega if self.kind == "gigpo" else 1.0
        return [
            [
                whole.get(index, 0.0) + scale * local.get((index, step), 0.0)
                for step in range(len(member.steps))
            ]
            for index, member in enumerate(group.members)
        ]

    def report(self, group: Group) -> dict[str, float]:
        """How much there was to compare: if `singleton_frac` is above .7 the step term is idle."""
        groups = self.anchors(group)
        steps = sum(map(len, groups))
        alone = sum(len(places) == 1 for places in groups)
        return {
            "anchor_groups": float(len(groups)),
            "anchor_group_size": steps / len(groups) if groups else 0.0,
            "singleton_frac": alone / steps if steps else 1.0,
        }

    def describe(self) -> str:
        """The formula in words."""
        over = "" if self.std == "none" else f", over the {self.std} std + {self.eps:g}"
        states = f"steps in the same state ({self.named}, context {self.context}){over}"
        if self.kind == "gigpo":
            return (
                f"gigpo: reward minus the group's mean{over}, plus {self.omega:g} times the return "
                f"discounted by {self.discount:g} a step minus the mean of {states}"
            )
        whole = ", plus the reward minus the group's mean" if self.episode else ""
        return (
            f"hgpo: the return discounted by {self.discount:g} a step minus the mean of {states}, "
            f"averaged over the last 1 to {self.history + 1} states with weights (k + 1)^"
            f"{self.alpha:g}{whole}"
        )

    def judged(self, group: Group) -> dict[int, list[float]]:
        """What each step earned, of each member that was judged."""
        rows = ((i, rewards_of(member, self.signals)) for i, member in enumerate(group.members))
        return {i: row for i, row in rows if row is not None}

    def episodes(self, rewards: dict[int, list[float]]) -> dict[int, float]:
        """A^E of each judged member."""
        totals = {member: sum(row) for member, row in rewards.items()}
        if len(totals) == 1 and self.singleton == "keep":
            return totals
        values = centred(list(totals.values()), self.std, self.eps)
        return dict(zip(totals, values, strict=True))

    def against(
        self, groups: Sequence[Sequence[Place]], returns: dict[Place, float]
    ) -> dict[Place, float]:
        """Each step's return against its group's."""
        out: dict[Place, float] = {}
        for places in groups:
            values = centred([returns[place] for place in places], self.std, self.eps)
            out |= dict(zip(places, values, strict=True))
        return out

    def layered(
        self, groups: Sequence[Sequence[Place]], returns: dict[Place, float]
    ) -> dict[Place, float]:
        """HGPO: the weighted mean over how many of the last states agree."""
        sums: dict[Place, float] = defaultdict(float)
        weights: dict[Place, float] = defaultdict(float)
        name = {place: n for n, places in enumerate(groups) for place in places}
        for k in range(1, self.history + 2):
            suffixes: dict[Hashable, list[Place]] = defaultdict(list)
            for member, step in name:
                last = [(member, s) for s in range(step - k + 1, step + 1)]
                if all(place in name for place in last):
                    suffixes[tuple(name[place] for place in last)].append((member, step))
            shared = [places for places in suffixes.values() if len(places) > 1]
            for place, value in self.against(shared, returns).items():
                if value == 0.0 and self.drop_zeros:
                    continue
                weight = (k + 1.0) ** self.alpha
                sums[place] += weight * value
                weights[place] += weight
        return {place: total / weights[place] for place, total in sums.items()}

    def anchors(self, group: Group) -> list[list[Place]]:
        """Steps of the judged members by state; unknown states are in no group."""
        found: dict[tuple[str, str], list[Place]] = defaultdict(list)
        for index, member in enumerate(group.members):
            for step in range(len(member.steps)) if member.reward is not None else ():
                world = self.key(member, step)
                if world is not None:
                    state = (world, context_key(member, step, self.context))
                    found[self.representative(state, found)].append((index, step))
        return list(found.values())

    def representative(
        self, state: tuple[str, str], found: dict[tuple[str, str], list[Place]]
    ) -> tuple[str, str]:
        """The known state this one counts as: itself, or the first that is alike enough."""
        if self.similarity == 1.0 or state in found:
            return state
        for known in found:
            matcher = SequenceMatcher(None, state[0], known[0], autojunk=False)
            if known[1] == state[1] and matcher.ratio() >= self.similarity:
                return known
        return state
