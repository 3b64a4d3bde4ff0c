import asyncio

import pytest

from agentrl.envs.sandbox import ExecResult, Stream
from agentrl.envs.terminal import TerminalEnv
from agentrl.errors import AgentFault
from agentrl.task import Limits, Task
from tests.directory_box import Opener
from tests.envs.play import Answering, call, say

TASK = Task("t/1", "t", "Count.", files={"a b.txt": b"one\n"}, limits=Limits(command_s=5))


def test_the_opening_is_a_sentence_and_the_instruction() -> None:
    async def run() -> None:
        env = TerminalEnv(TASK, Answering(ExecResult(0)))
        opening = await env.reset()
        assert [message.role for message in opening] == ["system", "user"]
        assert opening[1].content == "Count."
        assert [tool.name for tool in env.tools] == ["shell", "submit"]
        assert list(env.tools[0].parameters) == ["command"]

    asyncio.run(run())


def test_a_command_shows_its_output_and_only_a_bad_exit() -> None:
    async def run() -> None:
        async with Opener()(TASK) as box:
            env = TerminalEnv(TASK, box)
            assert await say(env, "shell", command="cat 'a b.txt'") == "one"
            assert await say(env, "shell", command="true") == "(no output)"
            assert await say(env, "shell", command="echo x; echo y >&2; exit 3") == "x\ny\n[exit 3]"
            seen = await call(env, "shell", command="exit 3")
            assert (seen.messages[0].content, seen.signals) == ("[exit 3]", {"exit": 3.0})
            assert (await call(env, "submit")).done

    asyncio.run(run())


def test_a_long_output_keeps_its_head_and_tail() -> None:
    async def run() -> None:
        async with Opener()(TASK) as box:
            text = await say(TerminalEnv(TASK, box), "shell", command="seq 1 9999")
            assert text.startswith("1\n2\n")
            assert text.endswith("9999")
            assert "bytes cut" in text
            assert len(text.encode()) < 1_600

    asyncio.run(run())


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ExecResult(None, timed_out="total"), "[timed out after 5 s]"),
        (ExecResult(None, timed_out="no_output"), "[stopped: no output for too long]"),
        (ExecResult(None, oom=True), "[killed: memory limit]"),
        (ExecResult(None, limit="pids"), "[killed: pids limit]"),
        (ExecResult(1, limit="disk"), "[the disk is full] [exit 1]"),
        (ExecResult(0, Stream(b"x\n"), limit="inodes"), "x\n[the disk takes no more files]"),
        (ExecResult(None, Stream(b"x\n")), "x\n[killed]"),
        (
            ExecResult(1, restarted=True),
            "[exit 1]\n[shell restarted: directory and variables are lost]",
        ),
    ],
)
def test_every_end_has_its_sentence(result: ExecResult, text: str) -> None:
    async def run() -> str:
        return await say(TerminalEnv(TASK, Answering(result)), "shell", command="x")

    assert asyncio.run(run()) == text


def test_a_lasting_shell_is_used_where_there_is_one() -> None:
    box = Answering(ExecResult(0))
    asyncio.run(say(TerminalEnv(TASK, box), "shell", command="cd /"))
    assert box.commands == ["cd /"]


def test_killing_the_box_is_the_agents_fault() -> None:
    env = TerminalEnv(TASK, Answering(ExecResult(None, dead=True)))
    with pytest.raises(AgentFault):
        asyncio.run(say(env, "shell", command="kill -9 1"))


@pytest.mark.parametrize("value", [5, None, ["ls"], {"a": 1}, True, "a\0b", "\ud800"])
def test_a_command_that_is_no_text_is_malformed(value: object) -> None:
    env = TerminalEnv(TASK, Answering(ExecResult(0)))
    seen = asyncio.run(call(env, "shell", command=value))
    assert seen.malformed == 1
    assert seen.messages[0].content.startswith("error: command")
