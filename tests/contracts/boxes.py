"""Every registered sandbox, and what tests of boxes need."""

import os
from pathlib import Path

import pytest

from agentrl.plugins import find, names

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
