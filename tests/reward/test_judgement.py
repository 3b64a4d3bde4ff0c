import asyncio

import pytest

from agentrl.envs.sandbox import Harvest, Sandbox
from agentrl.errors import SandboxError, VerifierError
from agentrl.reward.base import Verifier
from agentrl.reward.judgement import judge
from agentrl.task import Limits, Task
from agentrl.trajectory.records import Trajectory, Verdict, invalid, scored
from tests.directory_box import Opener
from tests.reward.play import nobody

TASK = Task("t/1", "t", "x", files={"a": b"1"}, limits=Limits(verifier_s=0.2))
LEFT = Harvest({"a": (0o644, b"bad")})


class Saying:
    """Does to a box that holds `bad` what it is told; anything else scores 1."""

    def __init__(self, verdict: Verdict | Exception | float) -> None:
        self.verdict = verdict
        self.always = False

    async def verify(self, task: Task, trajectory: Trajectory, sandbox: Sandbox) -> Verdict:
        if await sandbox.read("a") != b"bad" and not self.always:
            return scored(1.0)
        if isinstance(self.verdict, float):
            await asyncio.sleep(self.verdict)
            return scored(1.0)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


def judged(verifier: Verifier, *refuse: bool) -> Verdict:
    return asyncio.run(judge(TASK, nobody(TASK), Opener(refuse), LEFT, verifier))


def test_the_verdict_names_the_box_it_was_given_in() -> None:
    assert judged(Saying(scored(0.5, note="half"))).note == "half; box sha256:directory"


def test_one_failed_opening_is_tried_again() -> None:
    assert judged(Saying(scored(1.0)), True).success


def test_a_host_that_opens_no_box_at_all_masks() -> None:
    verdict = judged(Saying(scored(1.0)), True, True, True)
    assert verdict.outcome == "masked"
    assert "no room" in verdict.note


def test_files_that_keep_the_box_from_opening_score_zero() -> None:
    verdict = judged(Saying(scored(1.0)), True, True, False)
    assert (verdict.outcome, verdict.score) == ("reward", 0.0)


@pytest.mark.parametrize(
    "trouble",
    [5.0, SandboxError("it died"), VerifierError("no"), KeyError("x"), invalid("nothing")],
)
def test_what_the_agent_can_cause_scores_zero(trouble: Verdict | Exception | float) -> None:
    verdict = judged(Saying(trouble))
    assert (verdict.outcome, verdict.score) == ("reward", 0.0)
    assert verdict.note


def test_a_check_that_always_fails_is_its_own_fault() -> None:
    broken = Saying(KeyError("x"))
    broken.always = True
    with pytest.raises(VerifierError, match="KeyError"):
        judged(broken)
    empty = Saying(invalid("nothing is checked"))
    empty.always = True
    assert judged(empty).outcome == "invalid"
