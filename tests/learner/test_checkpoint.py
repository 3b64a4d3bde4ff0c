import json
import os
import subprocess
import sys

import pytest
import torch

from agentrl.errors import StoreError
from agentrl.learner import checkpoint

PARTS = {
    "model": {"a": torch.arange(3.0), "b": torch.tensor(2)},
    "learner": {"version": 7, "lr": 0.1, "nested": {"x": [1, None]}},
    "optimizer": {},
}


def test_what_was_saved_comes_back(tmp_path):
    checkpoint.save(tmp_path / "7", PARTS)
    back = checkpoint.load(tmp_path / "7")
    assert torch.equal(back["model"]["a"], PARTS["model"]["a"])
    assert back["model"]["b"].item() == 2
    assert back["learner"] == PARTS["learner"]
    assert back["optimizer"] == {}
    assert [entry.name for entry in tmp_path.iterdir()] == ["7"]


def test_the_latest_is_the_greatest_complete_number(tmp_path):
    assert checkpoint.latest(tmp_path / "none") is None
    for step in (2, 10, 9):
        checkpoint.save(tmp_path / str(step), PARTS)
    (tmp_path / "11").mkdir()
    (tmp_path / "notes").mkdir()
    assert checkpoint.latest(tmp_path) == tmp_path / "10"


def test_pruning_keeps_the_newest_and_never_the_last_one_away(tmp_path):
    for step in (1, 2, 10):
        checkpoint.save(tmp_path / str(step), PARTS)
    checkpoint.prune(tmp_path, 2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["10", "2"]
    checkpoint.prune(tmp_path, 0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["10"]


def test_an_incomplete_folder_is_refused(tmp_path):
    checkpoint.save(tmp_path / "1", PARTS)
    (tmp_path / "1" / checkpoint.MARKER).unlink()
    with pytest.raises(StoreError, match="not complete"):
        checkpoint.load(tmp_path / "1")
    with pytest.raises(StoreError, match="no checkpoint here"):
        checkpoint.load(tmp_path / "2")


def test_a_damaged_file_is_named(tmp_path):
    checkpoint.save(tmp_path / "1", PARTS)
    (tmp_path / "1" / "model.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(StoreError, match="cannot be read"):
        checkpoint.load(tmp_path / "1")


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def said(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


FULL = """
import resource, sys, torch
from pathlib import Path
from agentrl.errors import RunError
from agentrl.learner import checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for big in (Path(sys.argv[1]) / "3", Path(sys.argv[1]) / "2"):
    try:
        checkpoint.save(big, {"model": {"a": torch.zeros(100_000)}})
    except RunError as error:
        print(error)
"""


def test_a_full_disk_is_said_and_what_was_there_stays(tmp_path):
    checkpoint.save(tmp_path / "2", PARTS)
    out = said(child(FULL, tmp_path))
    assert out.count("the disk is full") == 2
    assert "help: free some space" in out
    assert [entry.name for entry in tmp_path.iterdir()] == ["2"]
    assert checkpoint.load(tmp_path / "2")["learner"] == PARTS["learner"]


TRAIN = """
import sys, json, torch
from pathlib import Path
from agentrl.learner.config import LearnerConfig
from agentrl.learner.grpo import GrpoLearner
from agentrl.trajectory.records import Segment
folder, out, state = map(Path, sys.argv[1:4])
first, last = map(int, sys.argv[4:6])
torch.use_deterministic_algorithms(True)
config = LearnerConfig(lr=1e-2, warmup=2, lr_end=1e-3, max_steps=6, minibatches=2, epochs=2)
learner = GrpoLearner(folder, out, config)
if first:
    learner.load(state)
said = []
for step in range(first, last):
    draw = torch.Generator().manual_seed(step)
    batch = []
    for n in range(6):
        tokens = torch.randint(3, 40, (20 + n,), generator=draw).tolist()
        mask = [i > 8 for i in range(len(tokens))]
        batch.append(Segment(str(n), 0, tokens, mask, [-3.5 * m for m in mask],
            [(n - 2.5) * m for m in mask], [0 if m else -1 for m in mask]))
    said.append(learner.step(batch)["loss"])
learner.save(state)
print(json.dumps(said))
"""


def test_half_a_run_saved_and_continued_elsewhere_equals_a_whole_one(folder, tmp_path):
    def start(state: str, first: int, last: int) -> subprocess.Popen[str]:
        return child(TRAIN, folder, tmp_path, tmp_path / state, first, last)

    whole = start("whole", 0, 6)
    halves = json.loads(said(start("half", 0, 3)))
    halves += json.loads(said(start("half", 3, 6)))
    assert json.loads(said(whole)) == halves
    one, two = checkpoint.load(tmp_path / "whole"), checkpoint.load(tmp_path / "half")
    assert one["learner"] == two["learner"]
    for part in ("model", "optimizer"):
        assert one[part].keys() == two[part].keys()
        assert all(torch.equal(one[part][name], two[part][name]) for name in one[part])
    assert len(one["optimizer"]) == 3 * len(one["model"])
