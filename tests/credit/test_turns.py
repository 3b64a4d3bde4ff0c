import pytest

from agentrl.credit.turns import TurnsCredit
from agentrl.errors import ConfigError
from tests.credit.groups import group, member, step


def test_turns_agree_with_the_worked_numbers() -> None:
    steps = [step(n, value=v, tokens=2) for n, v in enumerate([0.5, 0.6, 0.8])]
    credit = TurnsCredit(lam=0.9)
    subject = group(member("a", 1.0, steps))
    assert credit.assign(subject)[0] == pytest.approx([0.442, 0.38, 0.2])
    assert [step[0] for step in credit.assign_tokens(subject)[0]] == credit.assign(subject)[0]


def test_signals_of_a_turn_are_its_reward_where_they_are_named() -> None:
    steps = [step(0, value=0.0, signals={"x": 1.0}), step(1, value=0.0)]
    subject = group(member("a", 2.0, steps))
    assert TurnsCredit(lam=0.5, signals=("x",)).assign(subject) == [[2.0, 2.0]]
    assert TurnsCredit(lam=0.0, signals=("x",)).assign(subject) == [[1.0, 2.0]]
    assert TurnsCredit(lam=0.5).assign(subject) == [[1.0, 2.0]]


def test_tokens_have_values_of_their_own_and_tool_output_is_skipped() -> None:
    steps = [
        step(0, tokens=3, values=(4.0, 5.0, 6.0), saw="tool output", signals={"x": 0.1}),
        step(1, tokens=2, values=(7.0, 9.0)),
    ]
    credit = TurnsCredit("token", 0.9, 0.8, signals=("x",))
    got = credit.assign_tokens(group(member("a", 1.0, steps)))[0]
    last = 1.0 - 9.0
    before = 0.9 * 9.0 - 7.0 + 0.9 * 0.8 * last
    third = 0.1 + 0.9 * 7.0 - 6.0 + 0.9 * 0.8 * before
    assert got[1] == pytest.approx([before, last])
    assert got[0][2] == pytest.approx(third)
    assert credit.assign(group(member("a", 1.0, steps)))[0][1] == pytest.approx((before + last) / 2)


@pytest.mark.parametrize("unit", ["turn", "token"])
def test_a_record_without_values_is_refused_with_a_way_out(unit) -> None:
    subject = group(member("a7", 1.0, [step(0, tokens=2)]))
    with pytest.raises(ConfigError, match="needs a critic's value") as caught:
        TurnsCredit(unit).assign(subject)
    assert caught.value.where == "step 0 of episode a7"
    assert "--credit anchor" in caught.value.help


def test_a_try_that_was_not_judged_needs_no_values() -> None:
    subject = group(member("a", None, [step(0, tokens=2)]))
    assert TurnsCredit().assign(subject) == [[0.0]]
    assert TurnsCredit("token").assign_tokens(subject) == [[[0.0, 0.0]]]


def test_the_value_before_a_turn_is_that_before_its_first_token() -> None:
    steps = [step(0, tokens=2, values=(0.25, 0.5))]
    assert TurnsCredit().assign(group(member("a", 1.0, steps))) == [[0.75]]


def test_a_lambda_above_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lam of 1\.5"):
        TurnsCredit(lam=1.5)
