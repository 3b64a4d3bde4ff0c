"""Keep everything: the control. A context that outgrows its budget ends the episode."""

from collections.abc import Sequence

from agentrl.memory.base import Budget, Rewrite
from agentrl.messages import Message
from agentrl.tool import Tool


class KeepAll:
    """Never rewrites."""

    tools: Sequence[Tool] = ()

    async def fit(self, context: Sequence[Message], budget: Budget, session: str) -> Rewrite | None:
        return None
