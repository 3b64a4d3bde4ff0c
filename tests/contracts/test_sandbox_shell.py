"""What every registered sandbox promises of its shell and its `@python`."""

import asyncio
from typing import Any

import pytest

from tests.contracts.boxes import (
    every_sandbox,
    naptime,
    play,
    running,
    task,
)

pytestmark = every_sandbox


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
        assert result.err.text.count("File ") == 1
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
