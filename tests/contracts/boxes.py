"""Every registered sandbox, and what tests of boxes need."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentrl.plugins import find, names
from agentrl.task import Task

every_sandbox = pytest.mark.parametrize(
    "opener", [pytest.param(find("sandboxes", name)(), id=name) for name in names("sandboxes")]
)
unique = count(os.getpid() * 1000)


def task(**files: bytes) -> Task:
    return Task(id="t", suite="tests", instruction="", files=files)


def play(
    opener: Any, act: Callable[[Any], Awaitable[Any]], of: Task | None = None, **how: Any
) -> Any:
    async def episode() -> Any:
        async with opener(of or task(), **how) as box:
            return await act(box)

    return asyncio.run(episode())


def running(word: str) -> list[int]:
    """Host pids whose command line has `word` as an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments:
                found.append(int(entry.name))
    return found


def eventually(holds: Callable[[], bool], within: float = 5.0) -> bool:
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def naptime() -> str:
    """A `sleep` argument no other process has."""
    return f"{next(unique)}.5"


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def folders() -> list[Path]:
    name = f"agentrl-{os.getpid()}-*"
    return [path for home in ("/dev/shm", "/tmp") for path in Path(home).glob(name)]
