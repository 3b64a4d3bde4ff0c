"""Files of other tools become episodes like ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentrl.errors import StoreError
from agentrl.messages import Message, ToolCall
from agentrl.trajectory.fold import fold
from agentrl.trajectory.foreign import read_file
from agentrl.trajectory.records import TokenSpan, Trajectory

ATIF: dict[str, Any] = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s1",
    "agent": {"name": "terminus-2", "version": "1", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "You use a shell."},
        {
            "step_id": 2,
            "source": "user",
            "message": [{"type": "text", "text": "Count the files."},
                        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}],
            "timestamp": "2026-11-30T10:00:00Z",
        },
        {
            "step_id": 3,
            "source": "agent",
            "message": "Let me look.",
            "reasoning_content": "ls it is",
            "timestamp": "2026-11-30T10:00:04Z",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash",
                            "arguments": {"cmd": "ls | wc -l"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "3\n"}]},
            "metrics": {"prompt_token_ids": [1, 2], "completion_token_ids": [3, 4],
                        "logprobs": [-0.1, -0.2], "cached_tokens": 1},
        },
        {
            "step_id": 4,
            "source": "agent",
            "message": "Three.",
            "metrics": {"prompt_token_ids": [1, 2, 3, 4, 5], "completion_token_ids": [6],
                        "logprobs": [-0.3]},
        },
    ],
    "subagent_trajectories": [
        {"schema_version": "ATIF-v1.6", "trajectory_id": "sub", "agent": {"name": "x"},
         "steps": [{"step_id": 1, "source": "agent", "message": "hello"}]}
    ],
}  # fmt: skip
CHAT: list[dict[str, Any]] = [
    {"role": "developer", "content": "You use a shell."},
    {"role": "user", "content": "Count the files."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function",
             "function": {"name": "bash", "arguments": '{"cmd": "ls | wc -l"}'}},
            {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": "{oops"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3\n"}]},
    {"role": "assistant", "content": "Three."},
]  # fmt: skip


def read(path: Path, content: str) -> dict[str, Trajectory]:
    path.write_text(content)
    return fold(read_file(path))


def test_an_atif_document_is_an_episode_with_its_tokens(tmp_path: Path) -> None:
    found = read(tmp_path / "trajectory.json", json.dumps(ATIF))
    main = found["s1"]
    assert main.task.instruction == "Count the files.\n[image a.png]"
    assert [message.role for message in main.opening] == ["system", "user"]
    first, second = main.steps
    assert first.reply == Message(
        "assistant",
        "<think>\nls it is\n</think>\nLet me look.",
        (ToolCall("c1", "bash", {"cmd": "ls | wc -l"}),),
    )
    assert first.seen == (Message("tool", "3\n", call_id="c1"),)
    assert first.tokens == TokenSpan([1, 2], [3, 4], [-0.1, -0.2], [(0, -1)], False, 1)
    assert second.tokens == TokenSpan([5], [6], [-0.3], [(0, -1)], True, 0)
    assert first.at - main.opened_at == 4.0
    assert found["sub"].parent == "s1"
    assert found["sub"].reward is None


@pytest.mark.parametrize("form", ["list", "object", "lines of objects", "lines of messages"])
def test_openai_messages_are_an_episode_in_each_of_their_forms(tmp_path: Path, form: str) -> None:
    content = {
        "list": json.dumps(CHAT),
        "object": json.dumps({"messages": CHAT}),
        "lines of objects": "\n".join([json.dumps({"id": "a", "messages": CHAT})] * 1 + [""]),
        "lines of messages": "\n".join(map(json.dumps, CHAT)),
    }[form]
    (only,) = read(tmp_path / "chat.jsonl", content).values()
    assert [message.role for message in only.opening] == ["system", "user"]
    first, second = only.steps
    assert first.reply.calls[0] == ToolCall("c1", "bash", {"cmd": "ls | wc -l"})
    assert first.reply.calls[1].arguments == {"arguments": "{oops"}
    assert str(first.reply.calls[1].error).startswith("arguments are not JSON")
    assert first.seen == (Message("tool", "3\n", call_id="c1"),)
    assert second.reply.content == "Three."
    assert only.stop is None


def test_several_conversations_are_several_episodes(tmp_path: Path) -> None:
    lines = [json.dumps({"messages": CHAT}), json.dumps({"messages": CHAT[:2]})]
    assert list(read(tmp_path / "a.jsonl", "\n".join(lines))) == ["0", "1"]


def test_a_mini_swe_agent_file_says_how_it_ended(tmp_path: Path) -> None:
    messages = [*CHAT, {"role": "exit", "content": "patch"}]
    told: dict[str, Any] = {"messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    told["info"] = {"exit_status": "LimitsExceeded"}
    (only,) = read(tmp_path / "astropy.traj.json", json.dumps(told)).values()
    assert (only.id, only.stop) == ("astropy", "steps")
    told["info"] = {"exit_status": "RuntimeError"}
    (only,) = read(tmp_path / "astropy.traj.json", json.dumps(told)).values()
    assert (only.stop, only.error) == ("error", "RuntimeError")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty"),
        ("{half", "neither JSON nor JSON lines"),
        ('{"a": 1}', "no messages with a role"),
        ("[1, 2]", "no messages with a role"),
        ('{"schema_version": "ATIF-v1.2", "steps": []}', "at least one step"),
        ('{"schema_version": "ATIF-v1.2", "steps": [{"source": "robot"}]}', "a step needs"),
    ],
)
def test_what_is_none_of_them_is_said(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        read(tmp_path / "x.json", content)
