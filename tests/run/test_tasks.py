"""Tasks are listed, shown and proved solvable, generated ones and folders alike."""

import json
from pathlib import Path

import pytest

from agentrl.cli import main
from agentrl.plugins import names
from agentrl.run.schema import FIELDS

GENERATED = ["terminal", "filesystem", "swe"]


def folder(root: Path, name: str, solution: str, check: str) -> Path:
    """A task folder: `answer` must hold what the check wants."""
    task = root / name
    for part in ("environment", "tests", "solution"):
        (task / part).mkdir(parents=True)
    (task / "task.toml").write_text('version = "1.0"\n[agent]\ntimeout_sec = 30\n')
    (task / "instruction.md").write_text("Write 42 to the file answer.\n")
    (task / "environment" / "question").write_text("6 * 7\n")
    (task / "solution" / "solve.sh").write_text(f"#!/bin/bash\n{solution}\n")
    (task / "tests" / "test.sh").write_text(f"#!/bin/bash\n{check}\n")
    return task


PASS = "mkdir -p /logs/verifier; if {}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"
RIGHT = PASS.format('[ "$(cat answer 2>/dev/null)" = 42 ]')
ALWAYS = PASS.format("true")


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_every_generator_lists_its_families_and_grades(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list", "--json"]) == 0
    tasks = answer(capsys)["tasks"]
    assert isinstance(tasks, list)
    assert {task["suite"] for task in tasks} == set(names("generators"))
    assert {task["difficulty"] for task in tasks} == {1, 2, 3, 4, 5}
    assert len({task["id"] for task in tasks}) == len(tasks)
    fields = FIELDS["tasks list"]["tasks"]
    assert all(task.keys() == fields.keys() for task in tasks)  # type: ignore[attr-defined]


@pytest.mark.parametrize("env", GENERATED)
def test_a_listed_task_can_be_shown_by_its_id(env: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--env", env, "--difficulty", "2", "--split", "held_out", "--json"]
    assert main(["tasks", "list", *words]) == 0
    tasks = answer(capsys)["tasks"]
    assert isinstance(tasks, list)
    assert main(["tasks", "show", tasks[0]["id"], "--json"]) == 0
    shown = answer(capsys)
    assert shown.keys() == FIELDS["tasks show"].keys()
    assert {name: shown[name] for name in tasks[0]} == tasks[0]
    assert shown["oracle"]
    assert main(["tasks", "show", tasks[0]["id"]]) == 0
    assert str(shown["instruction"]).split("\n")[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "what", "help"),
    [
        (["list", "--difficulty", "6"], "'6' is no list of difficulties", "1 to 5"),
        (["list", "--seeds", "0"], "`--seeds 0` makes no task", "1 or more"),
        (["list", "--env", "terminol"], "no generators plug-in is named", "terminal"),
        (["list", "--env", "terminal", "--family", "zz"], "no family is named 'zz'", "there are"),
        (["show", "nope"], "no task is called 'nope'", "tasks list"),
        (["show", "terminal/zz/1/train-000000"], "no family is named 'zz'", "there are"),
        (["show"], "name one task", "tasks show ID"),
    ],
)
def test_what_is_not_there_is_refused(
    words: list[str], what: str, help: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tasks", *words]) == 2
    told = capsys.readouterr().err
    assert what in told
    assert help in told


def test_a_folder_without_tasks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tasks", "list", str(tmp_path)]) == 2
    assert "there are no tasks" in capsys.readouterr().err


def test_a_good_folder_passes_and_one_that_accepts_nothing_done_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = folder(tmp_path, "good", "echo 42 > answer", RIGHT)
    assert main(["tasks", "validate", str(good), "--json"]) == 0
    found = answer(capsys)
    assert found.keys() == FIELDS["tasks validate"].keys()
    assert (found["good"], found["bad"]) == (1, 0)
    folder(tmp_path, "lazy", "echo 42 > answer", ALWAYS)
    folder(tmp_path, "wrong", "echo 41 > answer", RIGHT)
    assert main(["tasks", "validate", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "3 tasks: 1 good, 2 not" in told.err
    assert "doing nothing passes" in told.out
    assert "the oracle did not pass" in told.out


@pytest.mark.parametrize("env", GENERATED)
def test_generated_tasks_pass(env: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "validate", "--env", env, "--difficulty", "1", "--json"]) == 0
    found = answer(capsys)
    assert found["bad"] == 0
    assert isinstance(found["good"], int)
    assert found["good"] > 0


def test_a_task_that_rewards_a_cheat_is_not_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exposed = PASS.format('[ "$(bash answer.sh)" = 42 ]')
    task = folder(tmp_path, "exposed", "echo 'echo 42' > answer.sh", exposed)
    (task / "tests" / "want").write_text("42\n")
    confined = PASS.format('[ "$($CONFINED bash answer.sh)" = 42 ]')
    safe = folder(tmp_path, "safe", "echo 'echo 42' > answer.sh", confined)
    (safe / "tests" / "want").write_text("42\n")
    assert main(["tasks", "validate", str(tmp_path), "--repeat", "1", "--json"]) == 1
    found = answer(capsys)["tasks"]
    assert isinstance(found, list)
    by_name = {one["id"].rsplit("/", 1)[-1]: one for one in found}
    assert by_name["safe"]["good"], by_name["safe"]
    assert "the bot that peeks passes" in by_name["exposed"]["faults"]
    assert by_name["exposed"].keys() == FIELDS["tasks validate"]["tasks"].keys()  # type: ignore[attr-defined]
    assert main(["tasks", "validate", str(safe), "--repeat", "0"]) == 2
