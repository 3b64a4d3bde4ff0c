"""The viewers' front door: what the verbs call. Screens are imported only when one opens."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentrl.tui.desk import Alert, Decoder, Desk, MetricRow, RunInfo, bare
from agentrl.tui.lines import lines, summary
from agentrl.tui.page import page
from agentrl.tui.sources import FileSource, RunSource, Source
from agentrl.tui.watch_frame import frame as _frame

__all__ = ["desk", "frame", "html", "lines", "replay", "summary", "watch"]


def desk(
    runs: Callable[[], Sequence[tuple[Path, RunInfo]]],
    info: Callable[[Path], RunInfo],
    decoder: Callable[[Path], Decoder],
    rows: Callable[[Path], Sequence[MetricRow]],
    alerts: Callable[[Sequence[MetricRow]], Sequence[Alert]],
) -> Desk:
    """What the screens ask of the outside, by name."""
    return Desk(runs, info, decoder, rows, alerts)


def replay(
    desk: Desk,
    runs: Path,
    run: Path | None,
    *,
    file: Path | None = None,
    episode: str | None = None,
    turn: int | None = None,
    where: str = "",
) -> None:
    """The replay screens, until they are left."""
    from agentrl.tui.app import browse

    browse(desk, runs, run, file=file, episode=episode, turn=turn, where=where).run()


def watch(desk: Desk, folder: Path) -> None:
    """Live training of one run, until it is left."""
    from agentrl.tui.app import Viewer
    from agentrl.tui.watch_screen import WatchScreen

    Viewer(desk, [WatchScreen(desk, folder)]).run()


def frame(
    run: RunInfo,
    rows: Sequence[MetricRow],
    alerts: Sequence[Alert],
    failures: Mapping[str, int],
    width: int,
) -> list[str]:
    """One picture of a run, as plain lines no wider than `width`."""
    out = []
    for line in _frame(run, rows, alerts, failures, width):
        line.truncate(width)
        out.append(line.plain)
    return out


def html(place: Path, episode: str, decoder: Decoder | None) -> str:
    """An episode of a run's folder, or of a file of another tool, as one page."""
    source: Source = RunSource(place) if place.is_dir() else FileSource(place)
    return page(source.episode(episode), place.name, decoder or bare)
