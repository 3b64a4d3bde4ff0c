"""A program a check starts as `$CONFINED ./program` reaches neither the tests nor the verdict."""

import asyncio

from agentrl.envs.sandbox import Harvest
from agentrl.plugins import find
from agentrl.reward.judgement import judge
from agentrl.trajectory.records import Verdict
from tests.redteam.rollouts import opener, program
from tests.reward.play import nobody


def verdict(source: str) -> Verdict:
    task = program()
    left = Harvest({**{p: (0o644, d) for p, d in task.files.items()}, "sum.sh": (0o755, b"")})
    left.files["sum.sh"] = (0o755, source.encode())
    return asyncio.run(judge(task, nobody(task), opener(), left, find("verifiers", "script")()))


def test_an_honest_program_does_its_work_with_what_a_program_needs() -> None:
    needs = "t=$(mktemp); echo $(($1 + $2)) >$t; cp $t here; ls / >/dev/null; cat here; rm here $t"
    assert verdict(needs).success


def test_a_program_that_hides_the_names_it_reaches_for_finds_nothing() -> None:
    for reach in ("cat /te*/want", "d=/lo; echo 1 >${d}gs/veri*/reward.txt", "kill -9 $PPID"):
        found = verdict(f"{reach}\necho $PPID >/dev/null")
        assert (found.outcome, found.score) == ("reward", 0.0)
