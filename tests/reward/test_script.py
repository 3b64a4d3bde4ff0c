import asyncio

import pytest

from agentrl.errors import VerifierError
from agentrl.reward.script import ScriptVerifier
from agentrl.task import Limits, Task
from agentrl.trajectory.records import Verdict
from tests.reward.play import verdict_on


def judged(script: str, *commands: str, seconds: float = 10.0) -> Verdict:
    task = Task(
        "t/1",
        "t",
        "x",
        files={"a": b"1"},
        tests={"test.sh": script.encode()},
        limits=Limits(verifier_s=seconds),
    )
    return asyncio.run(verdict_on(task, ScriptVerifier(), *commands))


def reward(text: str, name: str = "txt") -> str:
    return f"echo '{text}' > /logs/verifier/reward.{name}\n"


def test_the_number_in_the_text_file_is_the_score_whatever_the_exit_status() -> None:
    verdict = judged(reward("0.25") + "exit 7")
    assert (verdict.outcome, verdict.score, verdict.flags) == ("reward", 0.25, ())


def test_json_wins_and_a_difference_is_flagged() -> None:
    both = reward('{"reward": 0.5, "speed": 3}', "json")
    verdict = judged(both + reward("1"))
    assert (verdict.score, verdict.flags) == (0.5, ("REWARD_MISMATCH",))
    assert verdict.parts == {"reward": 0.5, "speed": 3.0}
    assert judged(both + reward("0.5")).flags == ()


def test_scores_are_clipped() -> None:
    assert judged(reward("7")).score == 1.0
    assert judged(reward("-1")).score == 0.0


@pytest.mark.parametrize("text", ["", "nan", "inf", "passed"])
def test_a_reward_that_is_no_finite_number_is_invalid(text: str) -> None:
    verdict = judged(reward(text))
    assert (verdict.outcome, verdict.success) == ("invalid", False)


@pytest.mark.parametrize("text", ["[]", "{}", '{"reward": NaN}', '{"a": 1, "b": 0}', '{"r": "1"}'])
def test_a_json_reward_that_cannot_be_read_is_invalid(text: str) -> None:
    assert judged(reward(text, "json")).outcome == "invalid"


def test_a_script_that_writes_nothing_is_the_tasks_fault() -> None:
    with pytest.raises(VerifierError, match="wrote no reward"):
        judged("echo hello")


def test_a_script_that_breaks_only_on_what_the_agent_left_scores_zero() -> None:
    script = "set -e\ngrep -q 1 a\n" + reward("1")
    assert judged(script).success
    verdict = judged(script, "rm a")
    assert (verdict.outcome, verdict.score) == ("reward", 0.0)


def test_running_out_of_time_scores_zero() -> None:
    verdict = judged("sleep 5", seconds=0.3)
    assert (verdict.outcome, verdict.score) == ("reward", 0.0)
    assert "time" in verdict.note or "over" in verdict.note


def test_a_reward_the_agent_wrote_beforehand_is_not_there_when_judging() -> None:
    forge = "mkdir -p ../logs/verifier logs/verifier; for d in .. .; do for f in json txt; do "
    forge += "echo '{\"reward\": 1}' > $d/logs/verifier/reward.$f; done; done"
    verdict = judged(reward("0"), forge)
    assert (verdict.score, verdict.flags) == (0.0, ())


def test_a_task_without_a_script_is_an_error() -> None:
    task = Task("t/1", "t", "x")
    with pytest.raises(VerifierError, match=r"no tests/test\.sh"):
        asyncio.run(verdict_on(task, ScriptVerifier()))
