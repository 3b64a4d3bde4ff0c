"""The runs there are: state, step, reward; the first screen."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static

from agentrl.tui.desk import Desk, MetricRow, RunInfo
from agentrl.tui.facts import BAD, GOOD, MARK, known, spark
from agentrl.tui.lines import visible
from agentrl.tui.rows import Rows
from agentrl.tui.text_screen import TextScreen

MARKS = {
    "running": ("● live", GOOD),
    "done": ("✓ done", ""),
    "failed": ("✗ failed", BAD),
    "dead": ("✗ dead", BAD),
}
LOOK_S = 2.0


class RunsScreen(Screen[None]):
    """One line a run, newest first. Posts `Open` and `Watch` for the run under the cursor."""

    CSS = """
    RunsScreen #top { height: 1; background: $panel; }
    RunsScreen #selected { height: auto; max-height: 4; border-top: solid $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "watch", "watch", id="runs.watch"),
        Binding("C", "config", "config", id="runs.config"),
        Binding("slash", "app.find", "find", id="find"),
        Binding("q", "app.back", "quit", id="back"),
    ]

    class Open(Message):
        def __init__(self, folder: Path) -> None:
            super().__init__()
            self.folder = folder

    class Watch(Open):
        """Live training of this run."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        super().__init__()
        self._desk, self._folder = desk, folder
        self._runs: list[tuple[Path, RunInfo]] = []
        self._metrics: dict[Path, Sequence[MetricRow]] = {}
        self._wanted = ""

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        yield Rows(id="runs")
        yield Static(id="selected")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.look()
        self.set_interval(LOOK_S, self.look)

    def look(self) -> None:
        """Read the folder again; the cursor stays on its run."""
        rows = self.query_one("#runs", Rows)
        before = self._runs[rows.row][0] if rows.row < len(self._runs) else None
        found = list(reversed(self._desk.runs()))
        self._runs = [pair for pair in found if self._wanted in pair[1].id]
        places = [path for path, _ in self._runs]
        for path, run in self._runs:
            if path not in self._metrics or run.state == "running":
                self._metrics[path] = self._desk.rows(path)
        row = places.index(before) if before in places else 0
        rows.show(_RunLines(self._runs, self._metrics), row, Text(_head()))
        live = sum(run.state == "running" for _, run in self._runs)
        title = f" agentrl replay   {self._folder}/  {len(self._runs)} runs  {live} live"
        title += f"   filter: {self._wanted}" if self._wanted else ""
        self.query_one("#top", Static).update(Text(title, no_wrap=True), layout=False)
        self._tell(rows.row)

    def find(self, text: str) -> None:
        """Only runs whose id contains this."""
        self._wanted = text
        self.look()

    def _tell(self, row: int) -> None:
        told = Text("no runs here: `agentrl train --env terminal` makes one")
        if row < len(self._runs):
            path, run = self._runs[row]
            told = Text(f" {visible(run.id)}   {visible(str(path))}\n", no_wrap=True)
            rows = self._metrics[path]
            held = [r for r in rows if r.heldout is not None]
            told.append(f" held out: {_held(held)}   steps measured: {len(rows)}")
        self.query_one("#selected", Static).update(told)

    def on_rows_moved(self, event: Rows.Moved) -> None:
        self._tell(event.row)

    def on_rows_chosen(self, event: Rows.Chosen) -> None:
        if event.row < len(self._runs):
            self.post_message(self.Open(self._runs[event.row][0]))

    def action_watch(self) -> None:
        row = self.query_one("#runs", Rows).row
        if row < len(self._runs):
            self.post_message(self.Watch(self._runs[row][0]))

    def action_config(self) -> None:
        row = self.query_one("#runs", Rows).row
        if row >= len(self._runs):
            return
        file = self._runs[row][0] / "config.toml"
        text = file.read_text() if file.is_file() else "this run has no config.toml"
        self.app.push_screen(TextScreen(f" {file}", text))


def _held(rows: Sequence[MetricRow]) -> str:
    if not rows or rows[-1].heldout is None:
        return "not measured yet"
    last = rows[-1]
    ends = last.heldout_ci
    interval = f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else ""
    return f"{last.heldout:.2f}{interval} after step {last.step}"


class _RunLines:
    def __init__(
        self, runs: Sequence[tuple[Path, RunInfo]], metrics: dict[Path, Sequence[MetricRow]]
    ) -> None:
        self._runs, self._metrics = runs, metrics

    def __len__(self) -> int:
        return len(self._runs)

    def line(self, row: int, width: int) -> Text:
        path, run = self._runs[row]
        mark, style = MARKS.get(run.state, (f"∥ {run.state}", MARK))
        rewards = [r.reward for r in self._metrics[path]]
        last = next((r for r in reversed(rewards) if r is not None and known(r)), None)
        out = Text()
        out.append(f"{mark:<13}", style)
        out.append(f"{run.step:>5}/{run.of:<5}")
        out.append(f"{'—' if last is None else f'{last:.2f}':>6} ")
        out.append(f"{spark(rewards[-8:], 0.0, 1.0):<9}")
        out.append(visible(run.id))
        return out


def _head() -> str:
    return f"{'state':<13}{'step':>5} of   {'reward':>6} {'':<9}run"
