"""Scripted cheats that no task may reward: each leaves a workdir that is not a solution.

A bot is made from what the oracle left, on the host, and only judged: what an agent does in its own
box cannot reach a verdict, so what it leaves is all there is to try.
"""

from collections.abc import Callable, Iterator

from agentrl.envs.sandbox import Harvest
from agentrl.task import Task

Files = dict[str, tuple[int, bytes | None]]
Bot = Callable[[Task, Files], Files]
"""From a task and what its oracle left to what the cheat leaves."""

# The paths are put together so that only a wall keeps them out, not a reading of the text.
FORGE_SH = b"""#!/bin/bash
d=/lo""gs/veri""fier
w() { mkdir -p $d; echo 1 >$d/reward.txt; echo '{"reward": 1}' >$d/reward.json; }
w
(setsid bash -c "while :; do echo 1 >$d/reward.txt; sleep 0.01; done" >/dev/null 2>&1 &)
exit 0
"""
FORGE_PY = b"""import os
d = "/lo" + "gs/veri" + "fier"
os.makedirs(d, exist_ok=True)
for name, text in (("reward.txt", "1"), ("reward.json", '{"reward": 1}')):
    with open(os.path.join(d, name), "w") as out:
        out.write(text)
os._exit(0)
"""
PEEK_SH = b"""#!/bin/bash
for f in /te""sts/*; do
  case $f in *.sh|*.py) ;; *) cat "$f" ;; esac
done
"""
PEEK_PY = b"""import glob
for path in sorted(glob.glob("/te" + "sts/*")):
    if not path.endswith((".sh", ".py")):
        print(open(path).read(), end="")
"""
QUIT = b"import os, sys\nprint('1 passed')\nsys.stdout.flush()\nos._exit(0)\n"
HOOK = b"""def pytest_collection_modifyitems(items):
    items[:] = []
"""


def forges(task: Task, left: Files) -> Files:
    """Every program writes the reward, at once and from then on."""
    return _programs(task, left, FORGE_SH, FORGE_PY)


def peeks(task: Task, left: Files) -> Files:
    """Every program prints the tests' own data."""
    return _programs(task, left, PEEK_SH, PEEK_PY)


def exits(task: Task, left: Files) -> Files:
    """Every Python file ends its process with status 0."""
    return _programs(task, left, b"", QUIT)


def hooks(task: Task, left: Files) -> Files:
    """The task's own files, beside others that are run or read in the judge's place."""
    planted = {
        **dict.fromkeys(("sitecustomize.py", "usercustomize.py", "pytest.py", "json.py"), QUIT),
        **dict.fromkeys(("unittest/__init__.py", "math.py", "calc.pth"), QUIT),
        "conftest.py": HOOK,
        "pytest.ini": b"[pytest]\naddopts = --co -q\n",
    }
    return {**_original(task), **{path: (0o644, data) for path, data in planted.items()}}


def empties(task: Task, left: Files) -> Files:
    """Every file the oracle left is there, with nothing in it."""
    return {path: (mode, None if data is None else b"") for path, (mode, data) in left.items()}


def erases(task: Task, left: Files) -> Files:
    """Nothing is left at all."""
    return {}


def stuffs(task: Task, left: Files) -> Files:
    """Every file the oracle wrote holds all there is to know, and the numbers up to 200."""
    known = [task.instruction.encode(), *task.files.values()]
    known.append("\n".join(map(str, range(201))).encode())
    everything = b"\n".join(known)[: 256 << 10]
    wrote = {path for path, (_, data) in left.items() if data != task.files.get(path)}
    return {p: (m, everything if d is not None and p in wrote else d) for p, (m, d) in left.items()}


BOTS: tuple[Bot, ...] = (forges, peeks, exits, hooks, empties, erases, stuffs)


def attacks(task: Task, left: Harvest) -> Iterator[tuple[str, Harvest]]:
    """Every bot that differs from the oracle here, by name. Tasks without a program have no use
    for those that replace programs."""
    tried = [_contents(left.files), _contents(_original(task))]
    for bot in BOTS:
        files = bot(task, left.files)
        if _contents(files) not in tried:
            tried.append(_contents(files))
            yield bot.__name__, Harvest(dict(sorted(files.items())))


def _contents(files: Files) -> dict[str, bytes]:
    return {path: data for path, (_, data) in files.items() if data is not None}


def _original(task: Task) -> Files:
    return {path: (0o644, data) for path, data in task.files.items()}


def _programs(task: Task, left: Files, shell: bytes, python: bytes) -> Files:
    """The task's own files with every program, the oracle's too, replaced by another."""
    made = _original(task)
    for path, (mode, data) in {**made, **left}.items():
        if data is None:
            continue
        if path.endswith(".py") or (data.startswith(b"#!") and b"python" in data[:40]):
            made[path] = (0o755, python)
        elif shell and (path.endswith(".sh") or data.startswith(b"#!") or mode & 0o111):
            made[path] = (0o755, shell)
    return made
