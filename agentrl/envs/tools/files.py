"""List, read, write, move and delete files below the workdir; nothing outside it is reachable."""

import posixpath
from collections.abc import Mapping
from typing import Any

from agentrl.envs.sandbox import ExecResult, Sandbox
from agentrl.envs.tools.words import TEXT, Unusable, alive, clip, first_line, malformed, texts
from agentrl.envs.tools.words import inside as place
from agentrl.tool import ToolOutput, ToolSpec

ENTRIES = 60
"""How many paths one listing shows."""


class Files:
    """What the file tools share: a box, its workdir and a clock.

    A path that leads out of the workdir is answered with an error; links the agent cannot make
    are not looked for.
    """

    def __init__(self, sandbox: Sandbox, workdir: str, timeout_s: float) -> None:
        self.sandbox = sandbox
        self.workdir = workdir
        self.timeout_s = timeout_s

    def path(self, path: str) -> str:
        """`path` relative to the workdir. Raises Refused where it leads out."""
        found = place(self.workdir, path)
        if found is None:
            raise Refused(f"error: {clip(path, 200)} is outside the working directory")
        return found

    async def run(self, *argv: str) -> ExecResult:
        """Run a helper program. Raises AgentFault when the box is gone."""
        return alive(await self.sandbox.exec(argv, self.timeout_s), f"{argv[0]}")

    async def parents(self, path: str) -> None:
        """Make the directories above `path`. Raises Refused where that cannot be."""
        parent = posixpath.dirname(path)
        if parent:
            made = await self.run("mkdir", "-p", "--", parent)
            if made.code != 0:
                raise Refused(f"error: cannot make {parent}: {reason(made)}")

    async def read(self, path: str) -> bytes:
        """A file's bytes. Raises Refused where there is no readable file."""
        try:
            return await self.sandbox.read(path)
        except FileNotFoundError:
            raise Refused(f"error: no such file: {path}") from None
        except (IsADirectoryError, NotADirectoryError):
            raise Refused(f"error: not a file: {path}") from None
        except PermissionError:
            raise Refused(f"error: cannot read {path}: permission denied") from None

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file's bytes. Raises Refused where that cannot be."""
        try:
            await self.sandbox.write(path, data)
        except OSError as error:
            raise Refused(f"error: cannot write {path}: {error.strerror or error}") from None


class Refused(Exception):
    """The box or the rules say no; the message is the observation."""


def reason(result: ExecResult) -> str:
    """Why a helper program failed, in the words after its last colon."""
    if result.timed_out:
        return "timed out"
    return first_line(result).rsplit(": ", 1)[-1]


class ListFiles:
    """`list_files(path)`: every path below it, sorted, relative to the workdir."""

    spec = ToolSpec("list_files", "List all files under a directory.", {"path": TEXT})

    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            (given,) = texts(arguments, "path")
            path = self._files.path(given)
        except Unusable as error:
            return malformed(error)
        except Refused as error:
            return ToolOutput(str(error))
        hidden = ("(", "-name", "__pycache__", "-o", "-name", ".git", ")", "-prune")
        start = path if path == "." else f"./{path}"
        result = await self._files.run("find", start, *hidden, "-o", "-printf", "%y%p\\0")
        if result.code != 0:
            return ToolOutput(f"error: cannot list {path}: {reason(result)}")
        return ToolOutput(clip(listing(result.out.head, result.out.dropped > 0)))


def listing(found: bytes, more: bool = False) -> str:
    """`find`'s NUL-separated `<type><path>` records, as lines. `more`: the records were cut off."""
    records = found.split(b"\0")[:-1]
    names = []
    for record in records:
        name = record[1:].decode("utf-8", "replace").removeprefix("./")
        if name != ".":
            names.append(name + "/" if record[:1] == b"d" else name)
    names.sort()
    lines = names[:ENTRIES]
    if more:
        lines.append("[... and more]")
    elif len(names) > ENTRIES:
        lines.append(f"[... and {len(names) - ENTRIES} more]")
    return "\n".join(lines) or "(empty)"


class ReadFile:
    """`read_file(path)`: its text, the middle cut out where it is long."""

    spec = ToolSpec("read_file", "Show a file.", {"path": TEXT})

    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            (given,) = texts(arguments, "path")
            data = await self._files.read(self._files.path(given))
        except Unusable as error:
            return malformed(error)
        except Refused as error:
            return ToolOutput(str(error))
        return ToolOutput(clip(data.decode("utf-8", "replace").rstrip("\n")) or "(empty file)")


class WriteFile:
    """`write_file(path, content)`: replaces or creates the file, and the directories above it."""

    spec = ToolSpec("write_file", "Write a file.", {"path": TEXT, "content": TEXT})

    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            given, content = texts(arguments, "path", "content")
            path = self._files.path(given)
            if path == "." or given.endswith("/"):
                raise Refused(f"error: not a file: {given}")
            await self._files.parents(path)
            data = content.encode()
            await self._files.write(path, data)
        except Unusable as error:
            return malformed(error)
        except Refused as error:
            return ToolOutput(str(error))
        return ToolOutput(f"wrote {len(data)} bytes to {path}")


class MoveFile:
    """`move_file(source, destination)`: as `mv` does, making the directories above the target."""

    spec = ToolSpec("move_file", "Move or rename a file.", {"source": TEXT, "destination": TEXT})

    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            given, target = texts(arguments, "source", "destination")
            source, destination = self._files.path(given), self._files.path(target)
            if source == ".":
                raise Refused("error: cannot move the working directory")
            await self._files.parents(f"{destination}/_" if target.endswith("/") else destination)
            moved = await self._files.run("mv", "--", f"./{source}", f"./{destination}")
            if moved.code != 0:
                raise Refused(f"error: cannot move {source}: {reason(moved)}")
        except Unusable as error:
            return malformed(error)
        except Refused as error:
            return ToolOutput(str(error))
        return ToolOutput(f"moved {source} to {destination}")


class DeleteFile:
    """`delete_file(path)`: a file, or a directory with all that is in it."""

    spec = ToolSpec("delete_file", "Delete a file or directory.", {"path": TEXT})

    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            (given,) = texts(arguments, "path")
            path = self._files.path(given)
            if path == ".":
                raise Refused("error: cannot delete the working directory")
            removed = await self._files.run("rm", "-r", "--", f"./{path}")
            if removed.code != 0:
                raise Refused(f"error: cannot delete {path}: {reason(removed)}")
        except Unusable as error:
            return malformed(error)
        except Refused as error:
            return ToolOutput(str(error))
        return ToolOutput(f"deleted {path}")
