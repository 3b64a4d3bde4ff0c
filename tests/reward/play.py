"""Play a few shell commands in a box, then judge what they left."""

from collections.abc import Sequence

from agentrl.envs.sandbox import Harvest
from agentrl.reward.base import Verifier
from agentrl.reward.judgement import judge
from agentrl.task import Task
from agentrl.trajectory.records import Trajectory, Verdict
from tests.directory_box import Opener


def nobody(task: Task) -> Trajectory:
    return Trajectory("episode", "group", task)


async def left_by(task: Task, commands: Sequence[str], opener: Opener | None = None) -> Harvest:
    """What the workdir holds after the commands."""
    async with (opener or Opener())(task) as box:
        for command in commands:
            await box.exec(["bash", "-c", command])
        return await box.harvest()


async def verdict_on(task: Task, verifier: Verifier, *commands: str) -> Verdict:
    harvest = await left_by(task, commands)
    return await judge(task, nobody(task), Opener(), harvest, verifier)
