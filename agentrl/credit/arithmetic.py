"""The sums that credit schemes share: pure functions of plain lists.

Shapes: K steps or turns of one member, T positions of one row, G members of a group.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from agentrl.trajectory.records import Step, Trajectory

Std = Literal["none", "unbiased", "population"]
"""`unbiased` divides the variance by n - 1, `population` by n, `none` divides by nothing."""


def deviation(values: Sequence[float], std: Std, eps: float = 0.0) -> float:
    """The divisor of centred values: 1 without a std, else std + eps. Needs two values."""
    if std == "none":
        return 1.0
    mean = fmean(values)
    freedom = len(values) - (1 if std == "unbiased" else 0)
    squares = sum((value - mean) ** 2 for value in values)
    return float((squares / freedom) ** 0.5 + eps)


def centred(values: Sequence[float], std: Std = "none", eps: float = 0.0) -> list[float]:
    """values [n] minus their mean, over their deviation.

    Exact zeros where there is only one, or where all are equal, whatever their rounding.
    """
    if len(values) < 2 or min(values) == max(values):
        return [0.0] * len(values)
    mean, scale = fmean(values), deviation(values, std, eps)
    return [(value - mean) / scale for value in values]


def discounted(rewards: Sequence[float], discount: float) -> list[float]:
    """Return of each step: G_k = r_k + discount * G_{k+1}, [K] -> [K].

    Example: [0, 0, 1] at 0.9 gives [0.81, 0.9, 1].
    """
    out: list[float] = []
    ahead = 0.0
    for reward in reversed(rewards):
        ahead = reward + discount * ahead
        out.append(ahead)
    return out[::-1]


def gae(
    rewards: Sequence[float], values: Sequence[float], discount: float, lam: float
) -> list[float]:
    """Generalised advantage estimates of K turns or of K trained tokens (arXiv 1506.02438).

    delta_k = r_k + discount * V_{k+1} - V_k, A_k = delta_k + discount * lam * A_{k+1}; the value
    after the last one is 0. Example: V [.5, .6, .8], r [0, 0, 1], discount 1, lam .9 give
    [.442, .38, .2].
    """
    out: list[float] = []
    ahead = after = 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        ahead = (reward + discount * after) - value + discount * lam * ahead
        after = value
        out.append(ahead)
    return out[::-1]


def whitened(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Rows of trained positions only, minus the mean of them all, over their deviation.

    (x - mean) / sqrt(var + 1e-8), var with n - 1. One position, or equal ones, give zeros.
    """
    flat = [value for row in rows for value in row]
    if len(flat) < 2 or min(flat) == max(flat):
        return [[0.0] * len(row) for row in rows]
    mean = fmean(flat)
    scale = (sum((value - mean) ** 2 for value in flat) / (len(flat) - 1) + 1e-8) ** 0.5
    return [[(value - mean) / scale for value in row] for row in rows]


def earned(step: Step, signals: Sequence[str]) -> float:
    """What a step earned at once: the sum of the named signals it carries."""
    return sum(step.signals.get(name, 0.0) for name in signals)


def rewards_of(member: Trajectory, signals: Sequence[str]) -> list[float] | None:
    """What each step earned [K]; the last one also earns the member's reward.

    None for a member that was not judged. Only signals that are named count: an exit code is a
    signal too, and no reward.
    """
    if member.reward is None:
        return None
    row = [earned(step, signals) for step in member.steps]
    if row:
        row[-1] += member.reward
    return row


def carried_by(members: Sequence[Trajectory], signal: str) -> float:
    """Share of the members' steps that carry a signal; 0 of no steps."""
    steps = [step for member in members for step in member.steps]
    return sum(signal in step.signals for step in steps) / max(len(steps), 1)
