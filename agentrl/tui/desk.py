"""What the screens need from the outside, as the shapes they rely on; the command line joins it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class RunInfo(Protocol):
    """What `run.json` says. Times in seconds since the epoch."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def step(self) -> int: ...
    @property
    def of(self) -> int: ...


class MetricRow(Protocol):
    """One optimizer step, as `metrics.jsonl` has it; an interval is (low, high)."""

    step: int
    of: int
    reward: float | None
    reward_ci: tuple[float, float] | None
    heldout: float | None
    heldout_ci: tuple[float, float] | None
    groups: int
    flat: int
    malformed: int
    tokens: int
    rollout_s: float
    learn_s: float
    handover_s: float
    stats: Mapping[str, float]


class Alert(Protocol):
    """Something a person should look at; `until` is the step that resolved it."""

    rule: str
    level: str
    step: int
    text: str
    until: int | None


Decoder = Callable[[int], str]
"""A token's text; for an id that no tokenizer is at hand for, the id itself."""


class Desk(Struct, frozen=True):
    """Where the viewer gets what is not in a record. `info` raises where the folder is gone."""

    runs: Callable[[], Sequence[tuple[Path, RunInfo]]]
    info: Callable[[Path], RunInfo]
    decoder: Callable[[Path], Decoder]
    rows: Callable[[Path], Sequence[MetricRow]]
    alerts: Callable[[Sequence[MetricRow]], Sequence[Alert]]


def bare(token: int) -> str:
    """The decoder where there is no tokenizer."""
    return f"‹{token}›"
