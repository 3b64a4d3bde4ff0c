"""What an agent left in a folder, read on the host once every process is dead, within caps."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agentrl.envs.sandbox import Harvest

FILE_CAP = 1 << 20
TOTAL_CAP = 16 << 20
ENTRY_CAP = 20_000
DEPTH_CAP = 64
OUTSIDE_CAP = 200
FOLDER_CAP = 2_000


class Reaper:
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
