import pytest

from agentrl.credit.tree import TreeCredit
from agentrl.trajectory.records import Group
from tests.credit.groups import group, member, plain, step


def line(name, reward, length, **more):
    return member(name, reward, [step(n) for n in range(length)], **more)


def fork(name, reward, length, parent, at):
    return line(name, reward, length, parent=parent, fork_step=at)


def valued() -> Group:
    """A main line of three steps whose states are worth .25, .75 and .5 by four tries each."""
    main = line("m", 1.0, 3)
    roots = [line(f"r{n}", 0.0, 3) for n in range(3)]
    second = [fork(f"s{n}", reward, 2, "m", 1) for n, reward in enumerate([1.0, 1.0, 0.0])]
    third = [fork(f"t{n}", reward, 1, "m", 2) for n, reward in enumerate([1.0, 0.0, 0.0])]
    return group(main, *roots, *second, *third)


def test_vine_agrees_with_the_worked_numbers() -> None:
    rows = TreeCredit().assign(valued())
    assert rows[0] == pytest.approx([0.5, -0.25, 0.5])
    assert sum(rows[0]) == pytest.approx(1.0 - 0.25)


def test_a_fork_is_compared_with_the_state_it_left() -> None:
    rows = TreeCredit().assign(valued())
    assert rows[4] == pytest.approx([0.25, 0.25])
    assert rows[6] == pytest.approx([-0.75, -0.75])
    assert rows[1] == pytest.approx([-0.25] * 3)


def test_without_forks_vine_is_the_reward_minus_the_mean() -> None:
    assert TreeCredit().assign(plain(1, 0, 0, 1, steps=2)) == [
        [0.5] * 2, [-0.5] * 2, [-0.5] * 2, [0.5] * 2,
    ]  # fmt: skip


def test_between_known_states_the_difference_is_shared() -> None:
    subject = group(line("m", 1.0, 3), line("r", 0.0, 1), fork("s", 0.0, 1, "m", 2))
    rows = TreeCredit().assign(subject)
    assert rows[0] == [0.0, 0.0, 0.5]  # both known states are worth .5, then it comes to 1
    assert rows[2] == [-0.5]


def test_forks_may_only_value_states() -> None:
    credit = TreeCredit(branches=False)
    rows = credit.assign(valued())
    assert rows[0] == pytest.approx([0.5, -0.25, 0.5])
    assert not any(value for row in rows[4:] for value in row)
    assert credit.report(valued()) == {"forks": 6.0, "forked_states": 2.0}


def test_a_fork_of_a_fork_stands_on_its_own_line() -> None:
    subject = group(line("m", 0.0, 3), fork("s", 0.0, 3, "m", 1), fork("u", 1.0, 1, "s", 3))
    rows = TreeCredit().assign(subject)
    assert rows[2] == [0.5]  # against s, with which it shares steps 1 and 2
    assert rows[1] == [0.5, 0.5, -0.5]


def test_a_fork_at_the_first_step_is_a_sibling() -> None:
    forked = TreeCredit().assign(group(line("m", 1.0, 1), fork("s", 0.0, 1, "m", 0)))
    assert forked == TreeCredit().assign(plain(1, 0))


def test_an_unjudged_member_values_no_state() -> None:
    subject = valued()
    more = group(*subject.members, fork("x", None, 2, "m", 1))
    assert TreeCredit().assign(more)[:-1] == TreeCredit().assign(subject)
    assert TreeCredit().assign(more)[-1] == [0.0, 0.0]


def two_trees() -> Group:
    return group(
        line("a", 1.0, 2), fork("b", 0.0, 1, "a", 1), line("c", 0.0, 2), fork("d", 0.0, 1, "c", 1)
    )


def test_tree_grpo_agrees_with_the_worked_numbers() -> None:
    rows = TreeCredit("tree_grpo").assign(two_trees())
    assert [row[-1] for row in rows] == pytest.approx([2.2071, -1.2071, -0.5, -0.5], abs=1e-3)


def test_what_two_leaves_share_gets_their_mean_once() -> None:
    rows = TreeCredit("tree_grpo").assign(two_trees())
    assert rows[0][0] == pytest.approx((2.2071 - 1.2071) / 2, abs=1e-3)
    assert [len(row) for row in rows] == [2, 1, 2, 1]


def test_tree_rl_agrees_with_the_worked_numbers() -> None:
    """Root and parent worth .5, the state after the step worth 1 with two leaves below it."""
    subject = group(
        line("a", 1.0, 2), fork("b", 1.0, 1, "a", 1), line("c", 0.0, 1), line("d", 0.0, 1)
    )
    assert TreeCredit("tree_rl").assign(subject)[0][0] == pytest.approx(0.7071, abs=1e-4)


def test_later_rewards_reach_back_discounted() -> None:
    rows = TreeCredit(discount=0.5).assign(group(line("a", 1.0, 2), line("b", 0.0, 2)))
    assert rows == [[0.25, 0.25], [-0.25, -0.25]]
