"""Every screen at a size, as text. `python -m tests.tui.pictures` draws the kept ones anew:
look at them before they are committed."""

import asyncio
import os
import tempfile
from pathlib import Path

from agentrl.trajectory import index
from tests.tui.desktop import LARGE, SMALL, settled, viewer
from tests.tui.recorded import record

KEPT = Path(__file__).parent / "screens"
WALK = (
    ("runs", []),
    ("config", ["C"]),
    ("watch", ["q", "w"]),
    ("episodes", ["q", "enter"]),
    ("sorted", ["s", "u"]),
    ("turns", ["s", "S", "S", "u", "u", "u", "u", "u", "g", "enter"]),
    ("marked turn", ["l"]),
    ("tokens", ["3"]),
    ("advantage", ["V"]),
    ("context", ["4", "l"]),
    ("diff", ["d"]),
    ("tree", ["b"]),
    ("help", ["question_mark"]),
)
"""A picture's name, and the keys pressed since the one before it."""


async def pictures(runs: Path, size: tuple[int, int]) -> dict[str, str]:
    out: dict[str, str] = {}
    app = viewer(runs)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for name, keys in WALK:
            await pilot.press(*keys)
            out[name] = await settled(pilot)
    return out


def joined(found: dict[str, str]) -> str:
    return "\n".join(f"==== {name}\n{text}" for name, text in found.items()) + "\n"


def kept(size: tuple[int, int]) -> Path:
    return KEPT / f"{size[0]}x{size[1]}.txt"


def draw() -> None:
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        index.load(record(Path("runs")))
        for size in (SMALL, LARGE):
            kept(size).write_text(joined(asyncio.run(pictures(Path("runs"), size))))


if __name__ == "__main__":
    draw()
