"""A weighted sum of credit schemes."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.credit.base import (
    CreditAssigner,
    assign_tokens,
    describe,
    report,
    whitens,
)
from agentrl.errors import ConfigError
from agentrl.plugins import find
from agentrl.trajectory.records import Group


class MixCredit:
    """Adds up schemes, each with a weight.

    A part is a table: `type` names the scheme, `weight` (1 if left out) multiplies its numbers,
    and whatever else it holds are the scheme's own keys. The sum is whitened over the optimizer
    step if one of its parts asks for that. Raises ConfigError on a part without a type, an unknown
    key, or no part at all.

    Example: [{type = "outcome", kind = "dr_grpo"}, {type = "anchor", weight = 0.5}].
    """

    def __init__(self, parts: tuple[dict[str, Any], ...] = ({"type": "outcome"},)) -> None:
        if not parts:
            raise ConfigError(
                "a mix of no schemes is no scheme",
                where="credit.parts",
                help='give at least one, e.g. parts = [{type = "outcome"}]',
            )
        self.parts = [built(part, f"credit.parts[{n}]") for n, part in enumerate(parts)]

    @property
    def whiten(self) -> bool:
        return any(whitens(part) for _, _, part in self.parts)

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        total = [[0.0] * len(member.steps) for member in group.members]
        for _, weight, part in self.parts:
            for row, more in zip(total, part.assign(group), strict=True):
                for index, value in enumerate(more):
                    row[index] += weight * value
        return total

    def assign_tokens(self, group: Group) -> list[list[list[float]]]:
        """One number for each sampled token."""
        found = [assign_tokens(part, group) for _, _, part in self.parts]
        weights = [weight for _, weight, _ in self.parts]
        return [
            [
                [sumprod(weights, values) for values in zip(*steps, strict=True)]
                for steps in zip(*members, strict=True)
            ]
            for members in zip(*found, strict=True)
        ]

    def report(self, group: Group) -> dict[str, float]:
        """What the parts say, each under its name."""
        return {
            f"{name}.{key}": value
            for name, _, part in self.parts
            for key, value in report(part, group).items()
        }

    def describe(self) -> str:
        """The parts in words."""
        return " + ".join(f"{weight:g} x ({describe(part)})" for _, weight, part in self.parts)


def sumprod(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def built(part: Mapping[str, Any], where: str) -> tuple[str, float, CreditAssigner]:
    """(name, weight, scheme) of a part; errors name `where` it stands."""
    own = dict(part)
    name, weight = own.pop("type", None), own.pop("weight", 1.0)
    if not isinstance(name, str):
        raise ConfigError("a part names no scheme", where=where, help='write type = "outcome"')
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise ConfigError(f"a weight must be a number, got {weight!r}", where=where)
    scheme = find("credit", name)
    known = list(inspect.signature(scheme).parameters)
    if unknown := [key for key in own if key not in known]:
        raise ConfigError(
            f"credit scheme {name!r} does not take `{unknown[0]}`",
            where=where,
            help=f"its keys are {', '.join(known)}",
        )
    frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
    made: CreditAssigner = scheme(**frozen)
    return name, float(weight), made
