"""Intervals: over tasks, paired, repeatable."""

import math

import pytest

from agentrl.run.intervals import estimate, paired


def test_an_interval_holds_the_mean_and_shrinks_with_the_root_of_n() -> None:
    few, many = estimate([0.0, 1.0] * 20), estimate([0.0, 1.0] * 320)
    assert few.mean == many.mean == 0.5
    assert few.ci95[0] < 0.5 < few.ci95[1]
    ratio = (few.ci95[1] - few.ci95[0]) / (many.ci95[1] - many.ci95[0])
    assert ratio == pytest.approx(4.0, rel=0.1)


def test_the_width_is_that_of_the_normal_approximation() -> None:
    found = estimate([0.0] * 100 + [1.0] * 100)
    assert found.ci95[1] - found.mean == pytest.approx(1.96 * 0.5 / math.sqrt(200), rel=0.08)


def test_pairing_drops_what_either_side_could_not_judge() -> None:
    before = {"a": 0.0, "b": 1.0, "c": None, "d": 0.0}
    after = {"a": 1.0, "b": 1.0, "c": 1.0, "d": None}
    found = paired(before, after)
    assert (found.mean, found.n) == (0.5, 2)


def test_the_same_numbers_give_the_same_interval() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert estimate(values) == estimate(values)


def test_nothing_measured_is_not_zero() -> None:
    assert math.isnan(estimate([]).mean)
