import pytest

from agentrl.credit.states import context_key, normalised, observation, workspace
from agentrl.trajectory.records import TokenSpan, Trajectory
from tests.credit.groups import member, step, walk


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ran in 0.31s, pid 77", "ran in 2.5 s, pid 9"),
        ("-rw-r--r-- 1 a a 5 Nov 30 10:11 x", "-rw-r--r-- 1 a a 5 Dec  1 09:00 x"),
        ("at 2026-11-30T10:11:12Z done", "at 2026-11-30 23:59:59.123 done"),
        ("<object at 0x7f3a99001122>", "<object at 0x55d0c0ffee00>"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("cat /tmp/tmpab12/x", "cat /tmp/tmpzz99/x"),
        ("a  \n\n b", "a\n b"),
    ],
)
def test_what_differs_between_two_looks_at_one_world_is_left_out(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"), [("3 passed", "2 passed"), ("a.txt", "b.txt"), ("exit 0", "exit 1")]
)
def test_what_tells_two_worlds_apart_stays(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_the_state_of_a_step_is_what_was_seen_before_it() -> None:
    one = walk("a", ["start", "middle"], 1.0)
    assert [observation(one, n) for n in range(2)] == ["start", "middle"]


def test_silence_names_no_state() -> None:
    quiet = member("a", 1.0, [step(0), step(1)])
    assert observation(quiet, 1) is None


def test_the_env_may_name_the_world() -> None:
    one = member("a", 1.0, [step(0, state="f00"), step(1), step(2)])
    assert [workspace(one, n) for n in range(3)] == ["task t", "f00", None]


def spanned(*spans: tuple[list[int], list[int], int]) -> Trajectory:
    steps = [
        step(n, segment=segment).__class__(
            n, segment, "agent", step(n).reply, TokenSpan(context, sampled, [], [])
        )
        for n, (context, sampled, segment) in enumerate(spans)
    ]
    return member("a", 1.0, steps)


def test_a_rewritten_context_is_another_state() -> None:
    one = spanned(([1], [2], 0), ([3], [4], 0), ([7, 8], [9], 1))
    other = spanned(([1], [5], 0), ([6], [4], 0), ([7, 9], [9], 1))
    assert context_key(one, 1, "rewrite") == context_key(other, 1, "rewrite") == ""
    assert context_key(one, 2, "rewrite") != context_key(other, 2, "rewrite")
    assert context_key(one, 2, "none") == context_key(other, 2, "none") == ""


def test_the_full_context_is_all_that_was_sent_before_the_step() -> None:
    one = spanned(([1], [2], 0), ([3], [4], 0))
    other = spanned(([1], [2], 0), ([3], [99], 0))
    third = spanned(([1], [5], 0), ([3], [4], 0))
    assert context_key(one, 1, "full") == context_key(other, 1, "full")
    assert context_key(one, 1, "full") != context_key(third, 1, "full")
    words = walk("a", ["s0", "s1"], 1.0)
    assert context_key(words, 1, "full") == context_key(walk("b", ["s0", "s1"], 0.0), 1, "full")
