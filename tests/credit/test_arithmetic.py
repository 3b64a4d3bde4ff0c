import pytest

from agentrl.credit.arithmetic import (
    centred,
    discounted,
    gae,
    rewards_of,
    whitened,
)
from agentrl.credit.overlong import overlong_penalty
from tests.credit.groups import member, step


def test_discounted_returns_agree_with_the_worked_numbers() -> None:
    assert discounted([0, 0, 1], 0.9) == pytest.approx([0.81, 0.9, 1.0])
    assert discounted([], 0.9) == []


def test_whitening_agrees_with_the_published_numbers() -> None:
    trained = [(1.0, 3), (0.0, 3), (0.0, 4), (1.0, 2), (0.5, 4), (0.5, 1)]
    rows = [discounted([0.0] * (n - 1) + [reward], 0.9) for reward, n in trained]
    got = whitened(rows)
    assert got[0] == pytest.approx([1.02632, 1.25257, 1.50396], abs=1e-5)
    assert got[1] == pytest.approx([-1.00991] * 3, abs=1e-5)
    assert got[2] == pytest.approx([-1.00991] * 4, abs=1e-5)
    assert got[3] == pytest.approx([1.25257, 1.50396], abs=1e-5)
    assert got[4] == pytest.approx([-0.0936, 0.00821, 0.12133, 0.24702], abs=1e-5)
    assert got[5] == pytest.approx([0.24702], abs=1e-5)


def test_one_number_cannot_be_whitened() -> None:
    assert whitened([[0.7], []]) == [[0.0], []]
    assert whitened([[0.1] * 3, [0.1] * 4]) == [[0.0] * 3, [0.0] * 4]


def test_turn_gae_agrees_with_the_worked_numbers() -> None:
    got = gae([0, 0, 1], [0.5, 0.6, 0.8], 1.0, 0.9)
    assert got == pytest.approx([0.442, 0.38, 0.2])
    assert [a + v for a, v in zip(got, [0.5, 0.6, 0.8], strict=True)] == pytest.approx(
        [0.942, 0.98, 1.0]
    )


def test_gae_over_turns_agrees_with_areal() -> None:
    assert gae([1, 2], [0, 0], 1.0, 0.5) == [2.0, 2.0]
    assert gae([1, 2], [0, 0], 1.0, 0.0) == [1.0, 2.0]


def test_gae_over_trained_tokens_agrees_with_the_published_numbers() -> None:
    values = [4, 5, 6, 7, 9]
    got = gae([0.1, 0.1, 0.1, 0.1, 1], values, 0.9, 0.8)
    returns = [a + v for a, v in zip(got, values, strict=True)]
    assert returns == pytest.approx([3.465348, 3.424095, 3.116799, 2.44, 1.0], abs=1e-5)
    assert whitened([got])[0] == pytest.approx(
        [1.017078, 0.661231, 0.214464, -0.358579, -1.534194], abs=1e-5
    )


def test_centring_gives_exact_zeros_where_there_is_nothing_to_compare() -> None:
    assert centred([0.1] * 7, "unbiased") == [0.0] * 7
    assert centred([3.0], "population") == [0.0]
    assert centred([1, 3], "population") == [-1.0, 1.0]
    assert centred([1, 1, 0]) == pytest.approx([1 / 3, 1 / 3, -2 / 3])


@pytest.mark.parametrize(
    ("length", "clamped", "line"),
    [(70, 0, 0), (80, 0, 0), (90, -0.5, -0.5), (100, -1, -1), (110, -1, -1.5)],
)
def test_the_overlong_penalty_falls_in_a_line(length: int, clamped: float, line: float) -> None:
    assert overlong_penalty(length, 100, 20) == pytest.approx(clamped)
    assert overlong_penalty(length, 100, 20, clamp=False) == pytest.approx(line)


def test_the_overlong_penalty_of_a_long_context_agrees_with_dapo() -> None:
    got = [overlong_penalty(length, 16384, 4096) for length in (12288, 14336, 16384)]
    assert got == [0.0, -0.5, -1.0]


def test_only_named_signals_are_rewards() -> None:
    one = member("a", 1.0, [step(0, signals={"exit": 127.0, "hit": 0.5}), step(1)])
    assert rewards_of(one, ()) == [0.0, 1.0]
    assert rewards_of(one, ("hit",)) == [0.5, 1.0]
    assert rewards_of(member("b", None, [step(0)]), ()) is None
