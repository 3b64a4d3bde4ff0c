"""What an env says about its world reaches the record."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agentrl.agent.loop import play
from agentrl.engine.scripted import ScriptedPolicy
from agentrl.envs.base import Observation
from agentrl.memory.full import KeepAll
from agentrl.messages import Message, ToolCall
from agentrl.task import Limits, Task
from agentrl.tool import ToolSpec
from agentrl.trajectory.events import EpisodeOpened
from agentrl.trajectory.store import EpisodeLog, RunStore


class Counted:
    """A world that names its states by number, and ends in the second."""

    def __init__(self) -> None:
        self.turn = 0

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return []

    async def reset(self) -> Sequence[Message]:
        return [Message("user", "go")]

    async def step(self, reply: Message) -> Observation:
        self.turn += 1
        return Observation((Message("tool", "ok"),), self.turn == 2, state=f"world {self.turn}")


def test_the_name_of_a_state_is_kept_with_its_step(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        log = EpisodeLog(store, "g0.0")
        log.write(EpisodeOpened(episode="g0.0", group="g0", task=Task("t", "t", "go")))
        policy = ScriptedPolicy(lambda session: [ToolCall("", "look")] * 2)
        context = [Message("user", "go")]
        stop = asyncio.run(play(Counted(), policy, KeepAll(), Limits(), context, log))
    assert stop == "done"
    steps = RunStore(tmp_path).trajectory("g0.0").steps
    assert [step.state for step in steps] == ["world 1", "world 2"]
