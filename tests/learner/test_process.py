import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from agentrl.engine.torch.model import load_model
from agentrl.errors import ConfigError, RunError
from agentrl.learner.config import LearnerConfig
from agentrl.learner.grpo import GrpoLearner
from agentrl.learner.process import LearnerProcess
from tests.learner.tiny import make_folder


@pytest.fixture
def child(folder, tmp_path):
    learner = LearnerProcess(folder, tmp_path / "run", LearnerConfig(lr=1e-2))
    yield learner
    learner.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A child for tests that leave it alive, whatever its weights."""
    path = tmp_path_factory.mktemp("shared")
    learner = LearnerProcess(make_folder(path / "tiny"), path / "run", LearnerConfig(lr=1e-2))
    yield learner
    learner.close()


def test_a_child_learns_exactly_what_a_learner_here_does(child, folder, tmp_path, segment):
    here = GrpoLearner(folder, tmp_path / "here", LearnerConfig(lr=1e-2))
    batch = [segment("a"), segment("b", sampled=[9, 9, 4], advantage=-0.5)]
    for _ in range(3):
        mine, theirs = here.step(batch), child.step(batch)
        assert {k: v for k, v in mine.items() if k != "seconds"} == {
            k: v for k, v in theirs.items() if k != "seconds"
        }
    weights = child.publish()
    assert child.version == weights.version == 3
    there = load_model(weights.path).state_dict()
    assert all(torch.equal(v, there[k]) for k, v in here.model.state_dict().items())


def test_a_state_goes_out_and_comes_back(shared, tmp_path, segment):
    shared.step([segment()])
    version = shared.version
    shared.save(tmp_path / "state" / "1")
    after = shared.step([segment()])["loss"]
    shared.load(tmp_path / "state" / "1")
    assert shared.version == version
    assert shared.step([segment()])["loss"] == after


def test_what_the_child_raises_on_purpose_is_raised_here(shared, segment):
    with pytest.raises(RunError, match="holds no segments") as caught:
        shared.step([])
    assert caught.value.where == "learner.step"
    assert shared.step([segment()])["rows"] == 1.0


def test_a_bug_in_the_child_is_reported_and_survived(shared, segment):
    with pytest.raises(RunError, match="out of bounds"):
        shared.step([segment(sampled=[999])])
    assert shared.step([segment()])["rows"] == 1.0


def test_a_folder_without_a_model_is_refused_at_the_start(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        LearnerProcess(tmp_path, tmp_path / "run")


def test_a_dead_child_is_an_error_that_names_its_end(child, segment):
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(RunError, match="ended by signal 9") as caught:
        child.step([segment()])
    assert "learner.log" in caught.value.where
    with pytest.raises(RunError, match="signal 9"):
        child.publish()


def test_a_closed_learner_says_so(child, segment):
    child.close()
    child.close()
    with pytest.raises(RunError, match="was closed"):
        child.step([segment()])


PARENT = """
import os, sys, time
from pathlib import Path
from agentrl.learner.process import LearnerProcess
learner = LearnerProcess(Path(sys.argv[1]), Path(sys.argv[2]))
print(learner.pid, flush=True)
time.sleep(60)
"""


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_child_ends_with_its_parent(folder, tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, folder, tmp_path / "run"], stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    assert not gone(pid)
    os.kill(pid, signal.SIGSTOP)  # it cannot listen; only the kernel can end it
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while not gone(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert gone(pid)
