"""Slots: order, the window, release, and what comes back after a restart."""

import asyncio

import pytest

from agentrl.scheduler.lag import max_lag
from agentrl.scheduler.slots import Slots, Work
from agentrl.task import Task
from agentrl.trajectory.records import Group


def task_at(number: int) -> Task:
    return Task(f"t{number}", "test", "")


def done(work: Work) -> Group:
    return Group(f"g{work.number}", work.task, ())


async def claimed(slots: Slots) -> Work:
    work = await slots.claim()
    assert work is not None
    return work


def test_the_window_lets_a_younger_group_pass_but_only_so_far() -> None:
    async def story() -> None:
        slots = Slots(task_at, slots=4, window=3)
        works = [await claimed(slots) for _ in range(4)]
        await slots.finish(works[2], done(works[2]))
        await slots.finish(works[3], done(works[3]))
        assert (await slots.take())[0] == 2
        waiting = asyncio.ensure_future(slots.take())
        await asyncio.sleep(0)
        assert not waiting.done()  # 3 is finished, but outside the window while 0 runs
        await slots.finish(works[0], done(works[0]))
        assert (await waiting)[0] == 0

    asyncio.run(story())


def test_a_taken_group_keeps_its_slot_until_released() -> None:
    async def story() -> None:
        slots = Slots(task_at, slots=1)
        work = await claimed(slots)
        await slots.finish(work, done(work))
        await slots.take()
        blocked = asyncio.ensure_future(slots.claim())
        await asyncio.sleep(0)
        assert not blocked.done()
        await slots.release(1)
        again = await blocked
        assert again is not None
        assert again.number == 1

    asyncio.run(story())


def test_closing_wakes_everybody_who_waits_for_work() -> None:
    async def story() -> None:
        slots = Slots(task_at, slots=1)
        await claimed(slots)
        waiting = [asyncio.ensure_future(slots.claim()) for _ in range(3)]
        await asyncio.sleep(0)
        await slots.close()
        assert await asyncio.gather(*waiting) == [None, None, None]

    asyncio.run(story())


def test_after_a_restart_finished_groups_are_taken_and_unfinished_ones_played_first() -> None:
    async def story() -> None:
        finished = Work(3, task_at(3), Group("g3", task_at(3), ()))
        slots = Slots(task_at, slots=3, window=3, first=5, again=[Work(4, task_at(4)), finished])
        assert (await claimed(slots)).number == 4  # 3 is only waiting to be taken
        assert (await slots.take())[0] == 3
        assert (await claimed(slots)).number == 5
        assert slots.next == 6

    asyncio.run(story())


@pytest.mark.parametrize("window", [0, 5])
def test_a_window_outside_the_slots_is_refused(window: int) -> None:
    with pytest.raises(ValueError, match="window must be within"):
        Slots(task_at, slots=4, window=window)


def test_the_lag_is_bounded_by_slots_and_window() -> None:
    assert max_lag(slots=8, window=1, groups_per_step=8) == 0
    assert max_lag(slots=16, window=4, groups_per_step=8) == 2


@pytest.mark.parametrize(("slots", "window", "per_step"), [(4, 1, 2), (6, 3, 2), (8, 8, 4)])
def test_no_group_is_ever_further_behind_than_max_lag(
    slots: int, window: int, per_step: int
) -> None:
    """Adversarial order: the oldest group is always the last to finish that the window allows."""

    async def story() -> None:
        box = Slots(task_at, slots, window)
        born: dict[int, int] = {}
        running: list[Work] = []
        free = slots
        for version in range(60):
            for _ in range(free):
                work = await claimed(box)
                born[work.number] = version
                running.append(work)
            free = 0
            taken: list[int] = []
            while len(taken) < per_step:
                head = min(work.number for work in running)
                inside = [w for w in running if w.number < head + window]
                last = max(inside, key=lambda w: w.number)
                running.remove(last)
                await box.finish(last, done(last))
                taken.append((await box.take())[0])
            assert all(version - born[n] <= max_lag(slots, window, per_step) for n in taken)
            await box.release(per_step)
            free = per_step

    asyncio.run(story())
