"""What admission tries besides the oracle: cheats, another day, and leaks."""

import asyncio
import zlib

import msgspec
import pytest

from agentrl.envs.sandbox import Harvest
from agentrl.generate.bots import attacks
from agentrl.generate.jitter import Jittered
from agentrl.generate.leaks import leaks
from agentrl.messages import ToolCall
from agentrl.task import Task
from tests.directory_box import Opener

TASK = Task(
    "t/1",
    "t",
    "Mend it.",
    files={"run.sh": b"#!/bin/bash\nfalse\n", "calc.py": b"x = 0\n", "data": b"1\n"},
    tests={"want": b"the answer that nobody is to see beforehand\n"},
    oracle=(ToolCall("c", "shell", {"command": "sed -i s/this-is-wrong/this-is-the-right-line/"}),),
)
LEFT = Harvest({**{p: (0o644, d) for p, d in TASK.files.items()}, "calc.py": (0o644, b"x = 1\n")})


def test_every_cheat_differs_from_the_oracle_and_from_doing_nothing() -> None:
    tried = dict(attacks(TASK, LEFT))
    assert {"forges", "peeks", "exits", "hooks", "empties", "erases", "stuffs"} == set(tried)
    for left in tried.values():
        assert left.files != LEFT.files
        assert {path: data for path, (_, data) in left.files.items()} != TASK.files


def test_cheats_that_come_to_what_the_oracle_did_are_left_out() -> None:
    gone = Harvest({})
    assert "erases" not in dict(attacks(TASK, gone))
    words = msgspec.structs.replace(TASK, files={"data": b"1\n"})
    assert not {"forges", "peeks", "exits"} & set(dict(attacks(words, Harvest({}))))


def test_a_jittered_box_has_another_time_zone_and_order_and_is_else_the_same() -> None:
    async def seen(n: int) -> tuple[str, bytes]:
        async with Jittered(Opener(), n)(TASK) as box:
            ran = await box.exec(["bash", "-c", "echo $TZ $PYTHONHASHSEED $AGENTRL_TEST_ORDER"])
            script = b"import os, sys\nprint(os.environ['TZ'], sys.argv[1])\n"
            await box.write("a.py", script)
            again = await box.exec(["@python", "a.py", "x"])
            return ran.out.text + again.out.text, await box.read("data")

    first, second = asyncio.run(seen(1)), asyncio.run(seen(2))
    assert first == ("BBB+11:30 7919 reversed\nBBB+11:30 x\n", b"1\n")
    assert first[0] != second[0]


def commit(text: bytes) -> bytes:
    return zlib.compress(b"commit %d\0" % len(text) + text)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({".git/objects/pack/pack-1.pack": b"x"}, "git history"),
        ({"repo/.git/ORIG_HEAD": b"x"}, "git history"),
        ({f".git/objects/{n:02x}/{'0' * 38}": commit(b"tree") for n in (1, 2)}, "2 commits"),
        ({"pkg/__pycache__/calc.pyc": b"x"}, "a cache"),
        ({".cache/pip/wheel": b"x"}, "a cache"),
        ({"notes": b"> the answer that nobody is to see beforehand"}, "tests/want is in"),
        ({"b64": b"dGhlIGFuc3dlciB0aGF0IG5vYm9keSBpcyB0byBzZWUgYmVmb3JlaGFuZA=="}, "tests/want"),
        ({"fix.patch": b"+ sed -i s/this-is-wrong/this-is-the-right-line/"}, "lies ready"),
    ],
)
def test_what_gives_the_answer_away_is_named(files: dict[str, bytes], said: str) -> None:
    (found,) = leaks(msgspec.structs.replace(TASK, files=files))
    assert said in found
    assert next(iter(files)) in found or "commits" in found


def test_a_clean_world_has_no_leak() -> None:
    assert leaks(TASK) == []
    one = {f".git/objects/01/{'0' * 38}": commit(b"tree"), ".git/HEAD": b"ref: x"}
    assert leaks(msgspec.structs.replace(TASK, files=one)) == []
