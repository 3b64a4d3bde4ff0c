"""Tests run in a process of their own: what the code under test may do, and what it cannot."""

import asyncio

import msgspec
import pytest

from agentrl.envs.sandbox import Harvest
from agentrl.envs.sandboxes.bubblewrap import Bubblewrap
from agentrl.reward.hidden_tests import HiddenTestsVerifier, isolated
from agentrl.reward.judgement import judge
from agentrl.task import Limits, Task
from agentrl.trajectory.records import Verdict
from tests.redteam.rollouts import BUG, swe
from tests.reward.play import nobody

HIDDEN = b"""import math
import unittest
from calc import add

class Adding(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(add(10**20, 1), 10**20 + 1)

    def test_words(self):
        self.assertRaises(TypeError, math.sqrt, "x")
        with self.assertRaises(TypeError):
            self.assertEqual(add(1, "a"), 0)

def test_kinds():
    assert add([1], [(2, "x")]) == [1, (2, "x")]
    assert add("a", "b") == "ab"
    assert add((1.5,), (None, True)) == (1.5, None, True)
    assert add(b"a", b"\\xff") == b"a\\xff"
"""
IDS = [
    f"hidden/test_more.py::{n}" for n in ("Adding::test_sum", "Adding::test_words", "test_kinds")
]
TASK = msgspec.structs.replace(swe(HIDDEN), meta={"expected_tests": IDS}, limits=Limits())
FIXED = BUG.replace(b"a - b", b"a + b")


OPENER = Bubblewrap()  # some of this code would harm a host


def judged(*added: str, task: Task = TASK, fixed: bool = False) -> Verdict:
    """What the code base with these lines added to it comes to, in a real box."""
    source = FIXED if fixed else BUG
    left = {path: (0o644, data) for path, data in task.files.items()}
    left["calc.py"] = (0o644, "\n".join([source.decode(), *added]).encode())
    harvest, verifier = Harvest(dict(left)), HiddenTestsVerifier()
    return asyncio.run(judge(task, nobody(task), OPENER, harvest, verifier))


def test_plain_tests_are_run_apart_and_honest_code_passes_them() -> None:
    assert isolated(TASK)
    verdict = judged(fixed=True)
    assert (verdict.score, verdict.flags) == (1.0, ())
    assert set(verdict.parts) == set(IDS)


@pytest.mark.parametrize(
    "honest",
    [
        "class Total(int): pass\n_add = add\ndef add(a, b):\n"
        "    got = _add(a, b)\n    return Total(got) if type(got) is int else got",
        "import collections, sys, os\nprint('hello'); sys.stderr.write('there')",
        "import threading\nthreading.Thread(target=print).start()",
    ],
)
def test_code_may_print_start_threads_and_return_kinds_of_plain_values(honest: str) -> None:
    verdict = judged(honest, fixed=True)
    assert (verdict.score, verdict.flags) == (1.0, ())


@pytest.mark.parametrize(
    ("broken", "note"),
    [
        ("def add(a, b): return object()", "returned a object, which is no plain value"),
        ("class Odd(Exception): pass\ndef add(a, b): raise Odd('no')", "Raised: Odd: no"),
        ("loop = []\nloop.append(loop)\ndef add(a, b): return loop", "no plain value"),
        ("raise ImportError('no such thing')", "ImportError: no such thing"),
        ("import os\ndef add(a, b): os.kill(os.getpid(), 9)", "the process ended"),
        ("import os\ndef add(a, b): os.write(3, b'x' * 100); return 0", "the process ended"),
        ("del add", "cannot import name 'add'"),
    ],
)
def test_what_is_no_answer_fails_its_test_and_says_why(broken: str, note: str) -> None:
    one = msgspec.structs.replace(TASK, meta={"expected_tests": IDS[:1]})
    verdict = judged(broken, task=one)
    assert (verdict.outcome, verdict.score) == ("reward", 0.0)
    assert note in verdict.note


FORGERS = {
    "answers for the tests": """
import os, json
def add(a, b):
    data = json.dumps({"value": True}).encode()
    os.write(3, len(data).to_bytes(4, "big") + data)
    return True""",
    "writes a report": """
import os, glob
for at in glob.glob("/proc/*/fd/1"):
    try: open(at, "w").write("report eJyrVipKLS7NKVGyUqpWykxRslIqAQA2kgVv\\n")
    except OSError: pass
os.write(1, b"report x\\n")
def add(a, b): return 0""",
    "overwrites the runner": """
import glob, os
for at in glob.glob("/tmp/.agentrl-*/*") + glob.glob(os.getcwd() + "/../tmp/.agentrl-*/*"):
    open(at, "w").write("print('report')")
def add(a, b): return 0""",
    "ends well": """
def add(a, b):
    __import__("os")._exit(0)""",
    "raises a pass": """
import unittest
def add(a, b):
    raise unittest.case._ShouldStop if a == 1 else unittest.SkipTest("x")""",
}


@pytest.mark.parametrize("forger", FORGERS.values(), ids=FORGERS.keys())
def test_no_code_under_test_passes_a_test_it_does_not_meet(forger: str) -> None:
    verdict = judged(forger)
    assert (verdict.outcome, verdict.score) == ("reward", 0.0), verdict


def test_a_test_the_code_hangs_in_does_not_take_the_others_with_it() -> None:
    hangs = "_add = add\ndef add(a, b):\n    while type(a) is list: pass\n    return _add(a, b)"
    verdict = judged(hangs, fixed=True)
    assert verdict.parts == {IDS[0]: 1.0, IDS[1]: 1.0, IDS[2]: 0.0}
    assert "timed out after" in verdict.note


def test_a_task_can_ask_for_one_process() -> None:
    shared = msgspec.structs.replace(TASK, meta={"isolated": False, "expected_tests": IDS})
    assert not isolated(shared)
    assert judged(task=shared, fixed=True).score == 1.0
