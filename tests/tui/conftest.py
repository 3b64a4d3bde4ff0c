from pathlib import Path

import pytest

from agentrl.trajectory import index
from tests.tui.recorded import record


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recorded run, never written to by a test."""
    folder = tmp_path_factory.mktemp("recorded") / "runs"
    index.load(record(folder))
    return folder


@pytest.fixture
def runs(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as a path that is alike on every machine."""
    monkeypatch.chdir(recorded.parent)
    return Path("runs")
