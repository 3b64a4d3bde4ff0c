"""Fixtures made of `tiny`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agentrl.trajectory.records import Segment
from tests.learner.tiny import make_folder, make_segment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A random-weights Llama, as a checkpoint folder."""
    return make_folder(tmp_path / "tiny")


@pytest.fixture
def segment() -> Callable[..., Segment]:
    return make_segment
