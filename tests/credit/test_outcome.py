import pytest

from agentrl.credit.outcome import OutcomeCredit
from agentrl.errors import ConfigError
from agentrl.messages import Message
from agentrl.task import Task
from agentrl.trajectory.records import Group, Step, Trajectory

TASK = Task("t", "s", "do it")


def group(*rewards, steps=1):
    reply = Message("assistant", "ok")
    return Group(
        "g",
        TASK,
        tuple(
            Trajectory(
                str(i),
                "g",
                TASK,
                steps=tuple(Step(n, 0, "agent", reply) for n in range(steps)),
                reward=reward,
            )
            for i, reward in enumerate(rewards)
        ),
    )


def firsts(credit, *rewards):
    return [row[0] for row in credit.assign(group(*rewards))]


@pytest.mark.parametrize(
    ("kind", "size"), [("grpo", 0.866024), ("dr_grpo", 0.5), ("rloo", 0.666667)]
)
def test_group_advantages_agree_with_the_published_numbers(kind, size):
    credit = OutcomeCredit(kind)
    assert firsts(credit, 1, 0, 0, 1) == pytest.approx([size, -size, -size, size], abs=1e-6)
    assert firsts(credit, 0.5, 0.5) == [0.0, 0.0]


def test_leave_one_out_agrees_with_skyrl():
    credit = OutcomeCredit("rloo")
    assert firsts(credit, 6, 3) == [3.0, -3.0]
    assert firsts(credit, 9, 12) == [-3.0, 3.0]
    assert firsts(credit, 1) == [0.0]


def test_mean_centring_agrees_with_skyrl():
    assert firsts(OutcomeCredit("dr_grpo"), 6, 3) == [1.5, -1.5]


def test_a_singleton_teaches_nothing_unless_it_is_kept():
    assert firsts(OutcomeCredit(), 0.7) == [0.0]
    assert firsts(OutcomeCredit(preset="verl"), 0.7) == pytest.approx([0.6999993], abs=1e-7)
    assert firsts(OutcomeCredit("rloo", singleton="keep"), 0.7) == [0.7]


def test_presets_differ_where_the_projects_do():
    spread = {
        preset: firsts(OutcomeCredit(preset=preset), 1, 0)[0] for preset in ("paper", "trl", "verl")
    }
    deviation = 0.5**0.5
    assert spread["paper"] == 1.0
    assert spread["trl"] == pytest.approx(0.5 / (deviation + 1e-4), abs=1e-12)
    assert spread["verl"] == pytest.approx(0.5 / (deviation + 1e-6), abs=1e-12)


def test_a_named_convention_wins_over_the_kind():
    credit = OutcomeCredit("grpo", std="population", eps=0.0)
    assert firsts(credit, 1, 3) == [-1.0, 1.0]
    assert firsts(OutcomeCredit("grpo", std="none", baseline="leave_one_out"), 6, 3) == [3.0, -3.0]


def test_an_unjudged_member_gets_zeros_and_leaves_the_baseline_alone():
    rows = OutcomeCredit("dr_grpo").assign(group(1, None, 0, steps=3))
    assert rows == [[0.5] * 3, [0.0] * 3, [-0.5] * 3]
    assert firsts(OutcomeCredit(), None, 1) == [0.0, 0.0]


def test_equal_rewards_give_exact_zeros_whatever_their_rounding():
    assert firsts(OutcomeCredit(), 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1) == [0.0] * 7


def test_a_negative_epsilon_is_refused():
    with pytest.raises(ConfigError, match="standard deviation"):
        OutcomeCredit(eps=-1.0)
