"""Intervals: over tasks, by family, paired, repeatable, and as sure as they say."""

import math

import numpy as np
import pytest

from agentrl.run.intervals import (
    FEWEST_FAMILIES,
    clustered_se,
    estimate,
    hidden_se,
    independent_difference,
    normal,
    rate,
    smallest_difference,
    student,
    wilson,
)


def test_an_interval_holds_the_mean_and_shrinks_with_the_root_of_n() -> None:
    few, many = estimate([0.0, 1.0] * 20), estimate([0.0, 1.0] * 320)
    assert few.mean == many.mean == 0.5
    assert few.ci95[0] < 0.5 < few.ci95[1]
    ratio = (few.ci95[1] - few.ci95[0]) / (many.ci95[1] - many.ci95[0])
    assert ratio == pytest.approx(4.0, rel=0.1)


def test_the_width_is_that_of_the_normal_approximation() -> None:
    found = estimate([0.0] * 100 + [1.0] * 100)
    assert found.ci95[1] - found.mean == pytest.approx(1.96 * 0.5 / math.sqrt(200), rel=0.08)


def test_the_same_numbers_give_the_same_interval() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert estimate(values) == estimate(values)


def test_nothing_measured_is_not_zero() -> None:
    assert math.isnan(estimate([]).mean)
    assert math.isnan(rate([], []).mean)


def test_clusters_of_two_widen_the_standard_error() -> None:
    values = [1.0, 1.0, 0.0, 0.0]
    assert clustered_se(values, [0, 0, 1, 1]) == pytest.approx(0.3536, abs=1e-4)
    naive = np.std(values, ddof=1) / 2
    assert naive == pytest.approx(0.2887, abs=1e-4)


def test_none_of_forty_may_still_be_nine_in_a_hundred() -> None:
    assert wilson(0.0, 40, normal(0.95)) == pytest.approx((0.0, 0.088), abs=1e-3)
    assert rate([0.0] * 40, ["f"] * 40).ci95 == pytest.approx((0.0, 0.088), abs=1e-3)
    assert rate([1.0] * 40, ["f"] * 40).ci95 == pytest.approx((0.912, 1.0), abs=1e-3)


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.706), (2, 4.303), (5, 2.571), (9, 2.262), (30, 2.042), (99, 1.984)],
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, value: float) -> None:
    assert student(0.95, freedom) == pytest.approx(value, abs=1e-3)
    assert student(0.95, 5_000) == normal(0.95) == pytest.approx(1.96, abs=1e-4)


def test_the_smallest_detectable_difference_is_2_8_standard_errors() -> None:
    """A fifth of the tasks discordant."""
    assert smallest_difference(math.sqrt(0.2 / 100)) == pytest.approx(0.125, abs=1e-3)
    assert smallest_difference(math.sqrt(0.2 / 500)) == pytest.approx(0.056, abs=1e-3)
    assert smallest_difference(0.1, 5) > smallest_difference(0.1)
    assert smallest_difference(hidden_se(100)) > 0.0


def test_families_are_the_clusters_where_there_are_enough() -> None:
    families = [f"f{i}" for i in range(10) for _ in range(8)]
    values = [float(i % 2) for i in range(10) for _ in range(8)]  # all or nothing by family
    clustered, alone = rate(values, families), rate(values, ["f"] * 80)
    assert (clustered.clusters, alone.clusters) == (10, 80)
    assert "10 families" in clustered.method
    width = [one.ci95[1] - one.ci95[0] for one in (clustered, alone)]
    assert width[0] > 2 * width[1]
    few = rate(values[:40], families[:40])
    assert len(set(families[:40])) < FEWEST_FAMILIES
    assert few.clusters == 40


def test_what_a_second_policy_must_differ_by_is_said_or_unknown() -> None:
    assert independent_difference([1.0], ["f"]) is None
    few = independent_difference([0.0, 1.0] * 20, ["f"] * 40)
    many = independent_difference([0.0, 1.0] * 200, ["f"] * 400)
    assert few is not None
    assert many is not None
    assert 0.09 < many < few < 0.5
    assert independent_difference([0.0] * 40, ["f"] * 40) == pytest.approx(0.19, abs=0.01)


@pytest.mark.parametrize(
    ("share", "families", "each", "tries", "alike"),
    [
        (0.5, 1, 100, 1, 0.0),
        (0.1, 1, 100, 1, 0.0),
        (0.3, 10, 20, 1, 0.1),
        (0.1, 20, 10, 1, 0.05),
        (0.5, 40, 5, 1, 0.2),
        (0.3, 12, 8, 4, 0.1),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    share: float, families: int, each: int, tries: int, alike: float
) -> None:
    """93 to 97 % of the 95 % intervals; `alike` is the correlation of tasks of one family."""
    rng = np.random.default_rng(20_261_130)
    names = [f"f{i:02}" for i in range(families) for _ in range(each)]
    size = 1_500
    if alike:
        spread = 1 / alike - 1
        chance = rng.beta(share * spread, (1 - share) * spread, (size, families))
    else:
        chance = np.full((size, families), share)
    drawn = rng.binomial(tries, np.repeat(chance, each, axis=1)) / tries
    held = 0
    for values in drawn.tolist():
        low, high = rate(values, names, tries).ci95
        held += low <= share <= high
    assert 0.93 <= held / size <= 0.97
