"""Turn credit: generalised advantage estimates from a critic's values in the record.

    turn    delta_u = r_u + discount * V_{u+1} - V_u, over the turns of a try; every token of a
            turn gets its turn's number (AReaL, VAGEN)
    token   the same over its sampled tokens: tool output in between is skipped, it consumes
            neither discount nor lambda (verl)

Values are what a critic said before each turn (`Step.value`), or before each sampled token
(`Step.values`); the event `Valued` records them. A try ends with its last step: what the world is
worth after that is 0, as its reward has been given.
"""

from statistics import fmean
from typing import Literal

from agentrl.credit.arithmetic import earned, gae, rewards_of
from agentrl.credit.base import token_count
from agentrl.credit.returns import checked_discount
from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group, Step, Trajectory

Unit = Literal["turn", "token"]


class TurnsCredit:
    """GAE(discount, lam) over turns or sampled tokens, with recorded values as the baseline.

    The last step, or its last token, earns the member's reward; of a step's signals those named in
    `signals` count as rewards, at its last token. There is no comparison between siblings, so a
    try alone can teach. `whiten` normalises over the optimizer step. Members that were not judged
    get zeros. Raises ConfigError where a step of a judged member has no value.

    Example: values [.5, .6, .8], reward 1 at the end, discount 1, lam .9: [.442, .38, .2].
    """

    def __init__(
        self,
        unit: Unit = "turn",
        discount: float = 1.0,
        lam: float = 0.95,
        signals: tuple[str, ...] = (),
        whiten: bool = False,
    ) -> None:
        self.unit = unit
        self.discount = checked_discount(discount)
        self.lam = checked_discount(lam, "lam")
        self.signals = signals
        self._whiten = whiten

    @property
    def whiten(self) -> bool:
        return self._whiten

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member; by token, the mean of its tokens."""
        if self.unit == "token":
            fine = [self.by_token(member) for member in group.members]
            return [[fmean(step) if step else 0.0 for step in row] for row in fine]
        return [self.by_turn(member) for member in group.members]

    def assign_tokens(self, group: Group) -> list[list[list[float]]]:
        """One number for each sampled token."""
        if self.unit == "token":
            return [self.by_token(member) for member in group.members]
        return [
            [
                [value] * token_count(step)
                for step, value in zip(member.steps, self.by_turn(member), strict=True)
            ]
            for member in group.members
        ]

    def describe(self) -> str:
        """The formula in words."""
        white = ", whitened over the step's tokens" if self._whiten else ""
        return (
            f"turns: GAE({self.discount:g}, {self.lam:g}) a {self.unit} with the recorded values "
            f"as baseline{white}"
        )

    def by_turn(self, member: Trajectory) -> list[float]:
        """Advantage of each step."""
        rewards = rewards_of(member, self.signals)
        if rewards is None:
            return [0.0] * len(member.steps)
        values = [value_of(step, member) for step in member.steps]
        return gae(rewards, values, self.discount, self.lam)

    def by_token(self, member: Trajectory) -> list[list[float]]:
        """Advantage of each sampled token of each step."""
        counts = [token_count(step) for step in member.steps]
        if member.reward is None or not any(counts):
            return [[0.0] * count for count in counts]
        rewards: list[float] = []
        values: list[float] = []
        for step, count in zip(member.steps, counts, strict=True):
            rewards += [0.0] * count
            if rewards:
                rewards[-1] += earned(step, self.signals)
            values += token_values(step, member)
        rewards[-1] += member.reward
        found = iter(gae(rewards, values, self.discount, self.lam))
        return [[next(found) for _ in range(count)] for count in counts]


def value_of(step: Step, member: Trajectory) -> float:
    """The critic's value before a step: its own, or that before its first token."""
    if step.value is not None:
        return step.value
    if step.values:
        return step.values[0]
    raise no_values("values, and the record has none for this step", step, member)


def token_values(step: Step, member: Trajectory) -> list[float]:
    """The critic's values before each sampled token of a step."""
    count = token_count(step)
    if len(step.values) != count:
        have = f"the record has {len(step.values)} for {count} tokens"
        raise no_values(f"value for each token, and {have}", step, member)
    return list(step.values)


def no_values(what: str, step: Step, member: Trajectory) -> ConfigError:
    return ConfigError(
        f"this credit scheme needs a critic's {what}",
        where=f"step {step.index} of episode {member.id}",
        help="record them as `Valued` events, or choose a scheme that needs none: "
        "`--credit anchor`, tree, returns or outcome",
    )
