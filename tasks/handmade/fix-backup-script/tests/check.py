"""Try the script on folders made here, which its author has not seen.

The script is the agent's, so it may do anything: all it started is dead before the reward is
written, and what it may have left in the reward's place is removed.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

LOGS = Path("/logs/verifier")


def run(*argv: str) -> str:
    """The last word printed; nothing that was started outlives this."""
    with tempfile.TemporaryFile() as out:
        confined = os.environ.get("CONFINED", "").split()
        child = subprocess.Popen(
            [*confined, "bash", "./backup.sh", *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        reap()
        out.seek(0)
        return (out.read(10_000).decode("utf-8", "replace").split() or [""])[-1]


def reap() -> None:
    """Kill our descendants; orphans among them have become our children."""
    while True:
        try:
            pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            os.wait()
        except ChildProcessError:
            return


def tree(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def judge(room: Path) -> bool:
    source = room / "in put"
    (source / "deep er" / "x").mkdir(parents=True)
    (room / "empty").mkdir()
    want = {"plain.txt": "1", "with  two spaces.txt": "2", "deep er/x/leaf.txt": "3"}
    for name, text in (want | {"deep er/other.log": "4"}).items():
        (source / name).write_text(text)
    counted = run(str(source), str(room / "out here" / "new"))
    nothing = run(str(room / "empty"), str(room / "none"))
    return (
        (counted, nothing) == ("3", "0")
        and tree(room / "out here" / "new") == want
        and (room / "none").is_dir()
    )


ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
    try:
        passed = judge(Path(name))
    except (OSError, UnicodeDecodeError):
        passed = False
for path in LOGS.iterdir():
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
(LOGS / "reward.txt").write_text(f"{int(passed)}\n")
