"""What a viewer can open: a run, also one that is being written, or a file of another tool."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from agentrl.errors import AgentRLError, StoreError
from agentrl.trajectory.events import EpisodeEvent, EpisodeHappening
from agentrl.trajectory.foreign import read_file
from agentrl.trajectory.index import Entry, Index, advance, columns_of
from agentrl.trajectory.reading import CLOSED, FOLDER, OPEN, Cursor
from agentrl.trajectory.shards import listing
from agentrl.trajectory.store import RunStore
from agentrl.tui.play import Play, play
from agentrl.tui.where import Columns

News = dict[str, Entry]
"""Episodes that are new or changed."""


class Source(Protocol):
    """Episodes to look at.

    `look` begins to read what is new and returns at once; `take` says what has been found, and has
    it in `columns` from then on. `fault` is the last thing that could not be read.
    """

    name: str
    fault: str

    @property
    def columns(self) -> Columns: ...
    def look(self) -> None: ...
    def take(self) -> News: ...
    def episode(self, name: str) -> Play: ...
    def search(self, text: str) -> set[str]: ...


WORTH_SAVING = 64
"""Episodes found in one look from which on the index is written."""


class RunSource:
    """A run's record, read only; its index is the one thing that is written, as a cache."""

    def __init__(self, root: Path) -> None:
        self.name = root.name
        self.root = root
        self.index = Index(root)
        self.fault = ""
        self._lock = threading.Lock()  # held by whoever changes the index
        self._news: News = {}

    @property
    def columns(self) -> Columns:
        return self.index.columns

    def look(self) -> None:
        """In a thread that nobody waits for, not even at the end; one look at a time."""
        if not self._lock.locked():
            threading.Thread(target=self._look, daemon=True).start()

    def take(self) -> News:
        """The first long look is saved, so that the run opens at once the next time."""
        if not self._news or not self._lock.acquire(blocking=False):
            return {}
        try:
            news, self._news = self._news, {}
            self.index.commit(news)
            if len(news) >= WORTH_SAVING and os.access(self.root, os.W_OK):
                self.index.save()
        finally:
            self._lock.release()
        return news

    def _look(self) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            if not self._news:  # what was found before has to be taken first
                self._news = self.index.gather()
        except (AgentRLError, OSError) as error:
            self.fault = str(error).split("\n")[0]
        finally:
            self._lock.release()

    def episode(self, name: str) -> Play:
        """One episode, from the shards that hold it. `StoreError` where there is none."""
        row = self.index.place(name)
        shards = None if row is None else self.index.columns["shards"][row].split(" ")
        placed = RunStore(self.root).placed(episode=name, shards=shards)
        found = play(cast(EpisodeEvent, event) for _, event in placed)
        if found is None:
            raise _missing(name, self.name)
        return found

    def search(self, text: str) -> set[str]:
        """Episodes in whose events the text stands, letter for letter."""
        needle = msgspec.json.encode(text)[1:-1]
        return set(self._naming(needle))

    def _naming(self, needle: bytes) -> Iterator[str]:
        for stem in listing(self.root / FOLDER, OPEN, CLOSED):
            for event in Cursor(self.root, stem).events(needle):
                if isinstance(event, EpisodeHappening):
                    yield event.episode


class FileSource:
    """A file of another tool, read once."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.fault = ""
        self._events: dict[str, list[EpisodeEvent]] = {}
        entries: dict[str, Entry] = {}
        for event in read_file(path):
            self._events.setdefault(event.episode, []).append(event)
            entries[event.episode] = advance(entries.get(event.episode), event, "")
        self._columns: Columns = columns_of(list(entries.values()))

    @property
    def columns(self) -> Columns:
        return self._columns

    def look(self) -> None:
        return None

    def take(self) -> News:
        return {}

    def episode(self, name: str) -> Play:
        found = play(self._events.get(name, ()))
        if found is None:
            raise _missing(name, self.name)
        return found

    def search(self, text: str) -> set[str]:
        return {
            name
            for name, events in self._events.items()
            if any(text in str(msgspec.to_builtins(event)) for event in events)
        }


def place_of(source: Source, episode: str) -> int | None:
    """Where an episode stands in the columns."""
    found: Any = (source.columns["episode"] == episode).nonzero()[0]
    return int(found[-1]) if len(found) else None


def _missing(name: str, where: str) -> StoreError:
    return StoreError(
        f"no episode {name!r} in {where}",
        where=where,
        help="the list of episodes shows what there is",
    )
