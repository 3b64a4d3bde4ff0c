"""Success rates and differences with 95 % intervals, by percentile bootstrap over tasks.

Tasks are the unit: tries at one task are averaged first. The resampling is seeded, so a table can
be printed again to the last digit.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

RESAMPLES = 10_000


class Estimate(Struct, frozen=True):
    """A mean in 0..1 (or a difference in -1..1) with its 95 % interval over `n` tasks."""

    mean: float
    ci95: tuple[float, float]
    n: int


def estimate(values: Sequence[float], seed: int = 0) -> Estimate:
    """Mean of `values` (one a task). An empty sequence has mean nan."""
    if not values:
        return Estimate(float("nan"), (float("nan"), float("nan")), 0)
    array = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.percentile(array[picks].mean(axis=1), [2.5, 97.5])
    return Estimate(float(array.mean()), (float(low), float(high)), len(array))


def paired(
    before: Mapping[str, float | None], after: Mapping[str, float | None], seed: int = 0
) -> Estimate:
    """after - before over the tasks both could judge; None means masked and drops the pair."""
    pairs = [
        (float(before[task] or 0.0), float(after[task] or 0.0))
        for task in before
        if before[task] is not None and after.get(task) is not None
    ]
    return estimate([late - early for early, late in pairs], seed)


def wilson(hits: int, tried: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate; (0, 1) where nothing was tried.

    E.g. none of 40 is at most 8.8 %.
    """
    if tried == 0:
        return 0.0, 1.0
    z = 1.959964
    rate, z2 = hits / tried, z * z
    middle = (rate + z2 / (2 * tried)) / (1 + z2 / tried)
    spread = math.sqrt(rate * (1 - rate) / tried + z2 / (4 * tried * tried)) * z / (1 + z2 / tried)
    low = 0.0 if hits == 0 else middle - spread
    high = 1.0 if hits == tried else middle + spread
    return low, high
