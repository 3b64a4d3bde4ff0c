import asyncio
from collections.abc import Awaitable, Callable

from agentrl.envs.swe import SweEnv
from agentrl.task import Task
from tests.directory_box import DirectoryBox, Opener
from tests.envs.play import call, say

CALC = b"def add(a, b):\n    return a + b + 1\n\n\ndef half(x):\n    return x / 0\n"
TESTS = b"""import unittest
from calc import add, half

def test_add():
    assert add(2, 3) == 5

def test_half():
    assert half(4) == 2, "no half"

def test_not():
    assert not add(0, 0)

def test_two():
    assert add(1, 1) > 2

class Sums(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(0, 0), 0)

    @unittest.skip("later")
    def test_later(self):
        pass
"""
TASK = Task("t/1", "t", "Fix add.", files={"calc.py": CALC, "tests/test_calc.py": TESTS})


def played(script: Callable[[SweEnv, DirectoryBox], Awaitable[None]], task: Task = TASK) -> None:
    async def run() -> None:
        async with Opener()(task) as box:
            await script(SweEnv(task, box), box)

    asyncio.run(run())


def test_failing_tests_show_what_they_saw() -> None:
    async def script(env: SweEnv, box: DirectoryBox) -> None:
        seen = await call(env, "run_tests")
        assert seen.messages[0].content.splitlines() == [
            "FAIL tests/test_calc.py::test_add: AssertionError: assert add(2, 3) == 5 (got 6)",
            "FAIL tests/test_calc.py::test_half: ZeroDivisionError: division by zero (calc.py:6)",
            "FAIL tests/test_calc.py::test_not: AssertionError: assert not add(0, 0) (got 1)",
            "FAIL tests/test_calc.py::Sums::test_zero: AssertionError: 1 != 0",
            "1 passed, 4 failed, 1 skipped",
        ]
        assert seen.signals == {"tests_ok": 0.0}

    played(script)


def test_an_edit_is_seen_by_the_next_run() -> None:
    async def script(env: SweEnv, box: DirectoryBox) -> None:
        assert await say(env, "edit_file", path="calc.py", old=" + 1", new="") == "edited calc.py"
        assert await say(env, "edit_file", path="calc.py", old="x / 0", new="x / 2")
        await say(env, "edit_file", path="tests/test_calc.py", old="> 2", new="== 2")
        seen = await call(env, "run_tests")
        assert seen.messages[0].content == "5 passed, 0 failed, 1 skipped"
        assert not box.real("__pycache__").exists()

    played(script)


def test_an_edit_must_fit_exactly_once() -> None:
    async def script(env: SweEnv, box: DirectoryBox) -> None:
        edit = {"path": "calc.py", "new": "x"}
        assert await say(env, "edit_file", **edit, old="nope") == "error: old not found in calc.py"
        text = await say(env, "edit_file", **edit, old="return")
        assert text == "error: old occurs 2 times in calc.py; must be once"
        assert await say(env, "edit_file", **edit, old="") == "error: old is empty"
        assert await box.read("calc.py") == CALC

    played(script)


def test_a_search_shows_file_line_and_text_in_order() -> None:
    async def script(env: SweEnv, box: DirectoryBox) -> None:
        await box.write("b: 1:x.py", b"def q():\n")
        assert await say(env, "search", pattern=r"^def \w+\(") == (
            "b: 1:x.py:1:def q():\ncalc.py:1:def add(a, b):\ncalc.py:5:def half(x):\n"
            "tests/test_calc.py:4:def test_add():\ntests/test_calc.py:7:def test_half():\n"
            "tests/test_calc.py:10:def test_not():\ntests/test_calc.py:13:def test_two():"
        )
        assert await say(env, "search", pattern="zebra") == "no match"
        assert (await say(env, "search", pattern="(")).startswith("error: cannot search")
        assert (await call(env, "search", pattern=3)).malformed == 1

    played(script)


def test_code_that_does_not_import_is_an_error_with_its_place() -> None:
    async def script(env: SweEnv, box: DirectoryBox) -> None:
        await box.write("calc.py", b"def add(:\n")
        assert await say(env, "run_tests") == (
            "ERROR tests/test_calc.py: SyntaxError: invalid syntax (calc.py:1)\n"
            "0 passed, 0 failed, 1 errors"
        )
        await box.write("calc.py", b"import os\nos._exit(0)\n")
        assert "ERROR tests/test_calc.py: the process ended" in await say(env, "run_tests")

    played(script)


def test_no_tests_is_said() -> None:
    async def script(env: SweEnv, box: DirectoryBox) -> None:
        assert (await call(env, "run_tests")).messages[0].content == "no tests found"

    played(script, Task("t/2", "t", "x", files={"calc.py": CALC}))
