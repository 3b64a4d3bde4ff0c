import asyncio

from agentrl.engine.scripted import ScriptedPolicy
from agentrl.messages import Message, ToolCall


def test_calls_are_played_one_a_turn_and_then_nothing() -> None:
    script = {"a": (ToolCall("", "one"), ToolCall("mine", "two")), "b": ()}
    policy = ScriptedPolicy(script.__getitem__)

    async def play(session: str, turns: int) -> list[Message]:
        return [(await policy.respond([], [], session)).message for _ in range(turns)]

    calls = [message.calls for message in asyncio.run(play("a", 4))]
    assert calls == [(ToolCall("c0.0", "one"),), (ToolCall("mine", "two"),), (), ()]
    assert asyncio.run(play("b", 1))[0].calls == ()
    policy.forget("a")
    assert asyncio.run(play("a", 1))[0].calls[0].name == "one"
    assert policy.count([Message("user", "x")]) == 0
