"""Who may see which task: a frozen held-out set, and a training stream that never meets it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from random import Random

from msgspec import Struct, field

from agentrl.errors import ConfigError, TaskError
from agentrl.generate.base import DIFFICULTIES, Generator
from agentrl.generate.values import digest_int
from agentrl.task import Task

Cell = tuple[str, int]
"""A family and a difficulty."""


def content_hash(task: Task) -> str:
    """Hex digest of what a task asks and holds; its id and seed do not count."""
    digest = blake2b(digest_size=16)
    parts = [("instruction", "", task.instruction.encode())]
    parts += [("file", path, data) for path, data in sorted(task.files.items())]
    parts += [("test", path, data) for path, data in sorted(task.tests.items())]
    for kind, path, data in parts:
        digest.update(f"{kind} {len(path)} {path} {len(data)} ".encode() + data)
    return digest.hexdigest()


def digest(tasks: Iterable[Task]) -> str:
    """One digest over a set of tasks, whatever their order."""
    return blake2b(" ".join(sorted(map(content_hash, tasks))).encode(), digest_size=16).hexdigest()


def values_of(task: Task) -> set[tuple[str, str]]:
    """(family, value) for every name, word and number the task was built from."""
    return {(task.family, value) for value in task.meta.get("values", ())}


def cells(generator: Generator) -> list[Cell]:
    """Every family at every difficulty, families fastest."""
    return [(family, level) for level in DIFFICULTIES for family in generator.families]


def held_out(
    generator: Generator,
    domain: str,
    n: int,
    seed: int = 0,
    grid: Sequence[Cell] | None = None,
) -> list[Task]:
    """`n` different tasks of the held-out split, uniform over `grid` (default: families and
    difficulties 1-5; round robin, so counts differ by one at most). Same arguments, same bytes.

    Raises ConfigError where the generator makes tasks of another domain or no more new ones.
    """
    tasks: list[Task] = []
    seen: set[str] = set()
    grid = cells(generator) if grid is None else grid
    for i in range(n):
        family, difficulty = grid[i % len(grid)]
        for attempt in range(100):
            number = digest_int(f"{domain}:{seed}:{i}:{attempt}") % 1_000_000
            task = generator.make(family, difficulty, number, "held_out")
            if task.suite != domain:
                raise ConfigError(f"the generator makes {task.suite!r} tasks, not {domain!r}")
            if (key := content_hash(task)) not in seen:
                break
        else:
            raise ConfigError(
                f"{family} at difficulty {difficulty} has no more new held-out tasks",
                help=f"ask for fewer than {n} tasks",
            )
        seen.add(key)
        tasks.append(task)
    return tasks


class Ledger:
    """What a set of held-out tasks consists of, to keep training away from it."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.digest = digest(tasks)
        self.hashes = frozenset(map(content_hash, tasks))
        self.values = frozenset(value for task in tasks for value in values_of(task))

    def check(self, task: Task) -> None:
        """Raises TaskError if the task, or a value of its family, is held out."""
        if content_hash(task) in self.hashes:
            raise TaskError("a training task equals a held-out task", where=task.id)
        shared = values_of(task) & self.values
        if shared:
            names = ", ".join(sorted(value for _, value in shared))
            raise TaskError(f"a training task uses held-out values: {names}", where=task.id)


def check_disjoint(train_tasks: Iterable[Task], held_out_tasks: Sequence[Task]) -> None:
    """Raises TaskError at the first training task that shares content or a (family, value)."""
    ledger = Ledger(held_out_tasks)
    for task in train_tasks:
        ledger.check(task)


class Training(Struct, frozen=True):
    """An endless training stream; the task at a number is a pure function of (seed, number), so
    a run resumes by its counter alone.

    Without weights every round of the stream holds each family at each difficulty once, in an
    order of its own. With weights (by (family, difficulty); absent means 0) each is drawn.
    """

    generator: Generator
    seed: int
    weights: Mapping[Cell, float] = field(default_factory=dict)

    def cell_at(self, number: int) -> Cell:
        grid = cells(self.generator)
        if self.weights:
            chances = [self.weights.get(cell, 0.0) for cell in grid]
            if min(chances) < 0 or not sum(chances):
                raise ConfigError("weights of families and difficulties: none below 0, not all 0")
            return Random(digest_int(f"draw:{self.seed}:{number}")).choices(grid, chances)[0]
        turn, place = divmod(number, len(grid))
        Random(digest_int(f"round:{self.seed}:{turn}")).shuffle(grid)
        return grid[place]

    def task_at(self, number: int) -> Task:
        family, difficulty = self.cell_at(number)
        return self.generator.make(family, difficulty, self.seed * 10_000_000 + number, "train")

    def tasks(self, start: int = 0) -> Iterator[Task]:
        """`task_at(start)`, `task_at(start + 1)`, … without end."""
        number = start
        while True:
            yield self.task_at(number)
            number += 1


def training(
    generator: Generator,
    seed: int,
    start: int = 0,
    weights: Mapping[Cell, float] | None = None,
) -> Iterator[Task]:
    """The training stream from task number `start` on."""
    return Training(generator, seed, dict(weights or {})).tasks(start)
