"""Several tries at a task: pass@k (one of k succeeds) and pass^k (all k succeed)."""

from math import comb

from agentrl.errors import ConfigError


def pass_at(n: int, c: int, k: int) -> float:
    """Unbiased chance that at least one of `k` tries succeeds, from `c` successes in `n` tries.

    1 - C(n-c,k) / C(n,k). Raises ConfigError where n < k: it is not defined.
    """
    _check(n, c, k)
    return 1.0 - comb(n - c, k) / comb(n, k)


def pass_all(n: int, c: int, k: int) -> float:
    """Unbiased chance that `k` tries all succeed: C(c,k) / C(n,k). Raises like `pass_at`."""
    _check(n, c, k)
    return comb(c, k) / comb(n, k)


def ks(tries: int) -> list[int]:
    """The k that are reported of `tries` tries: 1, 2, 4, ... and all."""
    return sorted({tries, *(2**i for i in range(tries.bit_length()) if 2**i <= tries)})


def _check(n: int, c: int, k: int) -> None:
    if k < 1 or n < k:
        raise ConfigError(
            f"pass@{k} needs at least {max(k, 1)} tries at a task, there are {n}",
            help="measure with more tries: `agentrl eval -k N`",
        )
    if not 0 <= c <= n:
        raise ConfigError(f"{c} successes in {n} tries cannot be")
