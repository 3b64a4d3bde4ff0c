"""pass@k and pass^k: the worked numbers, where they agree, and where they are not defined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import ConfigError
from agentrl.run.passes import pass_all, pass_at


def test_the_worked_numbers() -> None:
    assert pass_at(10, 3, 5) == pytest.approx(0.9167, abs=1e-4)
    assert pass_all(10, 8, 3) == pytest.approx(0.4667, abs=1e-4)


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_one_try_is_the_share_and_more_tries_part_the_two(tally: tuple[int, int]) -> None:
    n, c = tally
    assert pass_at(n, c, 1) == pytest.approx(c / n)
    assert pass_all(n, c, 1) == pytest.approx(c / n)
    for k in range(2, n + 1):
        assert pass_at(n, c, k) >= pass_at(n, c, k - 1) - 1e-12
        assert pass_all(n, c, k) <= pass_all(n, c, k - 1) + 1e-12


def test_more_successes_asked_for_than_tries_is_refused() -> None:
    for chance in (pass_at, pass_all):
        with pytest.raises(ConfigError, match="at least 5 tries"):
            chance(4, 2, 5)
        with pytest.raises(ConfigError):
            chance(4, 5, 2)
