"""A thing the model may call. Anyone can offer one: an env, a memory, a stranger."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct, field


class ToolSpec(Struct, frozen=True):
    """What the model is told: `parameters` maps each argument to its JSON schema, in order."""

    name: str
    description: str
    parameters: dict[str, Any] = field(default_factory=dict)
    optional: tuple[str, ...] = ()


class ToolOutput(Struct, frozen=True):
    """What a call gave back. `done` ends the episode; `malformed` says the call was unusable."""

    text: str
    done: bool = False
    malformed: bool = False
    signals: dict[str, float] = field(default_factory=dict)


class Tool(Protocol):
    """Something callable by name with JSON arguments."""

    @property
    def spec(self) -> ToolSpec: ...
    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput: ...
