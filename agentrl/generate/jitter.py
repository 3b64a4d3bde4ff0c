"""The same judging box on another day: another time zone, hash seed and order of the tests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agentrl.envs.sandbox import ExecResult, Harvest, OpenSandbox, Sandbox
from agentrl.task import Task

ZONES = ("AAA-14", "BBB+11:30", "CCC-5:45")
PYTHON = ("python3", "-S", "-B")


class Jittered:
    """Opens boxes whose commands find another environment; the n-th differs from the next."""

    def __init__(self, opened: OpenSandbox, n: int) -> None:
        self._open = opened
        self._words = (
            f"TZ={ZONES[n % len(ZONES)]}",
            f"PYTHONHASHSEED={(n * 7919) % 4_000_000_000}",
            "AGENTRL_TEST_ORDER=reversed",
        )
        self.digest = getattr(opened, "digest", None)

    @asynccontextmanager
    async def __call__(
        self,
        task: Task,
        snapshot: str | None = None,
        *,
        extra: dict[str, bytes] | None = None,
        harvest: Harvest | None = None,
    ) -> AsyncIterator[Sandbox]:
        async with self._open(task, snapshot, extra=extra, harvest=harvest) as box:
            yield _Box(box, self._words)


class _Box:
    """A box, with words put before each command; what else it can do it still can."""

    def __init__(self, box: Sandbox, words: Sequence[str]) -> None:
        self._box = box
        self._words = words

    async def exec(self, argv: Sequence[str], timeout_s: float = 60.0) -> ExecResult:
        command = (*PYTHON, *argv[1:]) if argv[:1] == ["@python"] else tuple(argv)
        return await self._box.exec(["env", *self._words, *command], timeout_s)

    async def read(self, path: str) -> bytes:
        return await self._box.read(path)

    async def write(self, path: str, data: bytes) -> None:
        await self._box.write(path, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)
