"""The contract of a learner."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from agentrl.engine.base import Weights
from agentrl.trajectory.records import Segment

Stats = dict[str, float]


class Learner(Protocol):
    """Moves weights. `step` is one optimizer step; `save`/`load` are an exact state."""

    @property
    def version(self) -> int: ...
    def step(self, batch: Sequence[Segment]) -> Stats: ...
    def publish(self) -> Weights: ...
    def save(self, path: Path) -> None: ...
    def load(self, path: Path) -> None: ...
