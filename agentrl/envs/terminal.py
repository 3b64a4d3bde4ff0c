"""A shell to work in."""

from collections.abc import Sequence

from agentrl.envs.base import Observation, ToolEnv
from agentrl.envs.sandbox import Sandbox
from agentrl.envs.tools.shell import RunShell
from agentrl.envs.tools.submit import Submit
from agentrl.messages import Message
from agentrl.task import Task
from agentrl.tool import Tool, ToolSpec

SYSTEM = "You work in a Linux shell. Call submit when done."


class TerminalEnv:
    """`shell(command)` and `submit()`; a command may take `task.limits.command_s` seconds."""

    def __init__(self, task: Task, sandbox: Sandbox, extra: Sequence[Tool] = ()) -> None:
        opening = [Message("system", SYSTEM), Message("user", task.instruction)]
        own: list[Tool] = [RunShell(sandbox, task.limits.command_s), Submit()]
        self._inner = ToolEnv(opening, [*own, *extra])

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._inner.tools

    async def reset(self) -> Sequence[Message]:
        return await self._inner.reset()

    async def step(self, reply: Message) -> Observation:
        return await self._inner.step(reply)
