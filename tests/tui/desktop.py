"""A viewer over the recorded run, and its screen as text."""

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from agentrl.run.alerts import alerts
from agentrl.run.looks import metric_rows
from agentrl.run.runs import list_runs, read_run
from agentrl.tui.app import Viewer, browse
from agentrl.tui.desk import Desk

SMALL, LARGE = (80, 24), (160, 48)
WORDS = ["count", " the", " words", " of", " file", "\n", "<|im_end|>", " é", " 3", "."]


def desk(runs: Path) -> Desk:
    """The real one, but for the tokenizer: ten words, whatever the shipped model says."""
    return Desk(
        lambda: list_runs(runs),
        read_run,
        lambda folder: lambda token: WORDS[token % len(WORDS)],
        metric_rows(),
        alerts,
    )


def viewer(runs: Path, run: Path | None = None, **place: Any) -> Viewer:
    return browse(desk(runs), runs, run, **place)


async def settled(pilot: Pilot[None]) -> str:
    """The screen once two looks at it are alike: the footer follows the focus a little later."""
    before = ""
    for _ in range(100):
        await pilot.pause()
        text = shown(pilot.app)  # type: ignore[arg-type]
        if text == before and text.split("\n")[-1].strip():
            return text
        before = text
    raise AssertionError(f"the screen does not come to rest:\n{before}")


def shown(app: Viewer) -> str:
    """What stands on the screen, without colours and trailing blanks."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)
