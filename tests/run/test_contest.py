"""A paired comparison decides what it can, and is wrong as rarely as it says."""

import numpy as np
import pytest

from agentrl.run.contest import difference, holm, mcnemar, wild_bootstrap


def test_mcnemars_worked_number() -> None:
    assert mcnemar(8, 2) == pytest.approx(0.1094, abs=1e-4)
    assert mcnemar(2, 8) == mcnemar(8, 2)
    assert mcnemar(0, 0) == mcnemar(3, 3) == 1.0


def test_single_tries_at_independent_tasks_are_tested_exactly() -> None:
    before = [0.0] * 8 + [1.0] * 2 + [1.0] * 10
    after = [1.0] * 8 + [0.0] * 2 + [1.0] * 10
    found = difference(before, after, ["f"] * 20, single=True)
    assert found.test == "exact McNemar"
    assert found.p == pytest.approx(0.1094, abs=1e-4)
    assert (found.wins, found.ties, found.losses) == (8, 10, 2)
    assert found.change.mean == pytest.approx(0.3)
    assert found.smallest is not None
    assert not found.decisive()


def test_two_runs_alike_say_what_they_could_have_shown() -> None:
    found = difference([1.0] * 50, [1.0] * 50, ["f"] * 50, single=True)
    assert (found.change.mean, found.p) == (0.0, 1.0)
    assert found.change.ci95[0] < 0.0 < found.change.ci95[1]
    assert found.smallest is not None
    assert 0.0 < found.smallest < 0.2


def test_one_task_or_none_decides_nothing() -> None:
    one = difference([0.0], [1.0], ["f"], single=True)
    assert (one.smallest, one.decisive()) == (None, False)
    assert one.change.ci95 == (-1.0, 1.0)
    assert not difference([], [], []).decisive()


def test_the_signs_of_few_clusters_are_counted_not_drawn() -> None:
    clusters = np.arange(6)
    assert wild_bootstrap(np.ones(6), clusters) == pytest.approx(2 / 64)
    assert wild_bootstrap(np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]), clusters) == 1.0


def test_a_difference_within_one_family_is_no_difference_between_policies() -> None:
    """Sixty tasks of ten families, all wins in two of them."""
    families = [f"f{i}" for i in range(10) for _ in range(6)]
    before = [0.0] * 60
    after = [1.0] * 12 + [0.0] * 48
    by_family = difference(before, after, families, single=True)
    assert by_family.test == "wild cluster bootstrap over 10 families"
    assert not by_family.decisive()
    assert difference(before, after, ["f"] * 60, single=True).decisive()


def test_pairing_decides_what_two_separate_rates_cannot() -> None:
    """Hard and easy tasks; B solves eight more than A and loses none."""
    before = [1.0] * 40 + [0.0] * 60
    after = [1.0] * 48 + [0.0] * 52
    assert difference(before, after, ["f"] * 100, single=True).decisive()
    pooled = np.sqrt(2 * 0.44 * 0.56 / 100)
    assert abs(0.08 / pooled) < 1.96


@pytest.mark.parametrize(("families", "single"), [(1, True), (12, True), (12, False)])
def test_without_a_difference_it_is_wrong_in_one_case_of_twenty(
    families: int, single: bool
) -> None:
    rng = np.random.default_rng(7)
    size, each = 600, 60 // families
    names = [f"f{i:02}" for i in range(families) for _ in range(each)]
    tries = 1 if single else 3
    chance = np.repeat(rng.beta(2, 2, (size, families)), each, axis=1)
    hard = np.clip(chance + rng.normal(0, 0.2, chance.shape), 0, 1)
    # Each family favours A or B by chance: with families as clusters that is no difference.
    tilt = np.repeat(rng.normal(0, 0.1, (size, families)), each, axis=1) if families > 1 else 0.0
    a = rng.binomial(tries, hard) / tries
    b = rng.binomial(tries, np.clip(hard + tilt, 0, 1)) / tries
    wrong = held = 0
    for before, after in zip(a.tolist(), b.tolist(), strict=True):
        found = difference(before, after, names, single=single)
        wrong += found.decisive()
        held += found.change.ci95[0] <= 0.0 <= found.change.ci95[1]
    assert wrong / size <= 0.06
    assert held / size >= 0.93


def test_holm_corrects_the_smallest_most() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.8, 0.9]) == [1.0, 1.0]
