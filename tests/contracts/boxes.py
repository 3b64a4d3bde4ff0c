"""Every registered sandbox, and what tests of boxes need."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentrl.plugins import find, names
from agentrl.task import Task

SERVICES = {"docker": (pytest.mark.docker,)}
"""Backends that need more than this machine has of itself."""

every_sandbox = pytest.mark.parametrize(
    "opener",
    [
        pytest.param(find("sandboxes", name)(), id=name, marks=SERVICES.get(name, ()))
        for name in names("sandboxes")
    ],
)


def folders() -> list[Path]:
    name = f"agentrl-{os.getpid()}-*"
    return [path for home in ("/dev/shm", "/tmp") for path in Path(home).glob(name)]


def task(**files: bytes) -> Task:
    return Task(id="t", suite="tests", instruction="", files=files)


def play(
    opener: Any, act: Callable[[Any], Awaitable[Any]], of: Task | None = None, **how: Any
) -> Any:
    async def episode() -> Any:
        async with opener(of or task(), **how) as box:
            return await act(box)

    return asyncio.run(episode())
