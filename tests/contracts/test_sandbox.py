"""What every registered sandbox promises. A stranger's plug-in is tested by being installed."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agentrl.envs.sandbox import Harvest
from agentrl.errors import SandboxError, TaskError
from agentrl.plugins import find, names
from agentrl.task import SandboxSpec, Task

NAMES = names("sandboxes")
unique = count(int(time.time()) % 100_000 * 1000)
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


@pytest.fixture(params=NAMES, scope="module")
def opener(request: pytest.FixtureRequest) -> Any:
    return find("sandboxes", request.param)()


def task(**files: bytes) -> Task:
    return Task(id="t", suite="tests", instruction="", files=files)


def play(
    opener: Any, act: Callable[[Any], Awaitable[Any]], of: Task | None = None, **how: Any
) -> Any:
    async def episode() -> Any:
        async with opener(of or task(), **how) as box:
            return await act(box)

    return asyncio.run(episode())


def running(word: str) -> list[int]:
    """Host pids whose command line has `word` as an argument."""
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


def eventually(holds: Callable[[], bool], within: float = 5.0) -> bool:
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def naptime() -> str:
    """A `sleep` argument no other process has."""
    return f"{next(unique)}.5"


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


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


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


def test_the_shell_remembers_and_single_commands_do_not(opener: Any) -> None:
    async def act(box: Any) -> None:
        await box.exec(["sh", "-c", "cd d && export A=1"])
        await box.shell('cd d; export A=1; f() { echo "f $A"; }')
        assert (await box.shell('basename "$PWD"; f')).out.text == "d\nf 1\n"
        alone = await box.exec(["sh", "-c", 'basename "$PWD"; echo "[$A]"'])
        assert alone.out.text == "workspace\n[]\n"
        heredoc = "cat <<'EOF'\nit's \"quoted\" $A\nEOF"
        assert (await box.shell(heredoc)).out.text == 'it\'s "quoted" $A\n'
        assert (await box.shell("echo 'unfinished")).code != 0
        assert (await box.shell("( exit 5 )")).code == 5
        assert (await box.shell("echo late >&2; false")).err.text == "late\n"

    play(opener, act, task(**{"d/x": b""}))


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 3", 3), ("exec true", 0), ("kill $$", 143), ("set -e; false", 1), ("kill -9 $$", 137)],
)
def test_a_shell_that_ends_is_started_again_and_says_so(
    opener: Any, command: str, code: int
) -> None:
    async def act(box: Any) -> None:
        await box.shell("cd /; A=1")
        result = await box.shell(command)
        assert (result.code, result.restarted) == (code, True)
        after = await box.shell('basename "$PWD"; echo "[$A]"')
        assert (after.out.text, after.restarted) == ("workspace\n[]\n", False)

    play(opener, act)


def test_a_shell_that_died_unseen_is_reported_by_the_next_command(opener: Any) -> None:
    async def act(box: Any) -> None:
        pid = (await box.shell("echo $$")).out.text.strip()
        assert (await box.exec(["kill", "-9", pid])).code == 0
        result = await box.shell("echo back")
        assert (result.out.text, result.restarted) == ("back\n", True)

    play(opener, act)


def test_a_hanging_command_is_ended_and_the_shell_goes_on(opener: Any) -> None:
    async def act(box: Any) -> None:
        await box.shell("A=1")
        result = await box.shell("echo A; sleep 60", timeout_s=0.4)
        assert (result.code, result.timed_out, result.out.text) == (None, "total", "A\n")
        assert not result.restarted
        assert (await box.shell("echo $A")).out.text == "1\n"

    play(opener, act)


def test_a_busy_loop_in_the_shell_costs_the_shell(opener: Any) -> None:
    async def act(box: Any) -> None:
        result = await box.shell("trap '' INT TERM; while :; do :; done", timeout_s=0.3)
        assert (result.code, result.timed_out, result.restarted) == (None, "total", True)
        assert (await box.shell("echo again")).out.text == "again\n"

    play(opener, act)


def test_a_job_of_an_earlier_command_survives_a_later_timeout(opener: Any) -> None:
    nap = naptime()

    async def act(box: Any) -> None:
        await box.shell(f"sleep {nap} &")
        await asyncio.sleep(0.05)
        assert (await box.shell("sleep 60", timeout_s=0.2)).timed_out == "total"
        assert (await box.exec(["sleep", "60"], timeout_s=0.2)).timed_out == "total"
        assert len(running(nap)) == 1

    play(opener, act)


def test_at_python_runs_a_script_as_python3_would(opener: Any) -> None:
    script = b"""
import sys, os, atexit
sys.path and print(sys.argv[1:], __name__, os.path.basename(sys.path[0]), repr(sys.stdin.read()))
import helper
atexit.register(print, "at exit")
print(helper.__name__, __file__)
sys.exit(int(sys.argv[2]))
"""
    test = b"""
import unittest
class T(unittest.TestCase):
    def test_one(self): pass
    def test_two(self): self.fail("two")
unittest.main()
"""
    files = {"lib/a.py": script, "lib/helper.py": b"", "t.py": test, "boom.py": b"\n1/0\n"}
    files |= {"text.py": b"raise SystemExit('why')", "hard.py": b"import os; os._exit(9)"}

    async def act(box: Any) -> None:
        result = await box.exec(["@python", "lib/a.py", "x", "4"])
        said = "['x', '4'] __main__ lib ''\nhelper lib/a.py\nat exit\n"
        assert (result.code, result.out.text, result.err.text) == (4, said, "")
        result = await box.exec(["@python", "t.py"])
        assert result.code == 1
        assert "FAILED (failures=1)" in result.err.text
        result = await box.exec(["@python", "boom.py"])
        assert result.code == 1
        assert result.err.text.startswith("Traceback")
        assert 'boom.py", line 2' in result.err.text
        assert "supervisor" not in result.err.text
        result = await box.exec(["@python", "text.py"])
        assert (result.code, result.err.text) == (1, "why\n")
        assert (await box.exec(["@python", "hard.py"])).code == 9
        assert (await box.exec(["@python", "missing.py"])).code == 2

    play(opener, act, task(**files))


def test_at_python_is_ended_like_any_command(opener: Any) -> None:
    nap = naptime()
    script = f"import subprocess; subprocess.run(['sleep', '{nap}'])".encode()

    async def act(box: Any) -> None:
        result = await box.exec(["@python", "hang.py"], timeout_s=0.7)
        assert result.timed_out == "total"
        assert running(nap) == []

    play(opener, act, task(**{"hang.py": script}))


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


def folders() -> list[Path]:
    name = f"agentrl-{os.getpid()}-*"
    return [path for home in ("/dev/shm", "/tmp") for path in Path(home).glob(name)]


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
