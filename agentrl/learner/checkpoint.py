"""Folders that exist completely or not at all: a learner's exact state, and published weights.

A folder is written under a hidden name beside its place, flushed to disk, marked, and renamed. A
crash leaves the hidden folder, which the next write removes; a reader never sees it.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from agentrl.errors import RunError, StoreError

MARKER = "COMPLETE"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Part = Mapping[str, Any]
"""Either tensors by name, or anything JSON can hold."""


def save(path: Path, parts: Mapping[str, Part]) -> None:
    """Writes folder `path`: one file a part, `COMPLETE` last. Replaces a folder of that name.

    A part whose values are all tensors becomes `<name>.safetensors`, any other `<name>.json`.
    Floats survive JSON exactly. Raises RunError where the disk is full; what was there before
    stays.
    """

    def fill(folder: Path) -> None:
        for name, part in parts.items():
            if part and all(isinstance(value, Tensor) for value in part.values()):
                write_file(folder / f"{name}.safetensors", tensor_bytes(part))
            else:
                write_file(folder / f"{name}.json", json.dumps(dict(part), indent=1).encode())

    write_folder(path, fill, MARKER)


def load(path: Path) -> dict[str, dict[str, Any]]:
    """What `save` wrote. Raises StoreError where the folder is incomplete or unreadable."""
    if not (path / MARKER).is_file():
        raise StoreError(
            "this checkpoint is not complete" if path.is_dir() else "there is no checkpoint here",
            where=str(path),
            help=f"a complete one holds a file named {MARKER}; resume from an older one",
        )
    parts: dict[str, dict[str, Any]] = {}
    try:
        for file in sorted(path.iterdir()):
            if file.suffix == ".safetensors":
                parts[file.stem] = load_file(file)
            elif file.suffix == ".json":
                parts[file.stem] = json.loads(file.read_bytes())
    except (OSError, ValueError, SafetensorError) as error:
        raise StoreError(
            f"a checkpoint cannot be read: {error}",
            where=str(path),
            help="delete this folder to resume from the one before",
        ) from error
    return parts


def latest(root: Path) -> Path | None:
    """The complete checkpoint with the greatest number, or None."""
    folders = complete(root, MARKER)
    return folders[-1] if folders else None


def prune(root: Path, keep: int, marker: str = MARKER) -> None:
    """Removes all but the newest `keep` complete folders; at least one always stays."""
    for folder in complete(root, marker)[: -max(keep, 1)]:
        (folder / marker).unlink()  # first, so that a half-removed folder is never taken
        shutil.rmtree(folder)


def complete(root: Path, marker: str) -> list[Path]:
    """Folders under `root` with `marker` and a number in their name, by that number."""
    if not root.is_dir():
        return []
    numbered = {
        folder: int(digits)
        for folder in root.iterdir()
        if (digits := folder.name.lstrip("v")).isdecimal() and (folder / marker).is_file()
    }
    return sorted(numbered, key=lambda folder: numbered[folder])


def write_folder(path: Path, fill: Callable[[Path], None], marker: str) -> None:
    """Has `fill` write into a hidden folder, marks it and moves it to `path`."""
    draft = path.parent / f".{path.name}.draft"
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            fill(draft)
            write_file(draft / marker, b"")
            sync(draft)
            if path.exists():
                old = path.parent / f".{path.name}.old"
                shutil.rmtree(old, ignore_errors=True)
                path.rename(old)
                draft.rename(path)
                shutil.rmtree(old)
            else:
                draft.rename(path)
            sync(path.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turns a full disk into a RunError that names it; other errors of the system likewise."""
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        raise RunError(
            f"{'the disk is full' if full else 'writing failed'}: {error.strerror or error}",
            where=str(path),
            help="free some space and resume; the previous checkpoint is intact"
            if full
            else "make the folder writable and resume; the previous checkpoint is intact",
        ) from error


def write_file(file: Path, content: bytes) -> None:
    """Writes and flushes to disk."""
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def sync(folder: Path) -> None:
    """Flushes a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The safetensors file of `tensors`, readable by any Hugging Face loader."""
    plain = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    return to_bytes(plain, metadata={"format": "pt"})
