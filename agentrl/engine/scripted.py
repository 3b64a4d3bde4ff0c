"""A policy that plays fixed calls: for oracle and no-op runs, and to test with."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from agentrl.engine.base import Reply
from agentrl.messages import Message, ToolCall
from agentrl.tool import ToolSpec


class ScriptedPolicy:
    """One call a turn, as `calls_for(session)` lists them, then a reply without any.

    Text only: a reply has no tokens, and every context counts as zero of them. A call without an
    id gets `c<turn>.0`.
    """

    def __init__(self, calls_for: Callable[[str], Sequence[ToolCall]]) -> None:
        self._calls_for = calls_for
        self._left: dict[str, list[ToolCall]] = {}
        self._turns: dict[str, int] = {}

    async def respond(
        self, context: Sequence[Message], tools: Sequence[ToolSpec], session: str
    ) -> Reply:
        if session not in self._left:
            self._left[session] = list(reversed(self._calls_for(session)))
        left = self._left[session]
        turn = self._turns.get(session, 0)
        self._turns[session] = turn + 1
        if not left:
            return Reply(Message("assistant", ""), None)
        call = left.pop()
        call = call if call.id else replace(call, id=f"c{turn}.0")
        return Reply(Message("assistant", "", (call,)), None)

    def count(self, context: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        return 0

    def fork(self, session: str, child: str) -> None:
        """The child plays its own script; only the numbers of its turns go on from here."""
        self._turns[child] = self._turns.get(session, 0)

    def forget(self, session: str) -> None:
        """The session starts its script afresh if it comes again."""
        self._left.pop(session, None)
        self._turns.pop(session, None)
