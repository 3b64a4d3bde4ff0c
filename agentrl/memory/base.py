"""One question: does this context still fit, and if not, what instead?"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from agentrl.engine.base import Reply
from agentrl.messages import Message
from agentrl.tool import Tool


class Budget(Struct, frozen=True):
    """`tokens` is what a context may hold so that the next reply still fits."""

    tokens: int
    count: Callable[[Sequence[Message]], int]

    def holds(self, context: Sequence[Message]) -> bool:
        return self.count(context) <= self.tokens


class Rewrite(Struct, frozen=True):
    """A new context, and what the policy was asked on the way: steps like any other."""

    context: tuple[Message, ...]
    replies: tuple[Reply, ...] = ()


class Memory(Protocol):
    """Made once an episode; siblings never share one."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    async def fit(self, context: Sequence[Message], budget: Budget, session: str) -> Rewrite | None:
        """A context that fits, or None to leave it alone. Never changes its argument."""
        ...
