"""What the viewers ask of a run's folder besides its record."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

from agentrl.engine.tokens import Tokenizer
from agentrl.errors import AgentRLError
from agentrl.run.metrics import StepRow, read_row
from agentrl.run.models import PACKAGED


class RowTail:
    """`metrics.jsonl` as it grows. Half a line at its end is left for the next look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[StepRow] = []
        self._offset = 0
        self._inode = 0

    def rows(self) -> list[StepRow]:
        """Every row so far; read anew where the file was replaced (a resume cuts it)."""
        try:
            with self._path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode != self._inode or file.seek(0, 2) < self._offset:
                    self._rows, self._offset, self._inode = [], 0, inode
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._offset += len(whole) + len(newline)
        self._rows += [read_row(line) for line in whole.split(b"\n") if line]
        return list(self._rows)


def metric_rows() -> Callable[[Path], list[StepRow]]:
    """Rows of any run's folder, each file read once and then followed."""
    tails: dict[Path, RowTail] = {}

    def rows(folder: Path) -> list[StepRow]:
        if folder not in tails:
            tails[folder] = RowTail(folder / "metrics.jsonl")
        return tails[folder].rows()

    return rows


def decoder(folder: Path) -> Callable[[int], str]:
    """A token's text by the tokenizer of the run's model, found on this disk; else its id."""
    for place in _models(folder):
        if (place / "tokenizer.json").is_file():
            try:
                tokenizer = Tokenizer.load(place)
            except AgentRLError:
                continue  # another folder may hold one that can be read; ids are shown else
            return _remembering(tokenizer)
    return lambda token: f"‹{token}›"


def _models(folder: Path) -> list[Path]:
    """Where the tokenizer may lie: the run's own weights, or the model it began from."""
    places = sorted((folder / "weights").glob("v*"), reverse=True)
    try:
        config = tomllib.loads((folder / "config.toml").read_text())
    except (OSError, tomllib.TOMLDecodeError):
        return places
    model = str(config.get("model", ""))
    return [*places, PACKAGED / "tiny" if model == "tiny" else Path(model).expanduser()]


def _remembering(tokenizer: Tokenizer) -> Callable[[int], str]:
    known: dict[int, str] = {}

    def text(token: int) -> str:
        found = known.get(token)
        if found is None:
            found = known[token] = tokenizer.decode([token])
        return found

    return text
