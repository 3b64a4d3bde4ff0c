"""What every registered sandbox promises of its end: harvest, death and closing."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agentrl.envs.sandbox import Harvest
from agentrl.errors import SandboxError
from tests.contracts.boxes import (
    eventually,
    every_sandbox,
    folders,
    naptime,
    play,
    running,
    task,
)

pytestmark = every_sandbox


def test_extra_files_are_where_they_were_asked_for(opener: Any) -> None:
    async def act(box: Any) -> None:
        assert await box.read("/tests/deep/run.py") == b"print('judged')"
        assert (await box.exec(["@python", "/tests/deep/run.py"])).out.text == "judged\n"
        assert list((await box.harvest()).files) == []

    play(opener, act, extra={"/tests/deep/run.py": b"print('judged')"})


def test_harvest_hands_over_regular_files_only(opener: Any) -> None:
    mess = """
    rm gone; echo new >kept; mkdir -p d/e; echo x >d/e/f; chmod 4755 d/e/f; mkdir empty
    ln -s /etc/passwd link; ln -s / root; mkfifo pipe; truncate -s 2000000 big
    printf x >"$(printf 'bad\\377')"; echo s >secret; chmod 000 secret; mkdir shut; echo i >shut/in
    chmod 000 shut
    """

    async def act(box: Any) -> Harvest:
        await box.exec(["bash", "-c", mess])
        harvest: Harvest = await box.harvest()
        after = await box.exec(["true"])
        assert after.dead
        assert after.code is None
        return harvest

    harvest = play(opener, act, task(gone=b"1", kept=b"2"))
    assert harvest.files == {
        "kept": (0o644, b"new\n"),
        "d": (0o755, None),
        "d/e": (0o755, None),
        "d/e/f": (0o755, b"x\n"),
        "empty": (0o755, None),
        "secret": (0o000, b"s\n"),
        "shut": (0o000, None),
        "shut/in": (0o644, b"i\n"),
    }
    named = {entry.split(" (")[0] for entry in harvest.skipped}
    assert named == {"link", "root", "pipe", "big", "bad\ufffd"}


def test_a_workdir_turned_into_a_link_is_not_followed(opener: Any) -> None:
    async def act(box: Any) -> Harvest:
        await box.shell('here="$PWD"; cd ..; rm -rf "$here"; ln -s /etc "$here"')
        harvest: Harvest = await box.harvest()
        return harvest

    harvest = play(opener, act)
    assert harvest.files == {}
    assert len(harvest.skipped) == 1


def test_nothing_an_agent_started_writes_after_the_harvest(opener: Any) -> None:
    loop = "(setsid sh -c 'while :; do echo late >late; rm -f late; done' >/dev/null 2>&1 &)"

    async def act(box: Any) -> None:
        await box.exec(["sh", "-c", loop])
        first = await box.harvest()
        assert (await box.harvest()) == first

    play(opener, act)


def test_a_judging_box_starts_from_what_the_agent_left(opener: Any) -> None:
    async def agent(box: Any) -> Harvest:
        await box.exec(["sh", "-c", "rm old; echo mine >new; chmod 700 new; touch tests"])
        harvest: Harvest = await box.harvest()
        return harvest

    async def judge(box: Any) -> None:
        listing = await box.exec(["sh", "-c", "ls; stat -c %a new; ls tests"])
        assert listing.out.text == "new\ntests\n700\nt.py\n"

    left = play(opener, agent, task(old=b"x"))
    extra = {"/workspace/tests/t.py": b"pass"}
    play(opener, judge, task(old=b"x"), harvest=left, extra=extra)


def test_closing_leaves_no_process_and_no_folder(opener: Any) -> None:
    nap = naptime()

    async def act(box: Any) -> None:
        await box.shell(f"sleep {nap} & (setsid sleep {nap} &)")
        await box.exec(["bash", "-c", f"(env -i setsid sleep {nap} >/dev/null 2>&1 &)"])
        assert await asyncio.to_thread(eventually, lambda: len(running(nap)) == 3)
        assert folders()

    play(opener, act)
    assert running(nap) == []
    assert folders() == []


def test_an_error_in_the_episode_still_closes_the_box(opener: Any) -> None:
    nap = naptime()

    async def act(box: Any) -> None:
        await box.exec(["sh", "-c", f"sleep {nap} &"])
        raise RuntimeError("the episode broke")

    with pytest.raises(RuntimeError, match="the episode broke"):
        play(opener, act)
    assert running(nap) == []
    assert folders() == []


def test_a_box_killed_from_outside_says_dead_at_once(opener: Any) -> None:
    nap = naptime()

    async def act(box: Any) -> None:
        await box.write("kept", b"k")
        pending = asyncio.create_task(box.exec(["sleep", nap], timeout_s=500))
        assert await asyncio.to_thread(eventually, lambda: bool(running(nap)))
        parent = Path(f"/proc/{running(nap)[0]}/stat").read_text().rsplit(")", 1)[1].split()[1]
        os.kill(int(parent), signal.SIGKILL)
        async with asyncio.timeout(10):
            result = await pending
            assert (result.code, result.dead) == (None, True)
            assert (await box.exec(["true"])).dead
            assert (await box.shell("true")).dead
            with pytest.raises(SandboxError):
                await box.read("kept")
            assert (await box.harvest()).files == {"kept": (0o644, b"k")}
        for pid in running(nap):
            os.kill(pid, signal.SIGKILL)  # without a namespace it outlives its supervisor

    play(opener, act)


def test_sixteen_boxes_at_once_do_not_see_each_other(opener: Any) -> None:
    async def one(number: int) -> str:
        async with opener(task(mine=b"%d" % number)) as box:
            await box.shell(f"N={number}")
            shown = await box.shell("cat mine; echo /$N; ls")
            return str(shown.out.text)

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(16)))

    assert asyncio.run(all_of_them()) == [f"{n}/{n}\nmine\n" for n in range(16)]
