from itertools import pairwise

import pytest

from agentrl.credit.process import ProcessCredit, information_gains
from agentrl.errors import ConfigError
from tests.credit.groups import group, member, step


def tries(*members, signal="x"):
    """Members as (reward, reading of each step)."""
    return group(
        *(
            member(
                str(i),
                reward,
                [step(n, signals={} if s is None else {signal: s}) for n, s in enumerate(readings)],
            )
            for i, (reward, readings) in enumerate(members)
        )
    )


def test_mt_grpo_agrees_with_the_worked_numbers() -> None:
    subject = tries((1.0, [1, 0]), (0.0, [1, 0]), (1.0, [0, 0]), (0.0, [0, 0]))
    rows = ProcessCredit(signals=("x",)).assign(subject)
    assert [row[0] for row in rows] == pytest.approx([1.7321, 0, 0, -1.7321], abs=1e-3)
    assert [row[1] for row in rows] == pytest.approx([0.866, -0.866, 0.866, -0.866], abs=1e-3)


def test_shaping_pays_nothing_for_a_detour() -> None:
    credit = ProcessCredit("potential", signals=("x",), discount=0.9, std="none")
    one = tries((0.0, [0.4, 0.7, 0.1])).members[0]
    levels = credit.potentials(one)
    assert levels == [0.0, 0.4, 0.7, 0.0]
    shaped = [0.9 * after - before for before, after in pairwise(levels)]
    assert shaped == pytest.approx([0.36, 0.23, -0.7])
    assert sum(0.9**n * value for n, value in enumerate(shaped)) == pytest.approx(0.0)


def test_shaping_leaves_the_first_step_what_the_outcome_gives_it() -> None:
    """The return of a shaped reward is the plain one minus Phi, and both begin where Phi is 0."""
    credit = ProcessCredit("potential", signals=("x",), std="none")
    rows = credit.assign(tries((1.0, [0.9, 0.5, 0]), (0.0, [0.2, 0.8, 0])))
    assert [row[0] for row in rows] == pytest.approx([0.5, -0.5])
    assert rows[0][1] == pytest.approx((0.1 - -0.2) / 2)


def test_a_step_without_a_reading_leaves_the_potential_as_it_was() -> None:
    credit = ProcessCredit("potential", signals=("x",), start=0.25)
    one = tries((1.0, [0.5, None, 0.75, None])).members[0]
    assert credit.potentials(one) == [0.25, 0.5, 0.5, 0.75, 0.0]


def test_information_gain_agrees_with_the_worked_numbers() -> None:
    one = tries((1.0, [-2.0, -1.0, -0.5])).members[0]
    assert information_gains(one, "x") == pytest.approx([0.2325, 0.2387], abs=1e-4)
    two = tries((1.0, [None, -1.0, None, -0.5])).members[0]
    assert information_gains(two, "x") == pytest.approx([0.0, 0.0, 0.2387], abs=1e-4)


def test_information_gain_is_compared_within_the_group_and_carried_back() -> None:
    subject = tries((1.0, [-2.0, -1.0]), (0.0, [-2.0, -2.0]))
    credit = ProcessCredit("information_gain", signals=("x",), std="none", discount=0.5)
    rows = credit.assign(subject)
    gain = (0.36788 - 0.13534) / 2
    assert rows[0] == pytest.approx([gain + 0.5 * 0.5, 0.5], abs=1e-4)
    assert rows[1] == pytest.approx([-gain - 0.5 * 0.5, -0.5], abs=1e-4)


def test_a_kind_that_cannot_use_its_signals_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one signal"):
        ProcessCredit("potential")
    with pytest.raises(ConfigError, match="exactly one signal"):
        ProcessCredit("information_gain", signals=("a", "b"))


def test_how_often_a_signal_was_carried_is_reported() -> None:
    subject = tries((1.0, [1.0, None]), (0.0, [None, None]))
    assert ProcessCredit(signals=("x", "y")).report(subject) == {"carried.x": 0.25, "carried.y": 0}
