import pytest

from agentrl.credit.returns import ReturnsCredit
from agentrl.errors import ConfigError
from agentrl.messages import Message
from agentrl.task import Task
from agentrl.trajectory.records import Group, Step, Trajectory

TASK = Task("t", "s", "do it")


def group(*members):
    """Members as (reward, signal of each step)."""
    reply = Message("assistant", "ok")
    return Group(
        "g",
        TASK,
        tuple(
            Trajectory(
                str(i),
                "g",
                TASK,
                steps=tuple(
                    Step(n, 0, "agent", reply, signals={"x": signal} if signal else {})
                    for n, signal in enumerate(signals)
                ),
                reward=reward,
            )
            for i, (reward, signals) in enumerate(members)
        ),
    )


def test_a_reward_reaches_back_discounted():
    rows = ReturnsCredit(0.5).assign(group((1.0, [0, 0]), (0.0, [0, 0])))
    assert rows == [[0.25, 0.5], [-0.25, -0.5]]


def test_signals_count_from_their_step_backwards():
    subject = group((0.0, [0, 1, 0]), (0.0, [0, 0, 0]))
    rows = ReturnsCredit(0.5, signals=("x",)).assign(subject)
    assert rows == [[0.25, 0.5, 0.0], [-0.25, -0.5, 0.0]]
    assert ReturnsCredit(0.5, signals=("x",)).report(subject) == {"carried.x": 1 / 6}


def test_a_signal_nobody_named_is_no_reward():
    rows = ReturnsCredit(0.5).assign(group((0.0, [0, 127, 0]), (0.0, [0, 0, 0])))
    assert rows == [[0.0] * 3, [0.0] * 3]


def test_leaving_one_out_agrees_with_the_worked_numbers():
    rows = ReturnsCredit(1.0, "leave_one_out").assign(group((1.0, [0]), (0.5, [0]), (0.0, [0])))
    assert rows == [[0.75], [0.0], [-0.75]]


def test_the_others_are_the_baseline_when_one_is_left_out():
    rows = ReturnsCredit(1.0, "leave_one_out").assign(group((6.0, [0]), (3.0, [0])))
    assert rows == [[3.0], [-3.0]]


def test_a_step_nobody_else_reached_is_compared_with_nothing():
    for baseline in ("mean", "leave_one_out"):
        rows = ReturnsCredit(1.0, baseline).assign(group((1.0, [0, 0]), (0.0, [0])))
        assert rows[0][1] == 0.0
        assert rows[0][0] == -rows[1][0] > 0


def test_an_unjudged_member_gets_zeros_and_leaves_the_baseline_alone():
    rows = ReturnsCredit(1.0).assign(group((1.0, [0]), (None, [5, 5]), (0.0, [0])))
    assert rows == [[0.5], [0.0, 0.0], [-0.5]]


def test_a_discount_above_one_is_refused():
    with pytest.raises(ConfigError, match=r"1\.5"):
        ReturnsCredit(1.5)
