"""A box for tests that is only a directory: no isolation, for trusted commands alone.

The box's absolute paths lie below `root`; where a command or a shell script names one, the name
is rewritten. `@python` starts a plain interpreter.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentrl.envs.sandbox import ExecResult, Harvest, Stream
from agentrl.errors import SandboxError
from agentrl.task import Task

OURS = re.compile(r"(?<![\w./])/(workspace|tests|logs|tmp)(?=/|\b)")


class DirectoryBox:
    """Implements Sandbox and Artifacts."""

    digest = "sha256:directory"

    def __init__(self, root: Path, workdir: str) -> None:
        self.root = root
        self.workdir = root / workdir.lstrip("/")
        self.calls: list[Sequence[str]] = []

    def real(self, path: str) -> Path:
        return self.root / path.lstrip("/") if path.startswith("/") else self.workdir / path

    def rewrite(self, text: str) -> str:
        return OURS.sub(lambda match: f"{self.root}/{match[1]}", text)

    async def exec(self, argv: Sequence[str], timeout_s: float = 60.0) -> ExecResult:
        self.calls.append(argv)
        words = [self.rewrite(word) for word in argv]
        if words[0] == "@python":
            words[0] = sys.executable
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self.workdir,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate()
        except TimeoutError:
            return ExecResult(None, timed_out="total")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.communicate()
        return ExecResult(process.returncode, Stream(out), Stream(err))

    async def read(self, path: str) -> bytes:
        return self.real(path).read_bytes()

    async def write(self, path: str, data: bytes) -> None:
        self.place(path, data)

    async def harvest(self) -> Harvest:
        found: dict[str, tuple[int, bytes | None]] = {}
        for path in sorted(self.workdir.rglob("*")):
            name = path.relative_to(self.workdir).as_posix()
            if path.is_symlink():
                continue
            found[name] = (
                path.stat().st_mode & 0o777,
                None if path.is_dir() else path.read_bytes(),
            )
        return Harvest(found)

    def place(self, path: str, data: bytes, mode: int = 0o644) -> None:
        real = self.real(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        if path.startswith("/tests/") and path.endswith((".sh", "check.py")):
            data = self.rewrite(data.decode()).encode()
        real.write_bytes(data)
        real.chmod(0o755 if data.startswith(b"#!") else mode)


class Opener:
    """Implements OpenSandbox; `refuse` says which of the next openings fail."""

    def __init__(self, refuse: Sequence[bool] = ()) -> None:
        self.refuse = list(refuse)
        self.opened: list[DirectoryBox] = []

    @asynccontextmanager
    async def __call__(
        self,
        task: Task,
        snapshot: str | None = None,
        *,
        extra: dict[str, bytes] | None = None,
        harvest: Harvest | None = None,
    ) -> AsyncIterator[DirectoryBox]:
        if self.refuse and self.refuse.pop(0):
            raise SandboxError("no room")
        root = Path(tempfile.mkdtemp(prefix="directory-box-"))
        try:
            box = DirectoryBox(root, task.sandbox.workdir)
            for folder in (box.workdir, root / "tmp", root / "logs", root / "tests"):
                folder.mkdir(parents=True, exist_ok=True)
            files = {name: (0o644, data) for name, data in task.files.items()}
            for name, (mode, data) in (harvest.files if harvest else files).items():
                if data is None:
                    box.real(name).mkdir(parents=True, exist_ok=True)
                else:
                    box.place(name, data, mode)
            for name, data in (extra or {}).items():
                box.place(name, data)
            self.opened.append(box)
            yield box
        finally:
            shutil.rmtree(root)
