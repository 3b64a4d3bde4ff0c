"""Snapshots of bubblewrap boxes, and boxes opened from them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentrl.envs.sandboxes import life
from agentrl.envs.sandboxes.bubblewrap import Bubblewrap
from agentrl.errors import SandboxError
from agentrl.task import SandboxSpec, Task
from tests.contracts.boxes import folders

OPENER = Bubblewrap()
TASK = Task(
    id="t",
    suite="tests",
    instruction="",
    files={"a": b"a\n", "d/x": b"x\n", "d/y": b"y\n"},
    sandbox=SandboxSpec(memory_mb=256, pids=24, disk_mb=16),
)


def play(act: Callable[[Any], Awaitable[Any]], task: Task = TASK) -> Any:
    async def episode() -> Any:
        async with OPENER(task) as box:
            return await act(box)

    return asyncio.run(episode())


async def says(box: Any, command: str) -> str:
    result = await box.shell(command, timeout_s=30)
    assert not result.restarted
    return str(result.out.text + result.err.text)


STATE = r"""
cd d/..; cd d; export A=$'1\n2'; B=(2 3); f() { echo "f $1"; }; alias l=ls
shopt -s extglob nullglob; set -u; readonly R=5; umask 027; trap 'echo bye' EXIT
echo tmp >/tmp/kept; rm x; echo new >n
"""
ASK = r"""
pwd; echo "$OLDPWD ${A%%$'\n'*} ${B[1]} $R $-"; f 1; alias l; shopt -q extglob && echo ext; umask
trap -p EXIT; cat /tmp/kept; echo !(n); env | grep -c ^A=
"""


def test_a_fork_has_the_files_and_the_shell_of_its_moment() -> None:
    async def act(box: Any) -> None:
        await box.shell(STATE)
        before = await says(box, ASK)
        assert before.startswith("/workspace/d\n/workspace 1 3 5 hu")
        name = await box.snapshot()
        await box.shell("echo later >n; cd /; A=9; f() { :; }")
        async with OPENER(TASK, name) as fork:
            assert await says(fork, ASK) == before
            assert await says(fork, "cat n; ls") == "new\nn\ny\n"
            assert (await fork.exec(["cat", "a"])).out.text == "a\n"

    play(act)


def test_the_box_itself_goes_on_as_if_nothing_had_happened() -> None:
    async def act(box: Any) -> None:
        await box.shell(STATE)
        told = "echo $$ $PPID; jobs; "
        before = await says(box, told + ASK)
        for _ in range(3):
            await box.snapshot()
            assert await says(box, told + ASK) == before
        assert await says(box, "cd - >/dev/null; pwd; cat d/n; echo more >>d/n; cat d/n") == (
            "/workspace\nnew\nnew\nmore\n"
        )
        await box.write("w", b"w")
        assert await box.read("w") == b"w"

    play(act)


def test_siblings_and_the_main_line_do_not_see_each_others_changes() -> None:
    async def act(box: Any) -> None:
        await box.shell("echo 0 >n")
        name = await box.snapshot()
        async with OPENER(TASK, name) as one, OPENER(TASK, name) as two:
            await asyncio.gather(
                box.shell("echo main >n; echo m >m"),
                one.shell("echo one >n; rm a; rm -r d"),
                two.shell("rm n; mkdir -p d/deep; echo two >d/deep/f"),
            )
            look = "cat n; ls -R"
            assert await says(box, look) == "main\n.:\na\nd\nm\nn\n\n./d:\nx\ny\n"
            assert await says(one, look) == "one\n.:\nn\n"
            gone, rest = (await says(two, "ls -R; cat n")).rsplit("\n", 2)[:2]
            assert gone == ".:\na\nd\n\n./d:\ndeep\nx\ny\n\n./d/deep:\nf"
            assert "No such file" in rest
        async with OPENER(TASK, name) as late:
            assert await says(late, look) == "0\n.:\na\nd\nn\n\n./d:\nx\ny\n"

    play(act)


def test_a_harvest_is_what_the_box_saw_through_all_its_layers() -> None:
    steps = [
        "echo 1 >one; mkdir e; echo i >e/i; chmod 600 one",
        "rm a; rm -r d; echo 2 >>one",
        "mkdir d; echo z >d/z; mv e g; ln -s one link",
        "rm d/z; chmod 000 g; echo 4 >four",
    ]

    async def act(box: Any) -> None:
        for step in steps:
            assert await says(box, step) == ""
            name = await box.snapshot()
        async with OPENER(TASK, name) as fork:
            await fork.shell("echo 5 >five; rm four")
            left = await fork.harvest()
        whole = await box.harvest()
        expected = {"one": (0o600, b"1\n2\n"), "d": (0o755, None), "g": (0, None)}
        expected |= {"g/i": (0o644, b"i\n")}
        assert whole.files == expected | {"four": (0o644, b"4\n")}
        assert left.files == expected | {"five": (0o644, b"5\n")}
        assert whole.skipped == ("link (link to one)",)

    play(act)


def test_a_hundred_and_more_snapshots_stand_on_each_other() -> None:
    async def act(box: Any) -> None:
        for number in range(110):
            await box.write(f"n/{number}", b"%d" % number)
            if number % 10 == 9:
                await box.shell(f"rm /workspace/n/{number - 5}; cd /workspace/n; D={number}")
            name = await box.snapshot()
        count = "ls | wc -l; cat 0 109; echo; pwd; echo $D"
        assert await says(box, count) == "99\n0109\n/workspace/n\n109\n"
        async with OPENER(TASK, name) as deep:  # more layers than fit in bubblewrap's own mount
            assert await says(deep, count) == "99\n0109\n/workspace/n\n109\n"
            assert await says(deep, "rm 0; echo x >new; ls | wc -l") == "99\n"
            deeper = await deep.snapshot()
            async with OPENER(TASK, deeper) as last:
                assert await says(last, "cat new; ls | wc -l") == "x\n99\n"
                assert len((await last.harvest()).files) == 5 + 99

    assert life.ROOM < 110 * 30
    play(act)
    assert folders() == []


def test_too_deep_a_stack_is_refused_and_the_box_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "DEPTH", 2)

    async def act(box: Any) -> None:
        await box.snapshot()
        await box.snapshot()
        with pytest.raises(SandboxError, match="2 snapshots"):
            await box.snapshot()
        assert await says(box, "cat a") == "a\n"

    play(act)


@pytest.mark.parametrize(
    ("begin", "end", "reason"),
    [
        ("sleep 50 &", "kill %1; wait 2>/dev/null; true", "sleep"),
        ("exec 5>open", "exec 5>&-", "open for writing"),
    ],
)
def test_what_would_be_missing_in_a_fork_refuses_a_snapshot(
    begin: str, end: str, reason: str
) -> None:
    async def act(box: Any) -> None:
        await box.shell(f"V=1; {begin}")
        with pytest.raises(SandboxError, match=reason):
            await box.snapshot()
        assert await says(box, "echo on $V; echo fine >f; cat f") == "on 1\nfine\n"
        await box.shell(end)
        assert await box.snapshot()

    play(act)
    assert folders() == []


def test_a_command_that_runs_beside_refuses_a_snapshot_and_is_not_hurt() -> None:
    async def act(box: Any) -> None:
        beside = asyncio.create_task(box.exec(["sh", "-c", "sleep 0.3; echo done"]))
        await asyncio.sleep(0.1)
        with pytest.raises(SandboxError, match="busy"):
            await box.snapshot()
        assert (await beside).out.text == "done\n"

    play(act)


def test_what_arrives_during_a_snapshot_is_done_after_it() -> None:
    async def act(box: Any) -> None:
        await box.shell("cd d")
        results = await asyncio.gather(
            box.snapshot(),
            *(box.shell(f"echo {n} >>log") for n in range(5)),
            *(box.write(f"w{n}", b"w") for n in range(5)),
        )
        assert results[0].startswith("snapshot-")
        assert await says(box, "wc -l <log; ls .. | grep -c w") == "5\n5\n"

    play(act)


def test_a_snapshot_ends_with_its_box_unless_it_is_kept() -> None:
    async def story() -> None:
        async with OPENER(TASK) as box:
            await box.shell("echo 1 >n")
            lost = await box.snapshot()
            name = await box.snapshot()
            keeping = OPENER.keeping(name)
            keeping.__enter__()
        with pytest.raises(SandboxError, match=lost):
            async with OPENER(TASK, lost):
                raise AssertionError("opened")
        async with OPENER(TASK, name) as fork:
            keeping.__exit__(None, None, None)
            assert await says(fork, "cat n") == "1\n"  # a box holds what it stands on
            with pytest.raises(SandboxError):
                OPENER.keeping(name).__enter__()
        assert folders() == []

    asyncio.run(story())
    assert f"agentrl-{os.getpid()}-" not in Path("/proc/mounts").read_text()


def test_a_snapshot_copies_nothing_and_its_fork_may_fill_a_disk_of_its_own() -> None:
    fill = "head -c 12000000 /dev/zero >big{} && echo filled"

    async def act(box: Any) -> None:
        assert await says(box, fill.format(0)) == "filled\n"
        full = await box.shell(fill.format(1))
        assert (full.code, full.limit) == (1, "disk")
        await box.shell("rm big1")
        shrugged = await box.shell(fill.format(1) + "; true")
        assert (shrugged.code, shrugged.limit) == (0, "disk")
        assert (await box.shell("true")).limit is None  # told once
        await box.shell("rm big1")
        name = await box.snapshot()
        async with OPENER(TASK, name) as fork:
            assert int(await says(fork, "df --output=used -k / | tail -1")) < 1_000
            assert await says(fork, fill.format(1)) == "filled\n"
            full = await fork.shell(fill.format(2))
            assert (full.code, full.limit) == (1, "disk")
            assert await says(fork, "rm big2; cat big0 big1 | wc -c") == "24000000\n"

    play(act)


def test_a_million_files_meet_their_limit_and_the_host_does_not_notice() -> None:
    program = b"""
import os
made = 0
try:
    for made in range(1_000_000):
        os.close(os.open(f"f{made}", os.O_CREAT | os.O_WRONLY))
except OSError as error:
    print(made, error.errno)
"""

    async def act(box: Any) -> None:
        await box.write("many.py", program)
        free = os.statvfs("/dev/shm").f_ffree
        result = await box.exec(["@python", "many.py"], timeout_s=60)
        made, number = map(int, result.out.text.split())
        assert number == 28  # no space left
        assert 4_000 < made < 4_096 + 256 * 16
        assert result.limit == "inodes"
        assert abs(os.statvfs("/dev/shm").f_ffree - free) < 2_000
        gone = await box.exec(["sh", "-c", "find . -name 'f*' -delete; echo fine >g; cat g"])
        assert (gone.out.text, gone.limit) == ("fine\n", None)

    play(act)


HARNESS = """
import asyncio
from contextlib import ExitStack
from agentrl.envs.sandboxes.bubblewrap import Bubblewrap
from agentrl.task import Task

async def main():
    opener = Bubblewrap()
    task = Task(id="t", suite="tests", instruction="", files={"a": b"a"})
    async with opener(task) as box:
        await box.shell("echo 1 >n")
        names = [await box.snapshot() for _ in range(3)]
        async with opener(task, names[0]) as one, opener(task, names[2]) as two:
            print("ready", flush=True)
            await two.exec(["sleep", "100"], timeout_s=200)

asyncio.run(main())
"""


def test_a_killed_harness_leaves_no_layer_once_the_next_has_come() -> None:
    with subprocess.Popen([sys.executable, "-c", HARNESS], stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"ready\n"
        left = f"agentrl-{harness.pid}-"
        assert list(Path("/dev/shm").glob(left + "*"))
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    assert Bubblewrap().digest  # the first use tidies
    assert not list(Path("/dev/shm").glob(left + "*"))
    assert left not in Path("/proc/mounts").read_text()
