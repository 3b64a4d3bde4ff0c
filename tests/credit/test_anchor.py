import pytest

from agentrl.credit.anchor import AnchorCredit
from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group, Trajectory
from tests.credit.groups import group, member, step, walk


def crossing() -> Group:
    """A and B part after s0; B comes back to it."""
    return group(walk("a", ["s0", "s1", "s2"], 1.0), walk("b", ["s0", "s1'", "s0"], 0.0))


@pytest.mark.parametrize(
    ("std", "a", "b"),
    [
        ("none", [1.04, 0.5, 0.5], [-0.77, -0.5, -0.77]),
        ("unbiased", [1.8618, 0.7071, 0.7071], [-1.2845, -0.7071, -1.2845]),
    ],
)
def test_gigpo_agrees_with_the_worked_numbers(std, a, b) -> None:
    rows = AnchorCredit(discount=0.9, std=std).assign(crossing())
    assert rows[0] == pytest.approx(a, abs=1e-3)
    assert rows[1] == pytest.approx(b, abs=1e-3)


@pytest.mark.parametrize(
    ("std", "want"), [("none", [0.95125, 0.975, 0.5]), ("unbiased", [1.414211, 1.414211, 0.707106])]
)
def test_gigpo_agrees_with_the_published_numbers(std, want) -> None:
    subject = group(walk("a", ["s0", "s1", "s2"], 1.0), walk("b", ["s0", "s1", "s3"], 0.0))
    rows = AnchorCredit(std=std).assign(subject)
    assert rows[0] == pytest.approx(want, abs=1e-5)
    assert rows[1] == pytest.approx([-value for value in want], abs=1e-5)


def test_gigpo_agrees_with_trinity() -> None:
    one = group(walk("a", ["s0"], 1.0), walk("b", ["s0"], 0.0))
    assert AnchorCredit(discount=1.0, omega=0.0).assign(one) == [[0.5], [-0.5]]
    assert AnchorCredit(discount=1.0).assign(one) == [[1.0], [-1.0]]
    two = group(walk("a", ["s0", "s1"], 1.0), walk("b", ["s0", "s2"], 0.0))
    assert AnchorCredit(discount=1.0).assign(two) == [[1.0, 0.5], [-1.0, -0.5]]


def test_hgpo_agrees_with_the_worked_numbers() -> None:
    subject = group(
        walk("a", ["s0", "s1"], 1.0), walk("b", ["s0", "s1"], 0.0), walk("c", ["s2", "s1"], 1.0)
    )
    rows = AnchorCredit("hgpo", discount=1.0).assign(subject)
    assert rows[0] == pytest.approx([0.5, 0.4333], abs=1e-4)
    assert rows[1] == pytest.approx([-0.5, -0.5667], abs=1e-4)
    assert rows[2] == pytest.approx([0.0, 1 / 3])


def test_hgpo_may_leave_zeros_out_of_the_mean_as_the_code_does() -> None:
    subject = group(
        *(walk(n, ["s0", "s1"], r) for n, r in [("a", 1.0), ("b", 1.0)]),
        walk("c", ["s2", "s1"], 0.0),
    )
    plain = AnchorCredit("hgpo", discount=1.0).assign(subject)[0][1]
    dropped = AnchorCredit("hgpo", discount=1.0, drop_zeros=True).assign(subject)[0][1]
    assert plain == pytest.approx(2 * (1 / 3) / 5)
    assert dropped == pytest.approx(1 / 3)


def test_hgpo_may_add_the_whole_try() -> None:
    subject = group(walk("a", ["s0"], 1.0), walk("b", ["s0"], 0.0))
    assert AnchorCredit("hgpo", discount=1.0, episode=True).assign(subject) == [[1.0], [-1.0]]


def test_an_unjudged_member_is_in_no_anchor_group() -> None:
    subject = group(*crossing().members, walk("c", ["s0", "s1"], None))
    credit = AnchorCredit(discount=0.9)
    assert credit.assign(subject)[:2] == credit.assign(crossing())
    assert credit.assign(subject)[2] == [0.0, 0.0]


def test_the_share_of_lonely_states_is_reported() -> None:
    told = AnchorCredit().report(crossing())
    assert told == {"anchor_groups": 4.0, "anchor_group_size": 1.5, "singleton_frac": 0.5}
    assert AnchorCredit().report(group())["singleton_frac"] == 1.0


def test_alike_states_are_joined_where_that_is_asked_for() -> None:
    long = "total 12 of what there was to see in the folder: a b c d e f g h"
    subject = group(walk("a", ["s0", long], 1.0), walk("b", ["s0", long + "!"], 0.0))
    assert AnchorCredit().report(subject)["singleton_frac"] == 0.5
    assert AnchorCredit(similarity=0.95).report(subject)["singleton_frac"] == 0.0


def test_a_state_is_what_a_strangers_function_says() -> None:
    subject = group(walk("a", ["s0", "x1"], 1.0), walk("b", ["s0", "x2"], 0.0))
    credit = AnchorCredit(key="tests.credit.test_anchor:parity")
    assert credit.report(subject) == AnchorCredit(key="workspace", discount=1.0).report(
        group(*(hashed(m) for m in subject.members))
    )
    assert credit.assign(subject)[0][1] > 0.5


def parity(trajectory: Trajectory, step: int) -> str:
    return str(step % 2)


def hashed(trajectory: Trajectory) -> Trajectory:
    steps = [step(n, state="same") for n in range(len(trajectory.steps))]
    return member(trajectory.id, trajectory.reward, steps)


@pytest.mark.parametrize("name", ["nowhere:key", "agentrl.credit.states:nothing", "observations"])
def test_a_state_key_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name.split(":")[0]):
        AnchorCredit(key=name)


def test_an_option_of_the_other_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="history has no effect"):
        AnchorCredit(history=2)
    with pytest.raises(ConfigError, match="similarity"):
        AnchorCredit(similarity=0.0)


def test_the_only_judged_try_teaches_by_itself_only_where_that_is_asked_for() -> None:
    one = group(walk("a", ["s0"], 0.7))
    assert AnchorCredit().assign(one) == [[0.0]]
    assert AnchorCredit(singleton="keep").assign(one) == [[0.7]]


def test_the_order_of_members_does_not_matter() -> None:
    credit = AnchorCredit(std="unbiased")
    turned = group(*reversed(crossing().members))
    for row, again in zip(credit.assign(crossing()), reversed(credit.assign(turned)), strict=True):
        assert row == pytest.approx(again)
