"""A fixed number of slots, each WAITING -> RUNNING -> DONE -> taken -> released.

A slot holds one group. It is released only once weights trained on its group are live, so at most
`slots` groups exist at once and no group can start stale. `window` bounds how far a finished group
may overtake an unfinished older one; 1 is strict first-in-first-out.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from agentrl.task import Task
from agentrl.trajectory.records import Group


class Work(Struct):
    """One group to play: `number` is its place in the run, for ever."""

    number: int
    task: Task
    group: Group | None = None


class Slots:
    """Hands out work and collects groups.

    Args:
        task_at: the task of a group number; called once a number, in rising order.
        slots: groups that may exist at once.
        window: see the module.
        first: the first number not yet handed out.
        again: work that was handed out before a restart and has to be played again, or, where
            `group` is set, was finished but not trained.
    """

    def __init__(
        self,
        task_at: Callable[[int], Task],
        slots: int,
        window: int = 1,
        first: int = 0,
        again: Iterable[Work] = (),
    ) -> None:
        if not 1 <= window <= slots:
            raise ValueError(f"window must be within 1..{slots}, got {window}")
        self._task_at = task_at
        self._free = slots
        self._window = window
        self._work: OrderedDict[int, Work] = OrderedDict()
        self._again: deque[Work] = deque(sorted(again, key=lambda work: work.number))
        self._next = first
        self._changed = asyncio.Condition()
        self._closed = False

    async def claim(self) -> Work | None:
        """The next group to play, once a slot is free. None when closed."""
        async with self._changed:
            while True:
                await self._changed.wait_for(lambda: self._closed or self._free > 0)
                if self._closed:
                    return None
                work = self._draw()
                self._free -= 1
                self._work[work.number] = work
                if work.group is None:
                    return work
                self._changed.notify_all()  # already finished before a restart: only to be taken

    def _draw(self) -> Work:
        if self._again:
            return self._again.popleft()
        work = Work(self._next, self._task_at(self._next))
        self._next += 1
        return work

    async def finish(self, work: Work, group: Group) -> None:
        """A claimed group has been played."""
        async with self._changed:
            work.group = group
            self._changed.notify_all()

    async def take(self) -> tuple[int, Group]:
        """The oldest finished group inside the window, with its number."""
        async with self._changed:
            while True:
                for work in self._visible():
                    if work.group is not None:
                        del self._work[work.number]
                        return work.number, work.group
                await self._changed.wait()

    async def release(self, count: int) -> None:
        """Frees the slots of `count` taken groups."""
        async with self._changed:
            self._free += count
            self._changed.notify_all()

    async def close(self) -> None:
        """No further work is handed out."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def next(self) -> int:
        """The first number not yet handed out."""
        return self._next

    def _visible(self) -> list[Work]:
        if not self._work:
            return []
        head = next(iter(self._work))
        return [work for work in self._work.values() if work.number < head + self._window]
