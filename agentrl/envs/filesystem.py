"""A folder to put in order, without a shell."""

from collections.abc import Sequence

from agentrl.envs.base import Observation, ToolEnv
from agentrl.envs.sandbox import Sandbox
from agentrl.envs.tools.files import DeleteFile, Files, ListFiles, MoveFile, ReadFile, WriteFile
from agentrl.envs.tools.submit import Submit
from agentrl.messages import Message
from agentrl.task import Task
from agentrl.tool import Tool, ToolSpec

SYSTEM = "You manage files with tools. Call submit when done."


class FilesystemEnv:
    """`list_files read_file write_file move_file delete_file submit`, all below the workdir."""

    def __init__(self, task: Task, sandbox: Sandbox, extra: Sequence[Tool] = ()) -> None:
        opening = [Message("system", SYSTEM), Message("user", task.instruction)]
        files = Files(sandbox, task.sandbox.workdir, task.limits.command_s)
        own: list[Tool] = [
            ListFiles(files),
            ReadFile(files),
            WriteFile(files),
            MoveFile(files),
            DeleteFile(files),
            Submit(),
        ]
        self._inner = ToolEnv(opening, [*own, *extra])

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._inner.tools

    async def reset(self) -> Sequence[Message]:
        return await self._inner.reset()

    async def step(self, reply: Message) -> Observation:
        return await self._inner.step(reply)
