"""The private folder of a box on the host: filling it before start, reading it after the end.

Nothing here follows a link: what an agent left behind may point anywhere on the host.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path, PurePosixPath
from typing import Literal

from agentrl.envs.sandbox import Harvest
from agentrl.envs.sandboxes.cgroup import alive
from agentrl.envs.sandboxes.mounts import Holder
from agentrl.errors import TaskError

MTIME = 1_704_067_200  # 2024-01-01 UTC: files of a task look the same in every box
FILE_CAP = 1 << 20
TOTAL_CAP = 16 << 20
ENTRY_CAP = 20_000
DEPTH_CAP = 64
INODES = 4_096
"""What a sized folder takes of files and directories, and 256 more for each megabyte."""
OUTSIDE_CAP = 200
FOLDER_CAP = 2_000
_NAME = re.compile(r"agentrl-(\d+)-\d+")
_numbers = count()
_NOSUID, _NODEV, _DETACH = 2, 4, 2

Owner = tuple[int, int] | None
Full = Literal["disk", "inodes"]


def inside(path: str, below: str = "/") -> tuple[str, ...]:
    """The parts of a box path, from the box's root. Raises TaskError where it leads out."""
    pure = PurePosixPath(path)
    absolute = pure.is_absolute()
    if absolute != (below == "/") or ".." in pure.parts or "\0" in path or not pure.name:
        want = "an absolute path" if below == "/" else "a path relative to the workdir"
        raise TaskError(f"{path!r} is not {want} without '..'", help="change the task's files")
    return tuple(part for part in (PurePosixPath(below) / pure).parts if part != "/")


class Folder:
    """A directory only the box's own user can enter, with `upper`, `work` and `at` in it.

    `sized`, it is a tmpfs of its own, which limits bytes and inodes: mounted by `holder` where one
    is given, which then alone sees it at `path` (`host` is where we do), and else by this process,
    if it may. `mounted` says whether that was done.
    """

    def __init__(
        self, owner: Owner, disk_mb: int, sized: bool, holder: Holder | None = None
    ) -> None:
        place = Path("/dev/shm")
        home = place if os.access(place, os.W_OK) else Path(tempfile.gettempdir())
        self.path = self.host = home / f"agentrl-{os.getpid()}-{next(_numbers)}"
        self.owner = owner
        self.mounted = False
        self._holder = holder if sized else None
        self.sealed: list[str] = []
        self.path.mkdir(mode=0o700)
        try:
            if sized:
                self._mount(disk_mb)
            if not self.mounted:
                self._own(self.host)
            for name in ("upper", "work", "at"):
                (self.host / name).mkdir(mode=0o755)
                self._own(self.host / name)
        except BaseException:
            self.remove()
            raise

    def _mount(self, disk_mb: int) -> None:
        uid, gid = self.owner or (os.getuid(), os.getgid())
        inodes = INODES + 256 * disk_mb
        options = f"size={disk_mb}m,nr_inodes={inodes},mode=700,uid={uid},gid={gid}"
        if self._holder is not None:
            self._holder.mount(self.path, options)
            self.host = self._holder.seen(self.path)
            self.mounted = True
        else:
            self.mounted = _mount(self.path, options)

    def _own(self, path: Path) -> None:
        if self.owner is not None:
            os.chown(path, *self.owner, follow_symlinks=False)

    @property
    def full(self) -> Full | None:
        """What of its disk the box has used up; None for nothing, or where it is not sized."""
        if not self.mounted:
            return None
        usage = os.statvfs(self.host)
        if usage.f_ffree < 16:
            return "inodes"
        return "disk" if usage.f_bavail * usage.f_frsize < 64 << 10 else None

    def seal(self, parts: tuple[str, ...], data: bytes) -> None:
        """Write a file which nobody in the box can change. The part of the path below its first
        folder, which it must have, comes from here alone."""
        if parts[0] not in self.sealed:
            self.sealed.append(parts[0])
        self.place(parts, data, layer="sealed")

    def place(
        self,
        parts: tuple[str, ...],
        data: bytes | None,
        mode: int | None = None,
        layer: str = "upper",
    ) -> None:
        """Write a file, or a directory where `data` is None; what is in the way goes, links too.

        Only while nobody else changes the folder: an image's links may lie there, no agent's.
        """
        at = self.host / layer
        if not at.is_dir():
            at.mkdir(mode=0o755)
            self._own(at)
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

    def harvest(self, workdir: tuple[str, ...], below: Sequence["Folder"] = ()) -> Harvest:
        """The regular files an agent left in the workdir. Only once every process is dead.

        `below` are the folders of frozen layers, uppermost first.
        """
        return _Reaper([folder.host / "upper" for folder in (self, *below)]).read(workdir)

    def remove(self) -> None:
        if self.mounted and self._holder is not None:
            try:
                self._holder.unmount(self.path)
            finally:
                self.path.rmdir()
        else:
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


def sweep(*owners: Owner) -> list[str]:
    """Remove folders of ours whose agentrl is no longer alive; their paths."""
    mine = {os.getuid()} | {owner[0] for owner in owners if owner}
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
    """Reads a tree by descriptors, link-free, within the caps.

    The tree is what an overlay of `uppers`, the first on top, would show: a directory is a stack of
    descriptors, one for each layer that has a part in it. Each is opened anew from the workdir, so
    that never more than three stacks are open, however deep the tree.
    """

    def __init__(self, uppers: list[Path]) -> None:
        self.uppers = uppers
        self.files: dict[str, tuple[int, bytes | None]] = {}
        self.skipped: list[str] = []
        self.room = TOTAL_CAP
        self.entries = ENTRY_CAP
        self._forced: list[tuple[int, int]] = []  # what had to be opened up, and its mode

    def read(self, workdir: tuple[str, ...]) -> Harvest:
        tops = [os.open(upper, os.O_PATH | os.O_DIRECTORY) for upper in self.uppers]
        home: list[int] = []
        try:
            home = self._walk(tops, workdir)
            pending: list[tuple[str, ...]] = [()]
            while pending:
                parts = pending.pop()
                stack = self._walk(home, parts)
                try:
                    inner = self._directory(stack, "".join(f"{part}/" for part in parts))
                finally:
                    _close(stack)
                pending += [(*parts, name) for name in reversed(inner)]
        except FileNotFoundError:
            return Harvest({}, ("./ (missing)",))
        except NotADirectoryError:
            return Harvest({}, ("./ (not a directory)",))
        finally:
            self._restore()
            _close(tops + home)
        outside = tuple(_others(self.uppers, "/".join(workdir)))
        return Harvest(self.files, tuple(self.skipped), outside)

    def _walk(self, stack: list[int], parts: tuple[str, ...]) -> list[int]:
        """The directory below `stack`, as a stack of its own."""
        at = [os.dup(fd) for fd in stack]
        for part in parts:
            try:
                below = self._descend(at, part)
            finally:
                _close(at)
            at = below
        return at

    def _directory(self, stack: list[int], prefix: str) -> list[str]:
        """Take the files of a directory; the directories in it are returned."""
        layer_of: dict[str, int] = {}
        for layer, place in enumerate(stack):
            with self._opened(place) as at, os.scandir(at) as listing:
                for entry in listing:
                    layer_of.setdefault(entry.name, layer)
        names = sorted(layer_of)
        return [name for name in names if self._entry(stack[layer_of[name]], name, prefix)]

    def _entry(self, at: int, name: str, prefix: str) -> bool:
        """Take one entry, if it is to be taken. Whether it is a directory to go into."""
        path = prefix + name
        self.entries -= 1
        deep = prefix.count("/") > DEPTH_CAP
        info = os.stat(name, dir_fd=at, follow_symlinks=False)
        if _whiteout(info):
            return False
        if self.entries < 0 or deep:
            if self.entries == -1 or deep:
                self.skip(path, "too many entries" if self.entries < 0 else "too deep")
        elif not _readable(path):
            self.skip(path, "name is not UTF-8")
        elif stat.S_ISDIR(info.st_mode):
            self.files[path] = (stat.S_IMODE(info.st_mode) & 0o777, None)
            return True
        elif not stat.S_ISREG(info.st_mode):
            kind = "device, pipe or socket"
            if stat.S_ISLNK(info.st_mode):
                kind = f"link to {_shown(os.readlink(name, dir_fd=at))}"
            self.skip(path, kind)
        elif info.st_size > FILE_CAP or info.st_size > self.room:
            self.skip(path, "too large")
        else:
            self.room -= info.st_size
            self.files[path] = (stat.S_IMODE(info.st_mode) & 0o777, self._content(name, at))
        return False

    def _descend(self, stack: list[int], name: str) -> list[int]:
        """The directory `name` in a stack of directories, as a stack. Raises like `open`."""
        found: list[int] = []
        try:
            for layer, at in enumerate(stack):
                try:
                    info = os.stat(name, dir_fd=at, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if not stat.S_ISDIR(info.st_mode):
                    if not found and not _whiteout(info):
                        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
                    break
                found.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=at))
                if layer + 1 < len(stack) and self._opaque(found[-1]):
                    break
            if not found:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        except BaseException:
            _close(found)
            raise
        return found

    def _opaque(self, place: int) -> bool:
        """How an overlay notes that a directory is new: what lies below is not in it."""
        with self._opened(place) as fd:
            try:
                return os.getxattr(fd, "user.overlay.opaque") == b"y"
            except OSError as error:
                if error.errno in (errno.ENODATA, errno.ENOTSUP):
                    return False
                raise

    @contextlib.contextmanager
    def _opened(self, place: int, flags: int = os.O_DIRECTORY) -> Iterator[int]:
        """Open what an O_PATH descriptor stands for, also when its owner forbade reading."""
        door = f"/proc/self/fd/{place}"
        try:
            fd = os.open(door, os.O_RDONLY | flags)
        except PermissionError:
            self._forced.append((os.dup(place), stat.S_IMODE(os.stat(door).st_mode)))
            os.chmod(door, 0o700)
            fd = os.open(door, os.O_RDONLY | flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def _restore(self) -> None:
        """Other boxes may stand on the layers that were read."""
        for place, mode in reversed(self._forced):
            os.chmod(f"/proc/self/fd/{place}", mode)
            os.close(place)
        self._forced = []

    def _content(self, name: str, at: int) -> bytes:
        place = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=at)
        try:
            with self._opened(place, 0) as fd, open(fd, "rb", closefd=False) as file:
                return file.read(FILE_CAP)
        finally:
            os.close(place)

    def skip(self, path: str, reason: str) -> None:
        self.skipped.append(f"{_shown(path)} ({reason})")


def _others(uppers: Sequence[Path], workdir: str) -> Iterator[str]:
    """Absolute box paths of what was written beside the workdir and /tmp, at most OUTSIDE_CAP."""
    left = OUTSIDE_CAP
    seen: set[str] = set()
    for upper in uppers:
        for at, folders, names in islice(os.walk(upper), FOLDER_CAP):
            below = os.path.relpath(at, upper)
            here = "" if below == "." else below + "/"
            folders[:] = sorted(name for name in folders if here + name not in (workdir, "tmp"))
            links = [name for name in folders if os.path.islink(os.path.join(at, name))]
            for name in sorted([*names, *links]):
                if left == 0:
                    return
                if here + name in seen:
                    continue
                seen.add(here + name)
                left -= 1
                yield f"/{_shown(here + name)}"


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _close(stack: list[int]) -> None:
    for fd in stack:
        os.close(fd)


def _whiteout(info: os.stat_result) -> bool:
    """How an overlay notes that something of a lower layer was deleted."""
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


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
