"""Tree credit: what a state was worth, by what came of the tries that went on from it.

A try may be forked: `Trajectory.parent` names the try it left, `fork_step` the parent's step it
plays anew (steps counted from 0 on the line from the root). A fork holds only its own steps, so
that a shared one is trained once. All tries that are no forks start from the task's own state.

    vine       A_t = G_t + V(next known state) - V(known state), V the mean return of the tries
               that started there, and of the one it lies on    VinePPO, arXiv 2410.01679; between
               known states the difference is shared: SPO, arXiv 2505.23564
    tree_grpo  against the leaves of its tree, plus against all leaves; a step below which a fork
               lies gets the mean of its leaves                     arXiv 2509.21240
    tree_rl    (V(n) - V(root) + V(n) - V(parent)) / sqrt(leaves(n)), n the state after the step
               (TreeRL, arXiv 2506.11902, as the reference notes quote it)
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from agentrl.credit.arithmetic import Std, centred, earned, rewards_of
from agentrl.credit.returns import checked_discount
from agentrl.trajectory.records import Group

Kind = Literal["vine", "tree_grpo", "tree_rl"]
Node = tuple[int, int]
"""(member, step on the line from the root): the state before that step."""


class TreeCredit:
    """Credit from forks. Without any, `vine` is the reward minus the group's mean.

    With `branches` False forks only serve to value states and are given zeros (VinePPO's auxiliary
    tries). Of a step's signals those named in `signals` are rewards. `std` and `eps` belong to
    tree_grpo. Members that were not judged get zeros and value no state.

    Example (vine): states worth .25, .75, .5 and a reward of 1 at the end give [.5, -.25, .5].
    """

    def __init__(
        self,
        kind: Kind = "vine",
        *,
        discount: float = 1.0,
        signals: tuple[str, ...] = (),
        branches: bool = True,
        std: Std = "unbiased",
        eps: float = 1e-6,
    ) -> None:
        self.kind, self.signals, self.branches = kind, signals, branches
        self.discount = checked_discount(discount)
        self.std, self.eps = std, eps if std != "none" else 0.0

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        forest = Forest(group, self.signals, self.discount)
        by = {"vine": self.vine, "tree_grpo": self.grown, "tree_rl": self.ranked}[self.kind]
        rows = by(forest)
        return [
            row
            if member.reward is not None and (self.branches or forest.parent[index] is None)
            else [0.0] * len(member.steps)
            for index, (member, row) in enumerate(zip(group.members, rows, strict=True))
        ]

    def report(self, group: Group) -> dict[str, float]:
        """How many forks there were, and in how many states they began."""
        forest = Forest(group, self.signals, self.discount)
        forks = [forest.start[i] for i, parent in enumerate(forest.parent) if parent is not None]
        return {"forks": float(len(forks)), "forked_states": float(len(set(forks)))}

    def describe(self) -> str:
        """The formula in words."""
        told = {
            "vine": "the mean return from the next forked state minus that from the last one",
            "tree_grpo": f"reward against its tree's leaves plus against all, {self.std} std",
            "tree_rl": "what a step added to the root's value and to that of the state before it, "
            "over the square root of the leaves below",
        }[self.kind]
        return f"{self.kind}: {told}" + ("" if self.branches else "; forks are not trained")

    def vine(self, forest: "Forest") -> list[list[float]]:
        """Differences between known values, each shared by the steps between them."""
        out = []
        for index, earning in enumerate(forest.rewards):
            first = forest.first(index)
            row: list[float] = []
            begin = 0
            while begin < len(earning):
                end = begin + 1
                while end < len(earning) and forest.samples((index, first + end)) == 1:
                    end += 1
                after = forest.value((index, first + end)) if end < len(earning) else 0.0
                between = forest.discounted(earning[begin:end], after)
                row += [between - forest.value((index, first + begin))] * (end - begin)
                begin = end
            out.append(row)
        return out

    def grown(self, forest: "Forest") -> list[list[float]]:
        """Tree-GRPO: each leaf's number, averaged over the leaves below a step."""
        judged = [index for index, known in enumerate(forest.known) if known]
        worth = dict(zip(judged, self.against(forest, judged), strict=True))
        for root in {forest.root(index) for index in judged}:
            tree = [index for index in judged if forest.root(index) == root]
            for index, value in zip(tree, self.against(forest, tree), strict=True):
                worth[index] += value
        return [
            [
                fmean(worth[leaf] for leaf in forest.leaves((index, forest.first(index) + after)))
                for after in range(1, len(earning) + 1)
            ]
            for index, earning in enumerate(forest.rewards)
        ]

    def against(self, forest: "Forest", leaves: Sequence[int]) -> list[float]:
        return centred([forest.whole(leaf) for leaf in leaves], self.std, self.eps)

    def ranked(self, forest: "Forest") -> list[list[float]]:
        """TreeRL: global and local improvement of the state a step led to."""
        out = []
        for index, earning in enumerate(forest.rewards):
            row = []
            for step in range(len(earning)):
                here = (index, forest.first(index) + step + 1)
                before = (index, forest.first(index) + step)
                leaves = forest.leaves(here)
                value = forest.mean(leaves)
                root = forest.mean(forest.leaves((index, 0)))
                gain = (value - root) + (value - forest.mean(forest.leaves(before)))
                row.append(gain / len(leaves) ** 0.5)
            out.append(row)
        return out


class Forest:
    """The tries of a group as trees; values and leaves of their states. Only judged ones count."""

    def __init__(self, group: Group, signals: Sequence[str], discount: float) -> None:
        places = {member.id: index for index, member in enumerate(group.members)}
        self.members = group.members
        self.signals, self.discount = signals, discount
        self.parent = [places.get(m.parent) if m.parent is not None else None for m in self.members]
        self.known = [member.reward is not None for member in self.members]
        self.rewards = [rewards_of(member, signals) or [] for member in self.members]
        self.start = [self.origin((i, self.first(i))) for i in range(len(self.members))]

    def first(self, index: int) -> int:
        """The step on the line from the root that a member's own first step is."""
        return (self.members[index].fork_step or 0) if self.parent[index] is not None else 0

    def origin(self, node: Node) -> Node:
        """A state by the eldest member it lies on; the task's own state is (-1, 0)."""
        index, step = node
        parent = self.parent[index]
        while parent is not None and step <= self.first(index):
            index, parent = parent, self.parent[parent]
        return (-1, 0) if step == 0 else (index, step)

    def root(self, index: int) -> int:
        """The member at the root of the tree."""
        parent = self.parent[index]
        return index if parent is None else self.root(parent)

    def samples(self, node: Node) -> int:
        """Judged tries whose return from a state is known to be one of its own."""
        return len(self.returns(node))

    def value(self, node: Node) -> float:
        """Mean return from a state over the tries that started there and the one it lies on."""
        found = self.returns(node)
        return found[0] if min(found) == max(found) else fmean(found)  # no rounding of equals

    def returns(self, node: Node) -> list[float]:
        state = self.origin(node)
        found = [
            self.discounted(earning, 0.0)
            for i, earning in enumerate(self.rewards)
            if self.known[i] and self.start[i] == state
        ]
        index, step = state
        if index >= 0 and self.known[index] and self.start[index] != state:
            found.append(self.discounted(self.rewards[index][step - self.first(index) :], 0.0))
        return found or [0.0]

    def discounted(self, rewards: Sequence[float], after: float) -> float:
        """Rewards in a row, then a value: the return."""
        for reward in reversed(rewards):
            after = reward + self.discount * after
        return after

    def leaves(self, node: Node) -> list[int]:
        """Judged members whose line passes through a state."""
        return [i for i in range(len(self.members)) if self.known[i] and self.passes(i, node)]

    def passes(self, index: int, node: Node) -> bool:
        """Whether a member's line from the root contains a state."""
        state = self.origin(node)
        if state == (-1, 0):
            return True
        length = self.first(index) + len(self.members[index].steps)
        return state[1] <= length and self.origin((index, state[1])) == state

    def whole(self, index: int) -> float:
        """What a try earned from the task's own state on, undiscounted, with what it inherited."""
        own = sum(self.rewards[index])
        parent = self.parent[index]
        return own + (self.inherited(parent, self.first(index)) if parent is not None else 0.0)

    def inherited(self, index: int, step: int) -> float:
        """What the named signals gave on a member's line before a step."""
        first = self.first(index)
        own = self.members[index].steps[: max(step - first, 0)]
        total = sum(earned(one, self.signals) for one in own)
        parent = self.parent[index]
        return total + (self.inherited(parent, min(step, first)) if parent is not None else 0.0)

    def mean(self, leaves: Sequence[int]) -> float:
        found = [self.whole(leaf) for leaf in leaves]
        return found[0] if min(found) == max(found) else fmean(found)
