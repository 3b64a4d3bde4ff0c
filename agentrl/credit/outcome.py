"""Outcome credit: every step of a try gets how much better the try was than its siblings.

Notation: group of G judged members with rewards r; `mean` and `std` are over the judged ones.

    grpo      (r_i - mean) / (std + eps)               DeepSeekMath, arXiv 2402.03300
    dr_grpo   r_i - mean                               arXiv 2503.20783 (with a constant reducer)
    rloo      r_i - mean of the others                 arXiv 2402.14740

Baselines are over rollouts, never over segments, so a rollout counts once however often its
context was rewritten.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentrl.credit.base import judged
from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group

Kind = Literal["grpo", "dr_grpo", "rloo"]
Std = Literal["none", "unbiased", "population"]
Baseline = Literal["mean", "leave_one_out"]
Singleton = Literal["zero", "keep"]
Preset = Literal["paper", "trl", "verl"]


class Convention(Struct, frozen=True):
    """Where public projects differ: each choice changes the number.

    Attributes:
        std: what the centred reward is divided by; `unbiased` divides the variance by G - 1.
        eps: added to the std.
        baseline: what is subtracted.
        singleton: the only judged member of a group teaches nothing (`zero`), or its reward is
            kept, divided by 1 + eps where there is a std (`keep`).
    """

    std: Std = "none"
    eps: float = 0.0
    baseline: Baseline = "mean"
    singleton: Singleton = "zero"


KINDS: dict[Kind, Convention] = {
    "grpo": Convention(std="unbiased", eps=1e-6),
    "dr_grpo": Convention(),
    "rloo": Convention(baseline="leave_one_out"),
}


class OutcomeCredit:
    """One advantage a member, the same for each of its steps.

    `kind` chooses the formula, `preset` another project's reading of it (verl: unbiased std, 1e-6,
    singletons kept; trl: unbiased std, 1e-4; paper: population std, no epsilon, the paper leaves
    both open), and any convention given by name wins over both. Members that were not judged get
    zeros and do not enter the baseline; neither does a group whose rewards are all equal teach
    anything. Raises ConfigError on a negative `eps`.

    Example: rewards [1, 0, 0, 1] give ±0.866024 (grpo), ±0.5 (dr_grpo), ±0.666667 (rloo).
    """

    def __init__(
        self,
        kind: Kind = "grpo",
        *,
        preset: Preset | None = None,
        std: Std | None = None,
        eps: float | None = None,
        baseline: Baseline | None = None,
        singleton: Singleton | None = None,
    ) -> None:
        chosen = preset_of(kind, preset)
        given = {"std": std, "eps": eps, "baseline": baseline, "singleton": singleton}
        chosen = replace(chosen, **{k: v for k, v in given.items() if v is not None})
        if chosen.eps < 0:
            raise ConfigError(
                f"eps is {chosen.eps}, but it is added to a standard deviation",
                where="credit.eps",
                help="give a small positive number such as 1e-6, or 0",
            )
        self.convention = chosen

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        known = iter(advantages(judged(group), self.convention))
        return [
            [0.0 if member.reward is None else next(known)] * len(member.steps)
            for member in group.members
        ]


def preset_of(kind: Kind, preset: Preset | None) -> Convention:
    """`kind` as `preset` reads it."""
    base = KINDS[kind]
    if preset == "verl":
        return replace(base, singleton="keep")
    if preset == "trl" and kind == "grpo":
        return replace(base, eps=1e-4)
    if preset == "paper" and kind == "grpo":
        return replace(base, std="population", eps=0.0)
    return base


def advantages(rewards: Sequence[float], convention: Convention) -> list[float]:
    """Rewards [G] -> advantages [G]. Exact zeros where all rewards are equal."""
    count = len(rewards)
    if count == 1 and convention.singleton == "keep":
        scale = 1.0 + convention.eps if convention.std != "none" else 1.0
        return [rewards[0] / scale]
    if count < 2 or min(rewards) == max(rewards):
        return [0.0] * count
    mean = fmean(rewards)
    stretch = count / (count - 1) if convention.baseline == "leave_one_out" else 1.0
    scale = deviation(rewards, mean, convention)
    return [stretch * (reward - mean) / scale for reward in rewards]


def deviation(rewards: Sequence[float], mean: float, convention: Convention) -> float:
    """The divisor: 1 without a std, else std + eps."""
    if convention.std == "none":
        return 1.0
    freedom = len(rewards) - (1 if convention.std == "unbiased" else 0)
    squares = sum((reward - mean) ** 2 for reward in rewards)
    return float((squares / freedom) ** 0.5 + convention.eps)
