"""Run the checks on one backend, and say of each promise whether it is kept."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from agentrl.envs.conformance import commands, ends, files, shells, walls
from agentrl.envs.conformance.kit import Broken, Check, Unseen, open_box
from agentrl.envs.sandbox import OpenSandbox
from agentrl.errors import NotReady

CHECKS: tuple[Check, ...] = tuple(
    check for part in (commands, files, shells, ends, walls) for check in part.table.checks
)
CHECK_S = 120.0
CAPABILITIES = ("shell", "harvest", "quiet")

State = Literal["kept", "broken", "unenforced"]


class Outcome(Struct, frozen=True):
    """What became of one check. `unenforced`: the backend says that it does not promise this."""

    name: str
    state: State
    reason: str = ""
    seconds: float = 0.0


async def offers(opener: OpenSandbox) -> frozenset[str]:
    """The optional capabilities of a backend's boxes. Raises what opening one raises."""
    async with open_box(opener) as box:
        found = {name for name in ("shell", "harvest") if hasattr(box, name)}
        if "quiet_s" in inspect.signature(box.exec).parameters:
            found.add("quiet")
    return frozenset(found)


async def try_check(opener: OpenSandbox, check: Check, offered: frozenset[str]) -> Outcome:
    """Try one promise, in boxes of its own. Raises NotReady."""
    for need in check.needs:
        reason = unenforced(opener, need, offered)
        if reason:
            return Outcome(check.name, "unenforced", reason)
    began = time.monotonic()
    state: State = "broken"
    try:
        async with asyncio.timeout(CHECK_S) as clock:
            await check.run(opener)
        state, reason = "kept", ""
    except NotReady:
        raise
    except Unseen as error:
        state, reason = "unenforced", str(error)
    except Broken as error:
        reason = str(error)
    except Exception as error:  # whatever a stranger's backend raises breaks the promise
        late = f"no answer within {CHECK_S:.0f} s"
        reason = late if clock.expired() else f"{type(error).__name__}: {error}"
    return Outcome(check.name, state, reason, time.monotonic() - began)


def unenforced(opener: Any, need: str, offered: frozenset[str]) -> str:
    """Why a backend does not make a promise that rests on `need`; empty where it does."""
    if need in CAPABILITIES and need not in offered:
        return f"its boxes have no {need}"
    if need == "isolation" and not getattr(opener, "isolates", True):
        return "it does not isolate"
    kind, _, limit = need.partition(":")
    if kind == "limit":
        how = str(getattr(opener, "enforcement", {}).get(limit, ""))
        if how.startswith("not "):
            return f"{limit}: {how}"
        if limit == "pids" and not getattr(opener, "isolates", True):
            return "it does not isolate"
    return ""


async def suite(opener: OpenSandbox, checks: Sequence[Check] = CHECKS) -> AsyncIterator[Outcome]:
    """Every check, one after another. Raises NotReady, and what opening the first box raises."""
    offered = await offers(opener)
    for check in checks:
        yield await try_check(opener, check, offered)
