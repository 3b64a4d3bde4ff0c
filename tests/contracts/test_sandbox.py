"""What every registered sandbox promises. A stranger's plug-in is tested by being installed."""

import asyncio
from typing import Any

import pytest

from agentrl.envs.conformance.kit import Check
from agentrl.envs.conformance.suite import CHECKS, Outcome, offers, try_check, unenforced
from agentrl.errors import TaskError
from agentrl.task import SandboxSpec, Task
from tests.contracts.boxes import every_sandbox, folders

pytestmark = every_sandbox
WALLS = {
    "a box has no network but its own loopback",
    "services of the host are out of reach",
    "the host's environment and processes are invisible",
    "nothing of the host opens for writing",
    "users, mounts and devices cannot be made",
    "killing everything from within leaves a box that works",
    "open files are limited",
    "a fork bomb meets its limit and the box recovers",
    "a busy loop gets no more than its share of the processor",
    "neighbours go on while one box misbehaves",
}
"""What a backend without walls does not promise."""


@pytest.mark.parametrize("check", [pytest.param(check, id=check.name) for check in CHECKS])
def test_a_promise_is_kept_or_named_as_one_that_is_not_made(opener: Any, check: Check) -> None:
    async def act() -> Outcome:
        offered = await offers(opener) if {"shell", "harvest", "quiet"} & {*check.needs} else ()
        return await try_check(opener, check, frozenset(offered))

    outcome = asyncio.run(act())
    assert outcome.state != "broken", outcome.reason
    assert outcome.state == "kept" or outcome.reason
    assert folders() == []


def test_a_backend_with_walls_makes_every_promise_and_one_without_says_which_not(
    opener: Any,
) -> None:
    offered = asyncio.run(offers(opener))
    assert offered == {"shell", "harvest", "quiet"}
    missing = {c.name for c in CHECKS if any(unenforced(opener, n, offered) for n in c.needs)}
    without_groups = any(how.startswith("not ") for how in opener.enforcement.values())
    if not opener.isolates:
        assert missing == WALLS
    elif not without_groups:
        assert missing == set()


def test_a_network_is_refused(opener: Any) -> None:
    async def act() -> None:
        spec = SandboxSpec(network=True)
        async with opener(Task(id="t", suite="tests", instruction="", sandbox=spec)):
            raise AssertionError("opened")

    with pytest.raises(TaskError, match="network"):
        asyncio.run(act())


def test_a_backend_says_what_it_isolates_and_that_it_works_here(opener: Any) -> None:
    assert isinstance(opener.isolates, bool)
    assert opener.probe() == []
    assert opener.digest
    assert {"memory", "pids", "cpu", "disk"} <= set(opener.enforcement)


def test_while_a_box_is_open_its_folder_is_there_and_then_gone(opener: Any) -> None:
    async def act() -> None:
        async with opener(Task(id="t", suite="tests", instruction="")):
            assert len(folders()) == 1

    asyncio.run(act())
    assert folders() == []
