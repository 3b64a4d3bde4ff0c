"""A judging box: tests nobody in it can change, a user of its own, and an end to what runs."""

import asyncio
import os
from pathlib import Path

from agentrl.envs.sandboxes.bubblewrap import JUDGE, KUID, Bubblewrap
from agentrl.task import Task

OPENER = Bubblewrap()
TASK = Task("t", "t", "x", files={"a": b"1"})
EXTRA = {"/tests/test.sh": b"#!/bin/sh\n", "/tests/deep/want": b"42\n"}


def test_given_tests_can_neither_be_changed_nor_moved_and_others_can_be_added() -> None:
    tries = """
    echo x >/tests/test.sh; rm -rf /tests/deep /tests/test.sh; mv /tests /elsewhere
    mv /tests/deep /tests/shallow; chmod 777 /tests/test.sh; ln -sf /a /tests/test.sh
    cat /tests/test.sh /tests/deep/want
    """

    async def act() -> str:
        async with OPENER(TASK, extra=EXTRA) as box:
            await box.write("/tests/mine.py", b"print('judged')")
            mine = await box.exec(["@python", "/tests/mine.py"])
            kept = await box.exec(["sh", "-c", tries])
            return str(kept.out.text + mine.out.text)

    assert asyncio.run(act()) == "#!/bin/sh\n42\njudged\n"


def test_judging_boxes_belong_to_another_user_where_there_is_one() -> None:
    """A file of the one's is nobody's in the other, as far as the host can tell."""

    async def owners() -> list[int]:
        found = []
        for extra in (None, EXTRA):
            async with OPENER(TASK, extra=extra):
                homes = list(Path("/dev/shm").glob(f"agentrl-{os.getpid()}-*"))
                found += [home.stat().st_uid for home in homes]
        return found

    apart = OPENER.enforcement["user"] == f"uid {KUID}, judging {JUDGE}"
    assert asyncio.run(owners()) == ([KUID, JUDGE] if apart else [os.getuid()] * 2)


def test_clearing_kills_everything_but_the_box() -> None:
    async def act() -> tuple[tuple[str, ...], str, tuple[str, ...]]:
        async with OPENER(TASK) as box:
            await box.exec(["sh", "-c", "setsid sleep 71 & (sleep 72 &) ; sleep 73 &"])
            killed = await box.clear()
            after = await box.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])
            return killed, str(after.out.text), await box.clear()

    killed, after, again = asyncio.run(act())
    ended = {words.removeprefix("setsid ") for words in killed}
    assert {"sleep 71", "sleep 72", "sleep 73"} <= ended
    assert "sleep" not in after
    assert again == ()
