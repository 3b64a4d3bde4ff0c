"""Outcome credit: every step of a try gets how much better the try was than its siblings.

Notation: group of G judged members with rewards r; `mean` and `std` are over the judged ones, L_j
is the number of tokens member j sampled.

    grpo                   (r_i - mean) / (std + eps)           DeepSeekMath, arXiv 2402.03300
    dr_grpo                r_i - mean                           arXiv 2503.20783 (constant reducer)
    rloo                   r_i - mean of the others             arXiv 2402.14740
    max_rl                 (r_i - mean) / (mean + eps)          as SkyRL and prime-rl have it
    opo                    r_i - sum_j L_j r_j / sum_j L_j      arXiv 2505.23585
    reinforce_pp           discount^(tokens left) r_i, whitened over the step   arXiv 2501.03262
    reinforce_pp_baseline  r_i - mean, whitened over the step

Baselines are over rollouts, never over segments, so a rollout counts once however often its
context was rewritten.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentrl.credit.arithmetic import Std, deviation
from agentrl.credit.base import token_count
from agentrl.credit.overlong import overlong_penalty
from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group, Trajectory

Kind = Literal["grpo", "dr_grpo", "rloo", "max_rl", "opo", "reinforce_pp", "reinforce_pp_baseline"]
Scale = Literal["none", "unbiased", "population", "mean"]
Baseline = Literal["mean", "leave_one_out", "length_weighted", "none"]
Singleton = Literal["zero", "keep"]
Preset = Literal["paper", "trl", "verl"]


class Convention(Struct, frozen=True):
    """Where public projects differ: each choice changes the number.

    Attributes:
        std: what the centred reward is divided by; `unbiased` divides the variance by G - 1,
            `mean` divides by the mean reward (where that is not above 0, all are zeros).
        eps: added to the divisor.
        baseline: what is subtracted.
        singleton: the only judged member of a group teaches nothing (`zero`), or its reward is
            kept, divided by 1 + eps where there is a std (`keep`).
        whiten: the numbers are normalised over the trained tokens of the optimizer step.
        discount: for each sampled token that follows.
    """

    std: Scale = "none"
    eps: float = 0.0
    baseline: Baseline = "mean"
    singleton: Singleton = "zero"
    whiten: bool = False
    discount: float = 1.0


KINDS: dict[Kind, Convention] = {
    "grpo": Convention(std="unbiased", eps=1e-6),
    "dr_grpo": Convention(),
    "rloo": Convention(baseline="leave_one_out"),
    "max_rl": Convention(std="mean"),
    "opo": Convention(baseline="length_weighted"),
    "reinforce_pp": Convention(baseline="none", whiten=True),
    "reinforce_pp_baseline": Convention(whiten=True),
}

SCALES = {
    "none": "",
    "unbiased": "standard deviation (n - 1)",
    "population": "standard deviation (n)",
    "mean": "mean",
}
BASELINES = {
    "mean": "minus the group's mean",
    "leave_one_out": "minus the mean of the siblings",
    "length_weighted": "minus the group's mean weighted by sampled tokens",
    "none": "without a baseline",
}


class OutcomeCredit:
    """One advantage a member, the same for each of its steps.

    `kind` chooses the formula, `preset` another project's reading of it (verl: unbiased std, 1e-6,
    singletons kept; trl: unbiased std, 1e-4; paper: population std, no epsilon, the paper leaves
    both open), and any convention given by name wins over both. Members that were not judged get
    zeros and do not enter the baseline; neither does a group whose rewards are all equal teach
    anything, unless there is no baseline. `overlong_limit` and `overlong_buffer` (tokens sampled
    in the whole episode) add `overlong.overlong_penalty` to each reward first.

    `discount` below 1 needs `reinforce_pp`: then a token's number depends on how many follow it,
    and `assign` returns each step's mean. Raises ConfigError on what is out of range or would do
    nothing.

    Example: rewards [1, 0, 0, 1] give ±0.866024 (grpo), ±0.5 (dr_grpo), ±0.666667 (rloo).
    """

    def __init__(
        self,
        kind: Kind = "grpo",
        *,
        preset: Preset | None = None,
        std: Scale | None = None,
        eps: float | None = None,
        baseline: Baseline | None = None,
        singleton: Singleton | None = None,
        discount: float | None = None,
        overlong_limit: int | None = None,
        overlong_buffer: int | None = None,
        overlong_clamp: bool = True,
    ) -> None:
        chosen = preset_of(kind, preset)
        given = {
            "std": std, "eps": eps, "baseline": baseline, "singleton": singleton,
            "discount": discount,
        }  # fmt: skip
        chosen = replace(chosen, **{k: v for k, v in given.items() if v is not None})
        check(kind, chosen, overlong_limit, overlong_buffer)
        self.kind = kind
        self.convention = chosen
        self._overlong = (overlong_limit, overlong_buffer or 0, overlong_clamp)

    @property
    def whiten(self) -> bool:
        return self.convention.whiten

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        if self.convention.discount == 1.0:
            return [
                [value] * len(member.steps)
                for member, value in zip(group.members, self.members(group), strict=True)
            ]
        return [[fmean(step) for step in row] for row in self._decayed(group)]

    def assign_tokens(self, group: Group) -> list[list[list[float]]]:
        """One number for each sampled token."""
        return [
            [values[: token_count(step)] for step, values in zip(member.steps, row, strict=True)]
            for member, row in zip(group.members, self._decayed(group), strict=True)
        ]

    def members(self, group: Group) -> list[float]:
        """One number for each member, before any discount."""
        known = [member for member in group.members if member.reward is not None]
        rewards = [self.reward(member) for member in known]
        found = iter(advantages(rewards, self.convention, [tokens(m) for m in known]))
        return [0.0 if member.reward is None else next(found) for member in group.members]

    def reward(self, member: Trajectory) -> float:
        """A judged member's reward, with what being too long costs."""
        limit, buffer, clamp = self._overlong
        assert member.reward is not None
        if limit is None:
            return member.reward
        return member.reward + overlong_penalty(tokens(member), limit, buffer, clamp=clamp)

    def describe(self) -> str:
        """The formula in words."""
        c = self.convention
        parts = [f"{self.kind}: reward {BASELINES[c.baseline]}"]
        if c.std != "none":
            parts.append(f"over the {SCALES[c.std]}" + (f" + {c.eps:g}" if c.eps else ""))
        if c.discount != 1.0:
            parts.append(f"discounted by {c.discount:g} a token")
        if c.whiten:
            parts.append("whitened over the step's tokens")
        if c.baseline != "none":
            kept = "keeps its reward" if c.singleton == "keep" else "teaches nothing"
            parts.append(f"a group of one {kept}")
        limit, buffer, clamp = self._overlong
        if limit is not None:
            floor = "at least -1" if clamp else "unbounded"
            parts.append(f"over-long penalty from {limit - buffer} to {limit} tokens, {floor}")
        return ", ".join(parts)

    def _decayed(self, group: Group) -> list[list[list[float]]]:
        """Each token's number; a step without recorded tokens counts as one."""
        discount = self.convention.discount
        out = []
        for member, value in zip(group.members, self.members(group), strict=True):
            left = sum(max(token_count(step), 1) for step in member.steps)
            row = []
            for step in member.steps:
                count = max(token_count(step), 1)
                row.append([value * discount ** (left - 1 - place) for place in range(count)])
                left -= count
            out.append(row)
        return out


def check(kind: Kind, c: Convention, limit: int | None, buffer: int | None) -> None:
    """Raises ConfigError for what cannot be, or would do nothing."""
    if c.eps < 0:
        raise ConfigError(
            f"eps is {c.eps}, but it is added to a standard deviation",
            where="credit.eps",
            help="give a small positive number such as 1e-6, or 0",
        )
    if not 0.0 < c.discount <= 1.0:
        raise ConfigError(
            f"a discount of {c.discount} is not between 0 and 1", where="credit.discount"
        )
    if c.discount != 1.0 and kind != "reinforce_pp":
        raise ConfigError(
            f"discount has no effect on {kind}: it has one number a rollout",
            where="credit.discount",
            help='use kind = "reinforce_pp", or the scheme `returns`',
        )
    if (limit is None) != (buffer is None) or (limit and not 0 < (buffer or 0) <= limit):
        raise ConfigError(
            f"overlong_limit {limit} and overlong_buffer {buffer} do not go together",
            where="credit.overlong_limit",
            help="give both, in tokens of a whole episode: the penalty grows over the last "
            "`overlong_buffer` tokens before `overlong_limit`",
        )


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


def tokens(member: Trajectory) -> int:
    """Tokens the member sampled."""
    return sum(map(token_count, member.steps))


def advantages(
    rewards: Sequence[float], convention: Convention, lengths: Sequence[int] = ()
) -> list[float]:
    """Rewards [G] -> advantages [G]. Exact zeros where all rewards are equal.

    `lengths` [G] weigh the mean of a length-weighted baseline; without them, or where all are 0,
    members weigh the same.
    """
    count = len(rewards)
    if convention.baseline == "none":
        return [float(reward) for reward in rewards]
    if count == 1 and convention.singleton == "keep":
        scale = 1.0 + convention.eps if convention.std not in ("none", "mean") else 1.0
        return [rewards[0] / scale]
    if count < 2 or min(rewards) == max(rewards):
        return [0.0] * count
    mean = baseline = fmean(rewards)
    if convention.baseline == "length_weighted" and any(lengths):
        weighted = sum(n * reward for n, reward in zip(lengths, rewards, strict=True))
        baseline = weighted / sum(lengths)
    if convention.std == "mean":
        if mean <= 0.0:
            return [0.0] * count
        scale = mean + convention.eps
    else:
        std: Std = convention.std
        scale = deviation(rewards, std, convention.eps)
    stretch = count / (count - 1) if convention.baseline == "leave_one_out" else 1.0
    return [stretch * (reward - baseline) / scale for reward in rewards]
