"""Numbered append-only files, `<folder>/<writer>-000001<suffix>`, packed once they are full.

A plain file is only ever appended to, one whole record a write, so that a killed process leaves
at most a torn tail. Packing writes a second file beside it, whole, before the plain one goes.
"""

import fcntl
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agentrl.errors import ConfigError, RunError

_STEM = re.compile(r"(?P<writer>.+)-(?P<number>\d{6,})")
_WRITER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Pack = Callable[[Path, Path], None]
"""Reads the plain file (first), leaves out a torn tail, writes the packed one (second)."""


def checked_writer(name: str) -> str:
    """The name, if files can be called after it."""
    if not _WRITER.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a writer of a run",
            help="use letters, digits, dots, dashes and underscores",
        )
    return name


def split(stem: str) -> tuple[str, int] | None:
    """`main-000003` -> ("main", 3); None for anything else."""
    found = _STEM.fullmatch(stem)
    return (found["writer"], int(found["number"])) if found else None


def listing(folder: Path, *suffixes: str) -> list[str]:
    """Stems of all shards with any of these suffixes, by writer, then number."""
    stems = set()
    for entry in os.listdir(folder) if folder.is_dir() else ():
        for suffix in suffixes:
            if entry.endswith(suffix) and split(entry.removesuffix(suffix)):
                stems.add(entry.removesuffix(suffix))
    return sorted(stems, key=lambda stem: split(stem) or ("", 0))


class Series:
    """The writing end of one writer's shards. Not thread-safe; its owner is.

    `write` makes a record durable against the death of this process (not of the machine) before
    it returns. A full shard is handed to `later`, which packs it when there is time. One process
    at a time may hold a writer's name; another gets a `RunError`.
    """

    def __init__(
        self,
        folder: Path,
        writer: str,
        *,
        plain: str,
        packed: str,
        pack: Pack,
        later: Callable[[Callable[[], None]], None],
        header: bytes = b"",
    ) -> None:
        self._folder, self._writer = folder, checked_writer(writer)
        self._plain, self._packed = plain, packed
        self._pack, self._later, self._header = pack, later, header
        self._fd = -1
        self.stem = ""
        self.size = 0

    def write(self, record: bytes) -> None:
        """Append, all or nothing: what a full disk let through is cut off again."""
        self.take()
        try:
            rest = memoryview(record)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            os.ftruncate(self._fd, self.size)
            raise _unwritable(self._path(self.stem), error) from error
        self.size += len(record)

    def rotate(self) -> None:
        """Begin the next shard; the last one is packed later."""
        done, fd, size = self.stem, self._fd, self.size
        try:
            self._open()
        except RunError:
            self.stem, self._fd, self.size = done, fd, size
            raise
        self._later(partial(self._seal, done, fd))

    def close(self) -> None:
        """No more will be written; the shard is packed later."""
        if self._fd < 0:
            return
        self._later(partial(self._seal, self.stem, self._fd))
        self._fd, self.stem, self.size = -1, "", 0

    def take(self) -> None:
        """Hold the writer's name from now on, and see to what an earlier process left behind."""
        if self._fd >= 0:
            return
        left: dict[str, int] = {}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for stem in filter(self._mine, listing(self._folder, self._plain)):
                left[stem] = os.open(self._path(stem), os.O_RDONLY)
                _hold(left[stem], self._path(stem))
            self._open()
        except (OSError, RunError) as error:
            for fd in left.values():
                os.close(fd)
            if isinstance(error, OSError):
                raise _unwritable(self._folder, error) from error
            raise
        for stem, fd in left.items():
            self._later(partial(self._seal, stem, fd))

    def _open(self) -> None:
        stems = listing(self._folder, self._plain, self._packed)
        numbers = [split(stem) for stem in stems if self._mine(stem)]
        stem = f"{self._writer}-{max((n for _, n in filter(None, numbers)), default=0) + 1:06d}"
        path = self._path(stem)
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o644)
        except FileExistsError as error:
            raise _held(path) from error
        except OSError as error:
            raise _unwritable(path, error) from error
        _hold(fd, path)
        self._fd, self.stem, self.size = fd, stem, 0
        try:
            self.write(self._header)
        except RunError:
            self._fd = -1
            os.close(fd)
            path.unlink()
            raise

    def _seal(self, stem: str, fd: int) -> None:
        """Pack one shard; `fd` holds its lock until that is done."""
        source, target = self._path(stem), self._folder / f"{stem}{self._packed}"
        part = target.with_name(target.name + ".tmp")
        try:
            if not target.exists():
                self._pack(source, part)
                with part.open("rb") as file:
                    os.fsync(file.fileno())
                part.replace(target)
            source.unlink()
        except OSError as error:
            if part.is_file():
                part.unlink()
            raise _unwritable(target, error) from error
        finally:
            os.close(fd)

    def _mine(self, stem: str) -> bool:
        found = split(stem)
        return found is not None and found[0] == self._writer

    def _path(self, stem: str) -> Path:
        return self._folder / f"{stem}{self._plain}"


def _hold(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _held(path) from error


def _held(path: Path) -> RunError:
    return RunError(
        "this run is being written by another process under the same writer's name",
        where=str(path),
        help="wait for it or stop it, or write under another name: RunStore(root, writer=...)",
    )


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"the record cannot be written: {error.strerror or error}",
        where=str(path),
        help="make room on that disk (df -h), then resume; what was written before is whole",
    )
