"""Two policies on the same tasks: the paired difference, and whether the data decide it."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from agentrl.run.intervals import (
    NOTHING,
    Estimate,
    clusters_of,
    corrected_se,
    hidden_se,
    smallest_difference,
    student,
)

DRAWS = 10_000
EXACT = 13
"""Up to this many clusters every pattern of signs is counted instead of drawn."""


class Difference(Struct, frozen=True):
    """B - A over the tasks both played.

    `p` is two-sided, by `test`. `smallest` is the true difference this comparison would have found
    with 80 % power, in the metric's own unit; None where there are too few tasks to find any.
    """

    change: Estimate
    p: float
    test: str
    wins: int
    ties: int
    losses: int
    smallest: float | None

    def decisive(self, alpha: float = 0.05) -> bool:
        """Whether both the test and the interval exclude no difference."""
        low, high = self.change.ci95
        return self.p <= alpha and not low <= 0.0 <= high


def difference(
    before: Sequence[float],
    after: Sequence[float],
    families: Sequence[str],
    *,
    single: bool = False,
    bounded: bool = True,
) -> Difference:
    """after - before, position by position one task.

    The interval is Student's with C-1 degrees of freedom over clusters. The test is McNemar's exact
    one where each task was tried once (`single`) and tasks are independent, else a wild cluster
    bootstrap: the signs of whole clusters are flipped. `bounded` metrics lie in 0..1.
    """
    change = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    n = len(change)
    wins, losses = int((change > 0).sum()), int((change < 0).sum())
    if n == 0:
        return Difference(NOTHING, 1.0, "nothing to test", 0, 0, 0, None)
    clusters, by_family = clusters_of(families)
    count = int(clusters.max()) + 1
    binary = single and bool(np.isin(change, (-1.0, 0.0, 1.0)).all())
    if binary and not by_family:
        p, test = mcnemar(wins, losses), "exact McNemar"
    else:
        p = wild_bootstrap(change, clusters)
        unit = f"{count} families" if by_family else f"{n} tasks"
        test = f"wild cluster bootstrap over {unit}"
    se = corrected_se(list(change), clusters)
    est, smallest = _interval(change, count, by_family, se, bounded)
    return Difference(est, p, test, wins, n - wins - losses, losses, smallest)


def _interval(
    change: NDArray[np.float64], count: int, by_family: bool, se: float, bounded: bool
) -> tuple[Estimate, float | None]:
    n, mean = len(change), float(change.mean())
    method = "Student over " + (f"{count} families" if by_family else f"{n} tasks")
    if count < 2:
        unknown = (-1.0, 1.0) if bounded else (-math.inf, math.inf)
        return Estimate(mean, unknown, n, count, method), None
    spread = hidden_se(n) if se == 0.0 and bounded else se
    half = student(0.95, count - 1) * spread
    low, high = mean - half, mean + half
    smallest = smallest_difference(spread, count - 1) if spread else None
    if bounded:
        low, high = max(low, -1.0), min(high, 1.0)
        smallest = None if smallest is None or smallest > 1.0 else smallest
    return Estimate(mean, (low, high), n, count, method), smallest


def mcnemar(wins: int, losses: int) -> float:
    """Exact two-sided p of McNemar's test: among discordant tasks each side is equally likely."""
    discordant = wins + losses
    tail = sum(math.comb(discordant, i) for i in range(min(wins, losses) + 1))
    return float(min(1.0, 2 * tail / 2**discordant))


def wild_bootstrap(
    change: NDArray[np.float64], clusters: NDArray[np.int64], seed: int = 0
) -> float:
    """Two-sided p of "no difference": the share of sign patterns over clusters that part the two
    sides at least as far. Every pattern is counted for few clusters, else `DRAWS` are drawn."""
    sums = np.bincount(clusters, weights=change)
    seen = abs(sums.sum()) - 1e-9
    if len(sums) <= EXACT:
        return float((abs(patterns(len(sums)) @ sums) >= seen).mean())
    signs = np.random.default_rng(seed).integers(0, 2, (DRAWS, len(sums))) * 2.0 - 1.0
    as_far = int((abs(signs @ sums) >= seen).sum())
    return (as_far + 1) / (DRAWS + 1)


@lru_cache(maxsize=EXACT)
def patterns(count: int) -> NDArray[np.float64]:
    """Every pattern of signs over `count` clusters, [2^count, count]."""
    return np.array(list(product((-1.0, 1.0), repeat=count)))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    out = [0.0] * len(ps)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        worst = max(worst, min(1.0, ps[place] * (len(ps) - rank)))
        out[place] = worst
    return out
