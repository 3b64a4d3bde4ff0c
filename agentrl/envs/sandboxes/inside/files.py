"""Whole files; links are followed, as here they can only lead to what is the box's own."""

import errno
import posix as os

CAP = 16 * 1024 * 1024


def read(path: bytes) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        regular(fd)
        data = bytearray()
        while len(data) <= CAP:
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                return bytes(data)
            data += chunk
        raise OSError(errno.EFBIG, "file too large")
    finally:
        os.close(fd)


def write(path: bytes, data: bytes) -> None:
    make_parents(path)
    mode = 0o755 if data.startswith(b"#!") else 0o644
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, mode)
    try:
        regular(fd)
        os.ftruncate(fd, 0)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def make_parents(path: bytes) -> None:
    parent = path.rpartition(b"/")[0]
    try:
        if parent:
            os.stat(parent)
    except FileNotFoundError:
        make_parents(parent)
        os.mkdir(parent, 0o755)


def regular(fd: int) -> None:
    kind = os.fstat(fd).st_mode & 0o170000
    if kind == 0o040000:
        raise IsADirectoryError(errno.EISDIR, "a directory")
    if kind != 0o100000:
        raise PermissionError(errno.EACCES, "not a regular file")
