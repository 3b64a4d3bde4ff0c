"""Run a shell command in the box."""

from collections.abc import Mapping
from typing import Any

from agentrl.envs.sandbox import ExecResult, Sandbox
from agentrl.envs.tools.words import TEXT, Unusable, alive, clip, ending, malformed, texts
from agentrl.tool import ToolOutput, ToolSpec


class RunShell:
    """`shell(command)`: what it printed, then how it ended unless it succeeded.

    Where the box keeps a shell (capability `Shell`), `cd` and `export` last; else every command
    is a fresh `bash -c` in the workdir. The exit status is the signal `exit`. Raises AgentFault
    when the command killed the box.
    """

    spec = ToolSpec("shell", "Run a shell command.", {"command": TEXT})

    def __init__(self, sandbox: Sandbox, timeout_s: float) -> None:
        self._sandbox = sandbox
        self._timeout_s = timeout_s

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            (command,) = texts(arguments, "command")
        except Unusable as error:
            return malformed(error)
        result = alive(await self._run(command), "a shell command")
        printed = result.out.text + result.err.text
        note = ending(result, self._timeout_s)
        body = clip(printed.rstrip("\n")) or ("" if note else "(no output)")
        signals = {} if result.code is None else {"exit": float(result.code)}
        return ToolOutput("\n".join(part for part in (body, note) if part), signals=signals)

    async def _run(self, command: str) -> ExecResult:
        lasting = getattr(self._sandbox, "shell", None)
        if lasting is None:
            return await self._sandbox.exec(["bash", "-c", command], self._timeout_s)
        result: ExecResult = await lasting(command, self._timeout_s)
        return result
