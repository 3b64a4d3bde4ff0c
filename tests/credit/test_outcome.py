import pytest

from agentrl.credit.outcome import OutcomeCredit
from agentrl.errors import ConfigError
from agentrl.messages import Message
from agentrl.task import Task
from agentrl.trajectory.records import Group, Step, Trajectory
from tests.credit.groups import group as group_of
from tests.credit.groups import member, plain, step

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


def test_max_rl_agrees_with_prime_rl() -> None:
    credit = OutcomeCredit("max_rl")
    assert firsts(credit, 1, 0, 0, 0) == [3.0, -1.0, -1.0, -1.0]
    assert firsts(credit, 0, 0) == [0.0, 0.0]
    assert firsts(credit, 1, 1) == [0.0, 0.0]


def test_max_rl_divides_by_nothing_that_is_not_above_zero() -> None:
    assert firsts(OutcomeCredit("max_rl"), -1, 1) == [0.0, 0.0]
    assert firsts(OutcomeCredit("max_rl"), -1, -3) == [0.0, 0.0]


def test_the_baseline_of_opo_is_weighed_by_length() -> None:
    credit = OutcomeCredit("opo")
    rows = credit.assign(plain(1.0, 0.0, steps=2, tokens=[3, 1]))
    assert rows == [[0.25, 0.25], [-0.75, -0.75]]
    assert firsts(credit, 1, 0) == [0.5, -0.5]  # no tokens recorded: all weigh the same


def test_reinforce_pp_has_no_baseline_and_decays_by_token() -> None:
    credit = OutcomeCredit("reinforce_pp", discount=0.9)
    assert credit.whiten
    subject = plain(1.0, 0.5, None, steps=1, tokens=[3, 4, 2])
    fine = credit.assign_tokens(subject)
    assert fine[0][0] == pytest.approx([0.81, 0.9, 1.0])
    assert fine[1][0] == pytest.approx([0.3645, 0.405, 0.45, 0.5])
    assert fine[2][0] == [0.0, 0.0]
    assert credit.assign(subject)[0][0] == pytest.approx((0.81 + 0.9 + 1.0) / 3)


def test_reinforce_pp_decays_across_steps_and_skips_what_was_not_sampled() -> None:
    credit = OutcomeCredit("reinforce_pp", discount=0.5)
    said = member("a", 2.0, [step(0, tokens=2, saw="tool output"), step(1, tokens=1)])
    assert credit.assign_tokens(group_of(said)) == [[[0.5, 1.0], [2.0]]]


def test_the_baseline_form_of_reinforce_pp_is_centred_and_whitened() -> None:
    credit = OutcomeCredit("reinforce_pp_baseline")
    assert credit.whiten
    assert firsts(credit, 1, 0) == [0.5, -0.5]


def test_a_discount_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="no effect on grpo"):
        OutcomeCredit(discount=0.9)


def test_a_long_try_pays_before_it_is_compared() -> None:
    credit = OutcomeCredit("dr_grpo", overlong_limit=10, overlong_buffer=4)
    rows = credit.assign(plain(1.0, 1.0, steps=1, tokens=[8, 2]))
    assert rows == [[-0.25], [0.25]]
    with pytest.raises(ConfigError, match="do not go together"):
        OutcomeCredit(overlong_limit=10)


@pytest.mark.parametrize(
    ("credit", "says"),
    [
        (OutcomeCredit(preset="trl"), "standard deviation (n - 1) + 0.0001"),
        (OutcomeCredit(preset="paper"), "standard deviation (n)"),
        (OutcomeCredit(preset="verl"), "a group of one keeps its reward"),
        (OutcomeCredit("rloo"), "minus the mean of the siblings"),
        (OutcomeCredit("reinforce_pp", discount=0.99), "discounted by 0.99 a token"),
    ],
)
def test_the_formula_is_said_with_its_conventions(credit: OutcomeCredit, says: str) -> None:
    assert says in credit.describe()
