"""Say that the work is done."""

from collections.abc import Mapping
from typing import Any

from agentrl.tool import ToolOutput, ToolSpec


class Submit:
    """Ends the episode. Takes no arguments and ignores any it is given."""

    spec = ToolSpec("submit", "Finish: the work is done.")

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput("submitted", done=True)
