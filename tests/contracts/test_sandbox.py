"""What every registered sandbox promises. A stranger's plug-in is tested by being installed."""

import asyncio
from typing import Any

import pytest

from agentrl.errors import SandboxError, TaskError
from agentrl.task import SandboxSpec, Task
from tests.contracts.boxes import (
    eventually,
    every_sandbox,
    naptime,
    play,
    resident,
    running,
    task,
)

pytestmark = every_sandbox
DAEMON = b"""
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind("door")
server.listen()
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
while True:
    there, _ = server.accept()
    print("somebody came", flush=True)
    there.sendall(b"pid %d" % os.getpid())
    there.close()
"""
VISIT = b"""
import socket
there = socket.socket(socket.AF_UNIX)
there.settimeout(5)
there.connect("door")
print(there.recv(100).decode())
"""


def test_a_command_gets_the_workdir_empty_input_and_its_own_output(opener: Any) -> None:
    async def act(box: Any) -> None:
        result = await box.exec(["sh", "-c", "cat; ls; echo oops >&2; exit 7"])
        assert (result.code, result.out.text, result.err.text) == (7, "hello.txt\n", "oops\n")
        assert result.timed_out is None
        assert not result.dead

    play(opener, act, task(**{"hello.txt": b"hi"}))


def test_what_cannot_start_is_a_result_not_an_exception(opener: Any) -> None:
    async def act(box: Any) -> None:
        assert (await box.exec(["no-such-program"])).code == 127
        assert (await box.exec(["./plain"])).code == 126
        assert (await box.exec(["echo", "a\0b"])).code == 126
        assert (await box.exec([])).code == 126
        assert (await box.exec(["sh", "-c", "kill -9 $$"])).code == 137

    play(opener, act, task(plain=b"not a program"))


def test_files_arrive_with_their_modes_and_a_fixed_time(opener: Any) -> None:
    async def act(box: Any) -> str:
        shown = await box.exec(["stat", "-c", "%a %Y %n", "a/run.sh", "b.txt"])
        assert (await box.exec(["a/run.sh"])).out.text == "ran\n"
        return str(shown.out.text)

    files = {"a/run.sh": b"#!/bin/sh\necho ran\n", "b.txt": b"b"}
    assert play(opener, act, task(**files)) == "755 1704067200 a/run.sh\n644 1704067200 b.txt\n"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", ".", "a\0b"])
def test_task_files_that_lead_out_of_the_workdir_are_refused(opener: Any, path: str) -> None:
    async def act(box: Any) -> None:
        raise AssertionError("opened")

    with pytest.raises(TaskError):
        play(opener, act, task(**{path: b"x"}))


@pytest.mark.parametrize("path", ["tests/x", "/tests/../x", "/proc/x", "/usr/bin/x", "/"])
def test_extra_files_must_be_absolute_and_reachable(opener: Any, path: str) -> None:
    async def act(box: Any) -> None:
        raise AssertionError("opened")

    with pytest.raises(TaskError):
        play(opener, act, extra={path: b"x"})


def test_what_is_written_is_read_back_byte_for_byte(opener: Any) -> None:
    every = bytes(range(256)) * 4_000

    async def act(box: Any) -> None:
        await box.write("deep/down/data", every)
        assert await box.read("deep/down/data") == every
        assert await box.read("/workspace/deep/down/data") == every
        await box.write("deep/down/data", b"")
        assert await box.read("deep/down/data") == b""
        shown = await box.exec(["cat", "raw"])
        assert shown.out.data == b"\xff\xfe\x00\x80\n"

    play(opener, act, task(raw=b"\xff\xfe\x00\x80\n"))


def test_reading_what_is_not_a_readable_file_raises_like_open(opener: Any) -> None:
    async def act(box: Any) -> None:
        await box.exec(["sh", "-c", "mkdir d; mkfifo p; ln -s loop loop"])
        with pytest.raises(FileNotFoundError):
            await box.read("nothing")
        with pytest.raises(IsADirectoryError):
            await box.read("d")
        with pytest.raises(PermissionError):
            await box.read("p")
        with pytest.raises(OSError, match="symbolic links"):
            await box.read("loop")
        with pytest.raises(IsADirectoryError):
            await box.write("d", b"x")
        with pytest.raises(OSError, match="a/b"):
            await box.write("f/a/b", b"x")

    play(opener, act, task(f=b"a file"))


def test_a_timeout_ends_the_whole_tree_and_keeps_what_was_written(opener: Any) -> None:
    nap = naptime()
    script = (
        f"echo A; trap '' TERM INT HUP; (setsid sleep {nap} &); sleep {nap} & while :; do :; done"
    )

    async def act(box: Any) -> None:
        result = await box.exec(["bash", "-c", script], timeout_s=0.5)
        assert (result.code, result.timed_out, result.out.text) == (None, "total", "A\n")
        assert running(nap) == []
        assert (await box.exec(["echo", "usable"])).out.text == "usable\n"

    play(opener, act)


def test_a_daemon_that_hides_does_not_survive_its_timeout(opener: Any) -> None:
    nap = naptime()
    script = f"(env -i setsid sleep {nap} >/dev/null 2>&1 &) ; sleep 60"

    async def act(box: Any) -> None:
        assert (await box.exec(["bash", "-c", script], timeout_s=0.4)).timed_out == "total"
        assert running(nap) == []

    play(opener, act)


def test_a_background_child_does_not_hold_the_call(opener: Any) -> None:
    async def act(box: Any) -> None:
        result = await box.exec(["sh", "-c", "sleep 60 & echo done"], timeout_s=30)
        assert (result.code, result.out.text, result.timed_out) == (0, "done\n", None)

    play(opener, act)


def test_a_daemon_lives_until_its_box_closes(opener: Any) -> None:
    async def act(box: Any) -> None:
        assert (await box.exec(["python3", "daemon.py"], timeout_s=20)).code == 0
        for _ in range(2):
            assert (await box.exec(["python3", "visit.py"])).out.text.startswith("pid ")
        slow = await box.exec(["sleep", "30"], timeout_s=0.2)
        assert slow.timed_out == "total"
        assert (await box.exec(["python3", "visit.py"])).code == 0

    play(opener, act, task(**{"daemon.py": DAEMON, "visit.py": VISIT}))
    assert eventually(lambda: running("daemon.py") == [])


def test_a_flood_is_kept_in_part_and_counted_whole(opener: Any) -> None:
    async def act(box: Any) -> None:
        before = resident()
        result = await box.exec(["sh", "-c", "yes | head -c 200000000; echo end"], timeout_s=60)
        assert result.code == 0
        assert len(result.out.head) + len(result.out.tail) + result.out.dropped == 200_000_004
        assert result.out.head.startswith(b"y\ny\n")
        assert result.out.tail.endswith(b"y\nend\n")
        assert len(result.out.data) < 256 * 1024
        assert resident() - before < 20 << 20

    play(opener, act)


@pytest.mark.parametrize("argv", [["python3"], ["cat"], ["sh", "-c", "read x; echo got$x"]])
def test_interactive_programs_see_the_end_of_input(opener: Any, argv: list[str]) -> None:
    async def act(box: Any) -> None:
        result = await box.exec(argv, timeout_s=20)
        assert result.timed_out is None
        assert result.code is not None

    play(opener, act)


def test_there_is_no_terminal_to_grab_and_nothing_asks(opener: Any) -> None:
    script = "exec 3</dev/tty && echo GOT; echo $GIT_TERMINAL_PROMPT $PAGER $DEBIAN_FRONTEND $TZ"

    async def act(box: Any) -> None:
        result = await box.exec(["bash", "-c", script])
        assert result.out.text == "0 cat noninteractive UTC\n"
        result = await box.shell("( exec 3</dev/tty ) && echo GOT; true")
        assert result.out.text == ""

    play(opener, act)


def test_silence_has_its_own_clock(opener: Any) -> None:
    async def act(box: Any) -> None:
        quiet = await box.exec(["sh", "-c", "echo A; sleep 30"], timeout_s=30, quiet_s=0.3)
        assert (quiet.timed_out, quiet.out.text) == ("no_output", "A\n")
        chatty = "for i in 1 2 3 4 5 6; do sleep 0.1; echo $i; done"
        assert (await box.exec(["sh", "-c", chatty], timeout_s=30, quiet_s=5)).code == 0
        quiet = await box.shell("echo A; sleep 30", timeout_s=30, quiet_s=0.3)
        assert (quiet.timed_out, quiet.out.text) == ("no_output", "A\n")

    play(opener, act)


def test_commands_run_beside_each_other(opener: Any) -> None:
    async def act(box: Any) -> None:
        await box.exec(["mkfifo", "pipe"])
        reader, writer = await asyncio.gather(
            box.exec(["cat", "pipe"], timeout_s=20),
            box.exec(["sh", "-c", "echo through >pipe"], timeout_s=20),
        )
        assert (reader.out.text, writer.code) == ("through\n", 0)

    play(opener, act)


def test_a_cancelled_command_is_ended(opener: Any) -> None:
    nap = naptime()

    async def act(box: Any) -> None:
        pending = asyncio.create_task(box.exec(["sleep", nap], timeout_s=100))
        assert await asyncio.to_thread(eventually, lambda: bool(running(nap)))
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert await asyncio.to_thread(eventually, lambda: not running(nap))
        assert (await box.exec(["true"])).code == 0

    play(opener, act)


def test_what_a_backend_cannot_offer_is_refused(opener: Any) -> None:
    async def act(box: Any) -> None:
        raise AssertionError("opened")

    wishes = (SandboxSpec(image="debian:12"), SandboxSpec(network=True), SandboxSpec(workdir="x"))
    for wish in wishes:
        with pytest.raises(TaskError):
            play(opener, act, Task(id="t", suite="tests", instruction="", sandbox=wish))
    with pytest.raises(SandboxError):
        play(opener, act, snapshot="s1")


def test_a_backend_says_what_it_isolates_and_that_it_works_here(opener: Any) -> None:
    assert isinstance(opener.isolates, bool)
    assert opener.probe() == []
    assert opener.digest
    assert {"memory", "pids", "cpu", "disk"} <= set(opener.enforcement)
