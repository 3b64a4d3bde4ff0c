"""The contract of a credit scheme, and who counts in a baseline."""

from typing import Protocol

from agentrl.trajectory.records import Group


class CreditAssigner(Protocol):
    """Says which step earned it. Pure."""

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member. Zeros mean: learn nothing from this."""
        ...


def judged(group: Group) -> list[float]:
    """Rewards of those members that were judged; a broken episode is not a zero."""
    return [member.reward for member in group.members if member.reward is not None]
