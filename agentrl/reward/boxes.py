"""What verifiers do to a judging box."""

from collections.abc import Sequence

from agentrl.envs.sandbox import ExecResult, Sandbox
from agentrl.task import Limits


async def run_script(
    sandbox: Sandbox, path: str, source: bytes, arguments: Sequence[str], limits: Limits
) -> ExecResult:
    """Place a self-contained Python script at `path` and run it from the workdir."""
    await sandbox.write(path, source)
    return await sandbox.exec(["@python", path, *arguments], limits.verifier_s)
