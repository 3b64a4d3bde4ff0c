"""Success rates and differences with 95 % intervals that know which tasks belong together.

Tasks are the unit: tries at one task are averaged first, which leaves the sampling error of the
tries inside the spread of the task means (Var = Var_between/n + mean p(1-p)/(nK)). Tasks of one
family rise and fall together, so families are the clusters wherever there are enough of them.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

RESAMPLES = 10_000
FEWEST_FAMILIES = 6
"""Below this a cluster is one task: with fewer families no sign test can reach 5 %, and an interval
over them is too wide to say anything. What is said then holds for these families only."""

POWER = 0.80
"""How surely the smallest detectable difference would be found."""


class Estimate(Struct, frozen=True):
    """A mean in 0..1 (or a difference in -1..1) with its 95 % interval over `n` tasks."""

    mean: float
    ci95: tuple[float, float]
    n: int
    clusters: int = 0  # what was taken as independent: families, or tasks where those are few
    method: str = "bootstrap over tasks"


NOTHING = Estimate(float("nan"), (float("nan"), float("nan")), 0)


def estimate(values: Sequence[float], seed: int = 0) -> Estimate:
    """Mean of `values` (one a task), percentile bootstrap. An empty sequence has mean nan.

    The resampling is seeded, so a table can be printed again to the last digit.
    """
    if not values:
        return NOTHING
    array = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.percentile(array[picks].mean(axis=1), [2.5, 97.5])
    return Estimate(float(array.mean()), (float(low), float(high)), len(array), len(array))


def clusters_of(families: Sequence[str]) -> tuple[NDArray[np.int64], bool]:
    """A cluster number for each task, and whether clusters are families (else single tasks)."""
    _, numbers = np.unique(np.asarray(families, dtype=str), return_inverse=True)
    if len(families) and numbers.max() + 1 >= FEWEST_FAMILIES:
        return numbers.astype(np.int64), True
    return np.arange(len(families), dtype=np.int64), False


def clustered_se(values: Sequence[float], clusters: Sequence[int] | NDArray[np.int64]) -> float:
    """sqrt(sum over clusters of (sum of (s_i - mean))^2) / n, without small-sample correction."""
    array = np.asarray(values, dtype=np.float64)
    sums = np.bincount(np.asarray(clusters), weights=array - array.mean())
    return float(np.sqrt((sums**2).sum()) / len(array))


def corrected_se(values: Sequence[float], clusters: NDArray[np.int64]) -> float:
    """`clustered_se` times sqrt(C / (C-1)); with single tasks the usual s / sqrt(n)."""
    count = int(clusters.max()) + 1
    return clustered_se(values, clusters) * math.sqrt(count / (count - 1)) if count > 1 else 0.0


def rate(values: Sequence[float], families: Sequence[str], tries: int = 1) -> Estimate:
    """A mean of values in 0..1, one a task, with a Wilson interval.

    For one try a task and independent tasks it is Wilson's own. Otherwise n is the effective
    sample size p(1-p)/SE^2 under the clustered SE, at most tasks times tries, and the critical
    value is Student's with C-1 degrees of freedom. Where all or none succeed no SE can be seen and
    n is the number of tasks (0 of 40: 0 to 8.8 %).
    """
    n = len(values)
    if not n:
        return NOTHING
    mean = float(np.mean(values))
    clusters, by_family = clusters_of(families)
    count = int(clusters.max()) + 1
    unit = f"clustered by {count} families" if by_family else f"over {n} tasks"
    se = corrected_se(values, clusters)
    binary = all(value in (0.0, 1.0) for value in values)
    if se == 0.0 or (binary and not by_family):
        bounds = wilson(mean, n, normal(0.95))
    else:
        size = min(max(mean * (1 - mean) / se**2, 1.0), float(n * tries))
        bounds = wilson(mean, size, student(0.95, count - 1))
    return Estimate(mean, bounds, n, count, f"Wilson {unit}")


def wilson(share: float, n: float, critical: float) -> tuple[float, float]:
    """Wilson's score interval for a share of `n` trials."""
    z2 = critical**2 / n
    centre = (share + z2 / 2) / (1 + z2)
    half = critical / (1 + z2) * math.sqrt(share * (1 - share) / n + z2 / (4 * n))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def smallest_difference(se: float, freedom: int | None = None) -> float:
    """What a 5 % two-sided test finds with 80 % power: 2.8 standard errors.

    `freedom` (degrees of freedom) replaces the normal quantiles by Student's.
    """
    if freedom is None:
        return (normal(0.95) + normal(2 * POWER - 1)) * se
    return (student(0.95, freedom) + student(2 * POWER - 1, freedom)) * se


def independent_difference(values: Sequence[float], families: Sequence[str]) -> float | None:
    """The smallest difference a second, equally noisy policy would have to show on these tasks.

    The standard error is sqrt(2) times this policy's own, as if nothing were paired; pairing on
    the same tasks makes it smaller. None where no difference could be found.
    """
    if len(values) < 2:
        return None
    clusters, _ = clusters_of(families)
    se = corrected_se(values, clusters)
    if se == 0.0:
        se = hidden_se(len(values))
    found = smallest_difference(math.sqrt(2) * se, int(clusters.max()))
    return found if found <= 1.0 else None


def hidden_se(n: int) -> float:
    """A standard error where `n` tasks showed no spread: that of the largest share they allow."""
    return math.sqrt(wilson(0.0, n, normal(0.95))[1] / n)


def normal(confidence: float) -> float:
    """The two-sided quantile of the normal distribution, 1.96 at 0.95."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


@lru_cache(maxsize=1024)
def student(confidence: float, freedom: int) -> float:
    """The two-sided quantile of Student's distribution, by bisection on its closed form."""
    if freedom > 2_000:
        return normal(confidence)
    low, high = 0.0, 1.0
    while _inside(high, freedom) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _inside(t: float, freedom: int) -> float:
    """P(|T| < t) for whole degrees of freedom (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cos2 = math.cos(angle) ** 2
    if freedom == 1:
        return 2 * angle / math.pi
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total, step = term, 2 + odd
    while step < freedom:
        term *= cos2 * (step - 1) / step
        total += term
        step += 2
    head = math.sin(angle) * total
    return 2 / math.pi * (angle + head) if odd else head
