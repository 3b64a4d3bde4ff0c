"""Read a measurement back from a run: which tasks, how each try at them went."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from agentrl.config import load
from agentrl.errors import ConfigError
from agentrl.generate.ledger import content_hash
from agentrl.run import plan
from agentrl.run.runs import find_run
from agentrl.trajectory.events import (
    EpisodeOpened,
    EpisodeStopped,
    Event,
    HeldOutMeasured,
    Replied,
    Verified,
)
from agentrl.trajectory.reading import CLOSED, FOLDER, OPEN, Cursor
from agentrl.trajectory.shards import listing
from agentrl.trajectory.tokens import TokenReader

NAME = re.compile(r"h(\d+)\.(\d+)\.(\d+)")
"""A held-out episode: step, task number, try."""


class Try(Struct):
    """One episode of a measurement. `success` is None where it was never judged."""

    episode: str
    success: bool | None = None
    stop: str = ""
    turns: int = 0
    tokens: int = 0
    fault: str = ""  # class of what broke it, where the host did


class Played(Struct):
    """A task and the tries at it. `key` names its content, whatever its id."""

    id: str
    key: str
    family: str
    tries: dict[int, Try] = field(default_factory=dict)

    def judged(self) -> list[Try]:
        return [one for _, one in sorted(self.tries.items()) if one.success is not None]


class Measurement(Struct, frozen=True):
    """Everything a comparison needs of one pass over tasks; `tasks` by content."""

    address: str
    policy: str
    folder: Path
    step: int
    tasks: dict[str, Played]
    unplayed: int  # episodes that were to be played and were not

    @property
    def tries(self) -> int:
        return max((len(one.tries) for one in self.tasks.values()), default=0)


def find(spec: str, runs: Path) -> Measurement:
    """`RUN` (its last measurement) or `RUN@STEP`. Raises ConfigError where there is none."""
    name, _, which = spec.rpartition("@")
    if not name:  # no @, or one that begins a run's name, as in @latest
        name, which = spec, ""
    folder = find_run(name, runs)
    done = {e.step: e for e in passes(folder) if e.meta.get("label", "h") == "h"}
    kept = ", ".join(map(str, sorted(done))) or "none"
    if which and (not which.isdigit() or int(which) not in done):
        raise ConfigError(
            f"{folder.name} was not measured at step {which}",
            where=spec,
            help=f"steps it was measured at: {kept}",
        )
    if not done:
        resume = (folder / plan.NAME).is_file()
        raise ConfigError(
            f"{folder.name} has no finished measurement",
            where=str(folder),
            help=f"`agentrl resume {folder.name[-4:]}`" if resume else "`agentrl eval` makes one",
        )
    step = int(which) if which else max(done)
    tasks = read(folder, step)
    short = folder.name if (folder / plan.NAME).is_file() else f"{folder.name}@{step}"
    unplayed = int(done[step].meta.get("unplayed", 0))
    return Measurement(short, _policy(folder, step), folder, step, tasks, unplayed)


def passes(folder: Path) -> list[HeldOutMeasured]:
    """What was written after each pass, in time's order."""
    events = _events(folder, b'"event":"held_out_measured"')
    return [event for event in events if isinstance(event, HeldOutMeasured)]


def _events(folder: Path, needle: bytes) -> list[Event]:
    """Those whose line holds `needle`, by time; no other line is decoded."""
    stems = listing(folder / FOLDER, OPEN, CLOSED)
    found = [event for stem in stems for event in Cursor(folder, stem).events(needle)]
    return sorted(found, key=lambda event: event.at)


def _policy(folder: Path, step: int) -> str:
    if (folder / plan.NAME).is_file():
        return plan.read(folder).player.name
    return f"{load(base=folder / 'config.toml').config.model} after {step} steps"


def read(folder: Path, step: int) -> dict[str, Played]:
    """The tasks of the pass at one step, by content."""
    return read_all(folder, step).get(step, {})


def read_all(folder: Path, only: int | None = None) -> dict[int, dict[str, Played]]:
    """Every pass of a run (or the one at step `only`) by its step."""
    tokens = TokenReader(folder)
    playing: dict[str, Played] = {}
    found: dict[int, dict[str, Played]] = {}
    for event in _events(folder, b'"episode":"h'):
        episode = getattr(event, "episode", "")
        named = NAME.fullmatch(episode)
        if named is None or only not in (None, int(named[1])):
            continue
        go = int(named[3])
        if isinstance(event, EpisodeOpened):
            key = content_hash(event.task)
            tasks = found.setdefault(int(named[1]), {})
            playing[episode] = tasks.setdefault(key, Played(event.task.id, key, event.task.family))
            playing[episode].tries[go] = Try(episode)  # a second opening starts it afresh
        elif episode in playing:
            _note(playing[episode].tries[go], event, tokens)
    return found


def _note(one: Try, event: Event, tokens: TokenReader) -> None:
    match event:
        case Replied():
            one.turns += event.by == "agent"
            if event.row is not None:
                one.tokens += len(tokens.span(*event.row).sampled)
            elif event.usage is not None:
                one.tokens += event.usage.sampled
        case EpisodeStopped():
            one.stop = event.why
        case Verified():
            one.success = event.verdict.success if event.reward is not None else None
            one.fault = "" if one.success is not None else event.verdict.fault or "masked"
        case _:
            pass


def settings(folder: Path) -> dict[str, Any]:
    """A run's configuration as dotted keys."""
    return dict(_leaves(load(base=folder / "config.toml").config.model_dump()))


def _leaves(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
