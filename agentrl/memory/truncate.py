"""Blank the oldest tool outputs until the context fits."""

from collections.abc import Sequence

from msgspec.structs import replace

from agentrl.memory.base import Budget, Rewrite
from agentrl.messages import Message
from agentrl.tool import Tool

ELIDED = "[elided]"


class Truncate:
    """Replaces old tool outputs, oldest first, by a placeholder; never the last `keep_last`."""

    tools: Sequence[Tool] = ()

    def __init__(self, keep_last: int = 2) -> None:
        self._keep_last = keep_last

    async def fit(self, context: Sequence[Message], budget: Budget, session: str) -> Rewrite | None:
        if budget.holds(context):
            return None
        shorter = list(context)
        for index, message in enumerate(context[: len(context) - self._keep_last]):
            if message.role == "tool" and message.content != ELIDED:
                shorter[index] = replace(message, content=ELIDED)
                if budget.holds(shorter):
                    break
        return Rewrite(tuple(shorter)) if shorter != list(context) else None
