"""File tasks without a shell: create, rename, delete, copy a value, organise, merge."""

from collections.abc import Callable, Sequence

from agentrl.generate import filesystem_families as families
from agentrl.generate.base import Split
from agentrl.generate.scene import Scene, make_state_task
from agentrl.generate.values import Values
from agentrl.task import Task

FAMILIES: dict[str, Callable[[Values, int], Scene]] = {
    "create": families.create,
    "rename": families.rename,
    "delete": families.delete,
    "copy_value": families.copy_value,
    "organise": families.organise,
    "merge": families.merge,
}


class FilesystemGenerator:
    """Tasks for `list_files(path)`, `read_file(path)`, `write_file(path, content)`,
    `move_file(source, destination)`, `delete_file(path)` and `submit()`."""

    @property
    def families(self) -> Sequence[str]:
        return tuple(FAMILIES)

    def make(self, family: str, difficulty: int, seed: int, split: Split) -> Task:
        """Raises ConfigError for a family or difficulty there is not."""
        return make_state_task("filesystem", FAMILIES, family, difficulty, seed, split)
