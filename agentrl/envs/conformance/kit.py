"""What the checks are made of: a table of promises, claims that can fail, and small helpers."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct

from agentrl.envs.sandbox import OpenSandbox
from agentrl.task import Task

Run = Callable[[OpenSandbox], Awaitable[None]]
_unique = count(os.getpid() * 1_000)

COUNT = b"""
import os
word, found = open("word", "rb").read(), 0
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            with open("/proc/" + name + "/cmdline", "rb") as file:
                found += word in file.read().split(bytes(1))
        except OSError:
            pass
print(found)
"""


class Broken(AssertionError):
    """A promise that was not kept: what was expected, and what happened."""


class Unseen(Exception):
    """The check cannot tell from here; the message says why."""


class Check(Struct, frozen=True):
    """One promise and how it is tried.

    `needs` names what the promise rests on: `shell`, `harvest` or `quiet` (capabilities of a box),
    `isolation`, or `limit:memory` and the like (keys of the opener's `enforcement`).
    """

    name: str
    run: Run
    needs: tuple[str, ...] = ()


class Table:
    """The checks of one file, in the order they stand there."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def promise(self, name: str, *needs: str) -> Callable[[Run], Run]:
        def keep(run: Run) -> Run:
            self.checks.append(Check(name, run, needs))
            return run

        return keep


def same(have: object, want: object, what: str) -> None:
    """Claim that two values are equal. Raises Broken."""
    if have != want:
        raise Broken(f"{what}: expected {_short(want)}, got {_short(have)}")


def true(holds: object, what: str) -> None:
    """Claim that something holds. Raises Broken."""
    if not holds:
        raise Broken(what)


@contextmanager
def raises(kinds: type[Exception] | tuple[type[Exception], ...], what: str) -> Iterator[None]:
    """Claim that the block raises. Raises Broken."""
    try:
        yield
    except kinds:
        return
    names = kinds.__name__ if isinstance(kinds, type) else " or ".join(k.__name__ for k in kinds)
    raise Broken(f"{what}: {names} was not raised")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-80:]}"


def task(**files: bytes) -> Task:
    return Task(id="check", suite="conformance", instruction="", files=files)


def open_box(opener: OpenSandbox, of: Task | None = None, **how: Any) -> Any:
    """Open a box of a task, an empty one if none is given; it may have more than three verbs."""
    return opener(of or task(), **how)


def naptime() -> str:
    """A `sleep` argument no other process has."""
    return f"{next(_unique)}.5"


def counting(nap: str, **files: bytes) -> Task:
    """A task in whose box `inside` can count the processes with this argument."""
    return task(**{"count.py": COUNT, "word": nap.encode(), **files})


async def inside(box: Any) -> int:
    """How many processes of a `counting` task's word the box sees."""
    result = await box.exec(["@python", "count.py"], timeout_s=30)
    same(result.code, 0, f"counting processes ({result.err.text[-200:]})")
    return int(result.out.text)


def on_host(word: str) -> list[int]:
    """This machine's processes that have `word` as an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments:
                found.append(int(entry.name))
    return found


async def eventually(holds: Callable[[], object], within: float = 10.0) -> bool:
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def seen_on_host(word: str, number: int) -> None:
    """Wait until this machine shows so many processes of a box. Raises Unseen where it never does.

    A backend in a virtual machine, or on another one, keeps them to itself.
    """
    if not await eventually(lambda: len(on_host(word)) >= number, within=5.0):
        if on_host(word):
            raise Broken(f"{len(on_host(word))} of {number} processes were started")
        raise Unseen("the processes of its boxes cannot be seen from this machine")


def resident() -> int:
    """Bytes of memory this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
