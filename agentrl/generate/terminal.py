"""Shell tasks: write, count, find, edit, triage, unpack and sort files, judged by final state."""

from collections.abc import Callable, Sequence

from agentrl.generate import terminal_data, terminal_files
from agentrl.generate.base import Split
from agentrl.generate.scene import Scene, make_state_task
from agentrl.generate.values import Values
from agentrl.task import Task

FAMILIES: dict[str, Callable[[Values, int], Scene]] = {
    "write": terminal_files.write,
    "count": terminal_data.count,
    "find_move": terminal_files.find_move,
    "edit_config": terminal_files.edit_config,
    "log_triage": terminal_data.log_triage,
    "archive": terminal_files.archive,
    "columns": terminal_data.columns,
}


class TerminalGenerator:
    """Tasks for the tools `shell(command)` and `submit()`."""

    @property
    def families(self) -> Sequence[str]:
        return tuple(FAMILIES)

    def make(self, family: str, difficulty: int, seed: int, split: Split) -> Task:
        """Raises ConfigError for a family or difficulty there is not."""
        return make_state_task("terminal", FAMILIES, family, difficulty, seed, split)
