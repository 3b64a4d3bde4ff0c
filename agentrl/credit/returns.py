"""Return credit: what was still to come after a step, against siblings at the same step."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from agentrl.credit.arithmetic import carried_by, discounted, rewards_of
from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group, Trajectory

Baseline = Literal["mean", "leave_one_out"]


class ReturnsCredit:
    """Discounted return of each step, minus the siblings' return at that step index.

    R_t = signals_t + discount * R_{t+1}, and the last step also earns the member's reward. Of a
    step's signals those named in `signals` count. The baseline at index t is over the judged
    members that reached it: their mean, or the mean of the others (`leave_one_out`: TRLOO). A step
    nobody else reached gets 0: there is nothing to compare with. Members that were not judged get
    zeros and enter no baseline. Raises ConfigError on a discount outside 0..1.

    Example: discount 0.5, rewards 1 and 0 after two steps each give [0.25, 0.5], [-0.25, -0.5].
    """

    def __init__(
        self,
        discount: float = 0.95,
        baseline: Baseline = "mean",
        signals: tuple[str, ...] = (),
    ) -> None:
        self.discount = checked_discount(discount)
        self.baseline = baseline
        self.signals = signals

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        rows = [self.returns(member) for member in group.members]
        known = [row for row in rows if row is not None]
        columns = columns_of(known)
        return [
            [0.0] * len(member.steps)
            if row is None
            else [self.against(value, columns[index]) for index, value in enumerate(row)]
            for member, row in zip(group.members, rows, strict=True)
        ]

    def report(self, group: Group) -> dict[str, float]:
        """Share of steps that carry each named signal."""
        return {f"carried.{name}": carried_by(group.members, name) for name in self.signals}

    def describe(self) -> str:
        """The formula in words."""
        counted = f" + {' + '.join(self.signals)}" if self.signals else ""
        of = "siblings" if self.baseline == "leave_one_out" else "group"
        return (
            f"returns: reward{counted} discounted by {self.discount:g} a step, minus the mean of "
            f"the {of} at the same step; a step nobody else reached teaches nothing"
        )

    def returns(self, member: Trajectory) -> list[float] | None:
        """Discounted return of each step; None for a member that was not judged."""
        row = rewards_of(member, self.signals)
        return None if row is None else discounted(row, self.discount)

    def against(self, value: float, column: Sequence[float]) -> float:
        """`value` minus the baseline of its column; exactly 0 where the column is constant."""
        if min(column) == max(column):
            return 0.0
        stretch = len(column) / (len(column) - 1) if self.baseline == "leave_one_out" else 1.0
        return stretch * (value - fmean(column))


def checked_discount(discount: float, name: str = "discount") -> float:
    """The discount itself. Raises ConfigError outside 0..1."""
    if not 0.0 <= discount <= 1.0:
        raise ConfigError(
            f"a {name} of {discount} is not between 0 and 1",
            where=f"credit.{name}",
            help="0.95 lets a reward reach back some twenty steps",
        )
    return discount


def columns_of(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """The values of all rows that are long enough, by index."""
    return [
        [row[index] for row in rows if index < len(row)]
        for index in range(max(map(len, rows), default=0))
    ]
