"""The private folder of a box on the host: filling it before start, reading it after the end.

Nothing here follows a link: what an agent left behind may point anywhere on the host.
"""

import contextlib
import ctypes
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePosixPath

from agentrl.envs.sandbox import Harvest
from agentrl.envs.sandboxes.cgroup import alive
from agentrl.errors import TaskError

MTIME = 1_704_067_200  # 2024-01-01 UTC: files of a task look the same in every box
FILE_CAP = 1 << 20
TOTAL_CAP = 16 << 20
ENTRY_CAP = 20_000
DEPTH_CAP = 64
_NAME = re.compile(r"agentrl-(\d+)-\d+")
_numbers = count()
_NOSUID, _NODEV, _DETACH = 2, 4, 2

Owner = tuple[int, int] | None


def inside(path: str, below: str = "/") -> tuple[str, ...]:
    """The parts of a box path, from the box's root. Raises TaskError where it leads out."""
    pure = PurePosixPath(path)
    absolute = pure.is_absolute()
    if absolute != (below == "/") or ".." in pure.parts or "\0" in path or not pure.name:
        want = "an absolute path" if below == "/" else "a path relative to the workdir"
        raise TaskError(f"{path!r} is not {want} without '..'", help="change the task's files")
    return tuple(part for part in (PurePosixPath(below) / pure).parts if part != "/")


class Folder:
    """A directory only the box's own user can enter; `sized` when its disk use is limited.

    Real root gets a tmpfs of its own for each box, which limits bytes and inodes.
    """

    def __init__(self, owner: Owner, disk_mb: int, sized: bool) -> None:
        place = Path("/dev/shm")
        home = place if os.access(place, os.W_OK) else Path(tempfile.gettempdir())
        self.path = home / f"agentrl-{os.getpid()}-{next(_numbers)}"
        self.owner = owner
        self.mounted = False
        self.path.mkdir(mode=0o700)
        if sized:
            uid, gid = owner or (os.getuid(), os.getgid())
            inodes = 4_096 + 256 * disk_mb
            options = f"size={disk_mb}m,nr_inodes={inodes},mode=700,uid={uid},gid={gid}"
            self.mounted = _mount(self.path, options)
        if not self.mounted:
            self._own(self.path)
        for name in ("upper", "work"):
            (self.path / name).mkdir(mode=0o755)
            self._own(self.path / name)

    def _own(self, path: Path) -> None:
        if self.owner is not None:
            os.chown(path, *self.owner, follow_symlinks=False)

    @property
    def full(self) -> bool:
        """Whether the box has used up its disk."""
        if not self.mounted:
            return False
        usage = os.statvfs(self.path)
        return usage.f_bavail * usage.f_frsize < 64 << 10 or usage.f_ffree < 16

    def place(self, parts: tuple[str, ...], data: bytes | None, mode: int | None = None) -> None:
        """Write a file, or a directory where `data` is None; what is in the way goes, links too.

        Only while nobody else changes the folder: an image's links may lie there, no agent's.
        """
        at = self.path / "upper"
        for part in parts if data is None else parts[:-1]:
            at /= part
            if at.is_symlink() or not at.is_dir():
                at.unlink(missing_ok=True)
                at.mkdir(mode=0o755)
                self._own(at)
                os.utime(at, (MTIME, MTIME))
        if data is None:
            if mode is not None:
                at.chmod(mode & 0o777)
            return
        at /= parts[-1]
        if at.is_symlink():
            at.unlink()
        elif at.is_dir():
            shutil.rmtree(at)
        at.write_bytes(data)
        at.chmod((0o755 if data.startswith(b"#!") else 0o644) if mode is None else mode & 0o777)
        self._own(at)
        os.utime(at, (MTIME, MTIME))
        os.utime(at.parent, (MTIME, MTIME))

    def harvest(self, workdir: tuple[str, ...]) -> Harvest:
        """The regular files an agent left in the workdir. Only once every process is dead."""
        return _Reaper(self.path / "upper").read(workdir)

    def remove(self) -> None:
        discard(self.path, self.mounted)


def discard(path: Path, mounted: bool) -> None:
    if mounted:
        _libc().umount2(os.fsencode(path), _DETACH)
        path.rmdir()
        return

    def open_up(function: object, name: str, error: BaseException) -> None:
        """The agent took its own rights to a directory away."""
        if isinstance(error, FileNotFoundError):
            return
        os.chmod(os.path.dirname(name), 0o700)
        if os.path.isdir(name) and not os.path.islink(name):
            os.chmod(name, 0o700)
            shutil.rmtree(name)
        else:
            os.unlink(name)

    if sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=open_up)
    else:
        shutil.rmtree(path, onerror=lambda function, name, info: open_up(function, name, info[1]))


def sweep(owner: Owner) -> list[str]:
    """Remove folders of ours whose agentrl is no longer alive; their paths."""
    mine = {os.getuid()} | ({owner[0]} if owner else set())
    removed = []
    for home in (Path("/dev/shm"), Path(tempfile.gettempdir())):
        for path in home.glob("agentrl-*"):
            name = _NAME.fullmatch(path.name)
            with contextlib.suppress(OSError):
                if name is None or alive(int(name[1])) or path.lstat().st_uid not in mine:
                    continue
                discard(path, os.path.ismount(path))
                removed.append(str(path))
    return removed


class _Reaper:
    """Reads a tree by descriptors, link-free, within the caps."""

    def __init__(self, upper: Path) -> None:
        self.upper = upper
        self.files: dict[str, tuple[int, bytes | None]] = {}
        self.skipped: list[str] = []
        self.room = TOTAL_CAP
        self.entries = ENTRY_CAP

    def read(self, workdir: tuple[str, ...]) -> Harvest:
        at = os.open(self.upper, os.O_PATH | os.O_DIRECTORY)
        try:
            for part in workdir:
                step = _enter(part, at)
                os.close(at)
                at = step
            self._directory(at, "", 0)
        except FileNotFoundError:
            return Harvest({}, ("./ (missing)",))
        except NotADirectoryError:
            return Harvest({}, ("./ (not a directory)",))
        finally:
            os.close(at)
        return Harvest(self.files, tuple(self.skipped))

    def _directory(self, place: int, prefix: str, depth: int) -> None:
        with _opened(place) as at, os.scandir(at) as listing:
            for entry in sorted(listing, key=lambda entry: entry.name):
                self._entry(at, entry.name, prefix, depth)

    def _entry(self, at: int, name: str, prefix: str, depth: int) -> None:
        path = prefix + name
        self.entries -= 1
        info = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
            return  # how an overlay notes that something of the base was deleted
        if self.entries < 0 or depth > DEPTH_CAP:
            if self.entries == -1 or depth > DEPTH_CAP:
                self.skip(path, "too many entries" if self.entries < 0 else "too deep")
        elif not _readable(path):
            self.skip(path, "name is not UTF-8")
        elif stat.S_ISDIR(info.st_mode):
            self.files[path] = (stat.S_IMODE(info.st_mode) & 0o777, None)
            below = _enter(name, at)
            try:
                self._directory(below, path + "/", depth + 1)
            finally:
                os.close(below)
        elif not stat.S_ISREG(info.st_mode):
            self.skip(path, "link" if stat.S_ISLNK(info.st_mode) else "device, pipe or socket")
        elif info.st_size > FILE_CAP or info.st_size > self.room:
            self.skip(path, "too large")
        else:
            self.room -= info.st_size
            self.files[path] = (stat.S_IMODE(info.st_mode) & 0o777, _content(name, at))

    def skip(self, path: str, reason: str) -> None:
        shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        self.skipped.append(f"{shown} ({reason})")


def _enter(name: str, at: int) -> int:
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=at)


@contextlib.contextmanager
def _opened(place: int, flags: int = os.O_DIRECTORY) -> Iterator[int]:
    """Open what an O_PATH descriptor stands for, also when its owner forbade reading."""
    door = f"/proc/self/fd/{place}"
    try:
        fd = os.open(door, os.O_RDONLY | flags)
    except PermissionError:
        os.chmod(door, 0o700)
        fd = os.open(door, os.O_RDONLY | flags)
    try:
        yield fd
    finally:
        os.close(fd)


def _content(name: str, at: int) -> bytes:
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=at)
    try:
        with _opened(place, 0) as fd, open(fd, "rb", closefd=False) as file:
            return file.read(FILE_CAP)
    finally:
        os.close(place)


def _readable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(path: Path, options: str) -> bool:
    """Mount a tmpfs; False where even root may not (a container without the right)."""
    flags = _NOSUID | _NODEV
    done = _libc().mount(b"agentrl", os.fsencode(path), b"tmpfs", flags, options.encode())
    return int(done) == 0
