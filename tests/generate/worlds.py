"""Small stand-ins for the boxes, so that oracles can be carried out without one."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentrl.generate.base import DIFFICULTIES, Generator
from agentrl.messages import ToolCall
from agentrl.task import Task

Files = dict[str, bytes]


def every(generator: Generator, seeds: int) -> Iterator[Task]:
    """Each family at each difficulty, `seeds` tasks a split."""
    for family in generator.families:
        for difficulty in DIFFICULTIES:
            for seed in range(seeds):
                yield generator.make(family, difficulty, seed, "train")
                yield generator.make(family, difficulty, seed, "held_out")


def reached(task: Task, files: Files) -> bool:
    """Does a final state meet the task's `expected.json`? Written from its description."""
    expected = json.loads(task.tests["expected.json"])
    assert expected.keys() == {"files", "absent", "exact_tree", "allow"}
    for path, want in expected["files"].items():
        data = files.get(path)
        if data is None:
            return False
        if "sha256" in want:
            if hashlib.sha256(data).hexdigest() != want["sha256"]:
                return False
        elif data.decode("utf-8", "replace").rstrip() != want["text"].rstrip():
            return False
    known = {*expected["files"], *expected["allow"]}
    return not any(path in files for path in expected["absent"]) and files.keys() <= known


def play_files(task: Task, calls: Sequence[ToolCall]) -> tuple[Files, list[str]]:
    """The file tools over a dict; raises KeyError for a path that is not there."""
    files = dict(task.files)
    seen = []
    for call in calls:
        a = call.arguments
        match call.name:
            case "list_files":
                at = "" if a["path"] == "." else f"{a['path']}/"
                inside = sorted(path for path in files if path.startswith(at))
                assert inside, f"{task.id}: nothing to list in {a['path']}"
                seen.append("\n".join(inside))
            case "read_file":
                seen.append(files[a["path"]].decode())
            case "write_file":
                files[a["path"]] = a["content"].encode()
                seen.append(f"wrote {a['path']}")
            case "move_file":
                assert a["destination"] not in files, f"{task.id}: would overwrite"
                files[a["destination"]] = files.pop(a["source"])
                seen.append(f"moved to {a['destination']}")
            case "delete_file":
                del files[a["path"]]
                seen.append(f"deleted {a['path']}")
            case "edit_file":
                text = files[a["path"]].decode()
                assert text.count(a["old"]) == 1, f"{task.id}: {a['old']!r} is not unique"
                files[a["path"]] = text.replace(a["old"], a["new"]).encode()
                seen.append(f"edited {a['path']}")
            case "search":
                seen.append(search(files, a["pattern"]))
                assert seen[-1], f"{task.id}: nothing found"
            case "run_tests":
                seen.append("2 passed, 1 failed\ntest_some_name: assert False")
            case "submit":
                seen.append("submitted")
            case _:
                raise AssertionError(f"{task.id}: no tool {call.name}")
    return files, seen


def search(files: Files, pattern: str) -> str:
    return "\n".join(
        f"{path}:{i}: {line}"
        for path, data in sorted(files.items())
        for i, line in enumerate(data.decode().splitlines(), 1)
        if pattern in line
    )


def play_shell(task: Task, calls: Sequence[ToolCall], folder: Path) -> tuple[Files, list[str]]:
    """The calls in one bash, as in a persistent shell; every command must succeed."""
    folder.mkdir(exist_ok=True)
    for path, data in task.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    commands = [call.arguments["command"] for call in calls if call.name == "shell"]
    script = "\n".join(f"{command} || exit 9\nprintf '\\001'" for command in commands)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
    )
    assert done.returncode == 0, f"{task.id}: {commands} -> {done}"
    assert not done.stderr, f"{task.id}: {done.stderr!r}"
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return files, done.stdout.decode().split("\x01")[: len(commands)]


def length(task: Task, seen: Sequence[str]) -> int:
    """Characters of an oracle's episode: instruction, calls as JSON, observations."""
    calls = sum(len(json.dumps([c.name, c.arguments])) for c in task.oracle)
    return len(task.instruction) + calls + sum(map(len, seen))
