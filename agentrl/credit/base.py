"""The contract of a credit scheme, who counts in a baseline, and what it may offer besides."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agentrl.trajectory.records import Group, Step


class CreditAssigner(Protocol):
    """Says which step earned it. Pure."""

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member. Zeros mean: learn nothing from this."""
        ...


@runtime_checkable
class TokenCredit(Protocol):
    """Optional capability: a number for each sampled token, where one a step is too coarse."""

    def assign_tokens(self, group: Group) -> list[list[list[float]]]:
        """Member -> step -> one number for each token sampled in it."""
        ...


@runtime_checkable
class Reported(Protocol):
    """Optional capability: says how well the scheme could work on a group."""

    def report(self, group: Group) -> dict[str, float]:
        """Measures by name, e.g. the share of states that nobody else reached."""
        ...


@runtime_checkable
class Described(Protocol):
    """Optional capability: the formula with every convention filled in."""

    def describe(self) -> str:
        """One sentence a person can check against a paper."""
        ...


@runtime_checkable
class BatchScaled(Protocol):
    """Optional capability: numbers that only mean something once a whole step's tokens are known.

    Where `whiten` is True, the mean over the trained tokens of the optimizer step is subtracted and
    the result divided by their deviation (`arithmetic.whitened`).
    """

    @property
    def whiten(self) -> bool: ...


def judged(group: Group) -> list[float]:
    """Rewards of those members that were judged; a broken episode is not a zero."""
    return [member.reward for member in group.members if member.reward is not None]


def token_count(step: Step) -> int:
    """Tokens sampled in a step; 0 where none were recorded."""
    return len(step.tokens.sampled) if step.tokens is not None else 0


def assign_tokens(
    credit: CreditAssigner, group: Group, steps: Sequence[Sequence[float]] | None = None
) -> list[list[list[float]]]:
    """A scheme's number for every sampled token: its own, or the step's for each of its tokens.

    `steps` is what `assign` said, where that is known already.
    """
    if isinstance(credit, TokenCredit):
        return credit.assign_tokens(group)
    rows = credit.assign(group) if steps is None else steps
    return [
        [[value] * token_count(step) for step, value in zip(member.steps, row, strict=True)]
        for member, row in zip(group.members, rows, strict=True)
    ]


def report(credit: CreditAssigner, group: Group) -> dict[str, float]:
    """What a scheme says of its work on a group; nothing where it says nothing."""
    return credit.report(group) if isinstance(credit, Reported) else {}


def describe(credit: CreditAssigner) -> str:
    """A scheme's formula in words, or the first sentence of its documentation."""
    if isinstance(credit, Described):
        return credit.describe()
    told = (type(credit).__doc__ or type(credit).__name__).strip()
    return told.split("\n\n")[0].replace("\n", " ")


def whitens(credit: CreditAssigner) -> bool:
    """Whether the scheme's numbers are to be normalised over the optimizer step."""
    return isinstance(credit, BatchScaled) and credit.whiten
