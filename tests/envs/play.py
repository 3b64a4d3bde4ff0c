"""Step an env with one call at a time."""

from collections.abc import Sequence

from agentrl.envs.base import Env, Observation
from agentrl.envs.sandbox import ExecResult
from agentrl.messages import Message, ToolCall


async def call(env: Env, name: str, **arguments: object) -> Observation:
    return await env.step(Message("assistant", "", (ToolCall("1", name, arguments),)))


async def say(env: Env, name: str, **arguments: object) -> str:
    return (await call(env, name, **arguments)).messages[0].content


class Answering:
    """A sandbox whose every command ends the same way, with a lasting shell."""

    def __init__(self, result: ExecResult) -> None:
        self.result = result
        self.commands: list[str] = []

    async def shell(self, command: str, timeout_s: float = 60.0) -> ExecResult:
        self.commands.append(command)
        return self.result

    async def exec(self, argv: Sequence[str], timeout_s: float = 60.0) -> ExecResult:
        return self.result

    async def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    async def write(self, path: str, data: bytes) -> None:
        raise PermissionError(13, "Permission denied")
