"""Return credit: what was still to come after a step, against siblings at the same step."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group, Trajectory

Baseline = Literal["mean", "leave_one_out"]


class ReturnsCredit:
    """Discounted return of each step, minus the siblings' return at that step index.

    R_t = signals_t + discount * R_{t+1}, and the last step also earns the member's reward. The
    baseline at index t is over the judged members that reached it: their mean, or the mean of the
    others (`leave_one_out`). A step nobody else reached gets 0: there is nothing to compare with.
    Members that were not judged get zeros and enter no baseline. Raises ConfigError on a discount
    outside 0..1.

    Example: discount 0.5, rewards 1 and 0 after two steps each give [0.25, 0.5], [-0.25, -0.5].
    """

    def __init__(self, discount: float = 0.95, baseline: Baseline = "mean") -> None:
        if not 0.0 <= discount <= 1.0:
            raise ConfigError(
                f"a discount of {discount} is not between 0 and 1",
                where="credit.discount",
                help="0.95 lets a reward reach back some twenty steps",
            )
        self.discount = discount
        self.baseline = baseline

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        rows = [self.returns(member) for member in group.members]
        known = [row for row in rows if row is not None]
        columns = [
            [row[index] for row in known if index < len(row)]
            for index in range(max(map(len, known), default=0))
        ]
        return [
            [0.0] * len(member.steps)
            if row is None
            else [self.against(value, columns[index]) for index, value in enumerate(row)]
            for member, row in zip(group.members, rows, strict=True)
        ]

    def returns(self, member: Trajectory) -> list[float] | None:
        """Discounted return of each step; None for a member that was not judged."""
        if member.reward is None:
            return None
        ahead = member.reward
        row: list[float] = []
        for step in reversed(member.steps):
            ahead += sum(step.signals.values())
            row.append(ahead)
            ahead *= self.discount
        return row[::-1]

    def against(self, value: float, column: Sequence[float]) -> float:
        """`value` minus the baseline of its column; exactly 0 where the column is constant."""
        if min(column) == max(column):
            return 0.0
        stretch = len(column) / (len(column) - 1) if self.baseline == "leave_one_out" else 1.0
        return stretch * (value - fmean(column))
