"""The suite finds what a backend breaks, and does not blame it for what it does not promise."""

import asyncio
from typing import Any

from agentrl.envs.conformance.suite import CHECKS, Outcome, offers, suite, try_check, unenforced
from tests.directory_box import Opener


def outcomes(opener: Any, *names: str) -> dict[str, Outcome]:
    checks = [check for check in CHECKS if check.name in names]
    assert len(checks) == len(names)

    async def act() -> dict[str, Outcome]:
        return {outcome.name: outcome async for outcome in suite(opener, checks)}

    return asyncio.run(act())


def test_names_are_unique_and_needs_are_known() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) >= 45
    known = {"shell", "harvest", "quiet", "isolation", "limit:memory", "limit:pids"}
    assert {need for check in CHECKS for need in check.needs} <= known | {"limit:disk", "limit:cpu"}


def test_a_backend_that_breaks_a_promise_is_told_which_and_how() -> None:
    found = outcomes(
        Opener(),
        "a command gets the workdir, empty input and its own two outputs",
        "what cannot start is a result, not an exception",
        "files arrive with their modes and a fixed time",
        "there is no terminal to grab, and nothing asks",
    )
    states = [outcome.state for outcome in found.values()]
    assert states == ["kept", "broken", "broken", "broken"]
    reasons = [outcome.reason for outcome in found.values()]
    assert "FileNotFoundError" in reasons[1]
    assert "what it sees: expected '0 cat noninteractive UTC\\n', got" in reasons[2]
    assert "1704067200" in reasons[3]


def test_a_capability_that_is_not_there_is_not_a_broken_promise() -> None:
    name = "the shell remembers and single commands do not"
    outcome = outcomes(Opener(), name)[name]
    assert (outcome.state, outcome.reason) == ("unenforced", "its boxes have no shell")
    assert asyncio.run(offers(Opener())) == {"harvest"}


def test_a_backend_is_believed_when_it_says_what_it_does_not_enforce() -> None:
    class Frank(Opener):
        isolates = False
        enforcement = {"memory": "not enforced", "disk": "one tmpfs a box"}  # noqa: RUF012

    opener = Frank()
    assert unenforced(opener, "limit:memory", frozenset()) == "memory: not enforced"
    assert unenforced(opener, "limit:disk", frozenset()) == ""
    assert unenforced(opener, "isolation", frozenset()) == "it does not isolate"
    assert unenforced(Opener(), "isolation", frozenset()) == ""


def test_whatever_a_backend_raises_is_its_own_fault() -> None:
    check = next(check for check in CHECKS if check.name.startswith("a command gets"))
    outcome = asyncio.run(try_check(Opener(refuse=[True]), check, frozenset()))
    assert (outcome.state, outcome.reason) == ("broken", "SandboxError: no room")
