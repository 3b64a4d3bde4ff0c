"""Short words for rewards, times and sizes. Absent is a dash, and colour is never alone."""

import math
from collections.abc import Sequence

from rich.text import Text

from agentrl.trajectory.records import Trajectory
from agentrl.tui.lines import visible
from agentrl.tui.play import Play

GOOD, BAD, DIM, MARK = "green", "red", "dim", "yellow"
BLOCKS = "▁▂▃▄▅▆▇█"


def known(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def reward_mark(reward: float | None, success: bool, outcome: str | None, stop: str | None) -> Text:
    """`✓ 1.00`, `✗ 0.00`, `— masked`, `● playing`."""
    if reward is not None and known(reward):
        return Text(f"{'✓' if success else '✗'} {reward:.2f}", GOOD if success else BAD)
    if outcome is not None and outcome != "reward":
        return Text(f"— {outcome}", MARK)
    return Text("— unjudged" if stop else "● playing", MARK)


def signed(value: float | None) -> str:
    return f"{value:+.2f}" if value is not None and known(value) else "—"


def seconds(value: float | None) -> str:
    """`0.2s`, `41s`, `6m12s`, `2h13m`."""
    if value is None or not known(value):
        return "—"
    if value < 10:
        return f"{value:.1f}s"
    whole = int(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def count(value: float | None) -> str:
    """`412`, `41.2k`, `1.3M`."""
    if value is None or not known(value):
        return "—"
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}"


def bar(share: float, width: int) -> str:
    """`▇▇░░` with a share from 0 to 1 filled."""
    filled = round(max(0.0, min(share, 1.0)) * width)
    return "▇" * filled + "░" * (width - filled)


def spark(
    values: Sequence[float | None], low: float | None = None, high: float | None = None
) -> str:
    """One block a value between `low` and `high` (else the values' own); unknown is a blank."""
    found = [value for value in values if value is not None and known(value)]
    if not found:
        return " " * len(values)
    floor = min(found) if low is None else low
    span = (max(found) if high is None else high) - floor
    out = ""
    for value in values:
        if value is None or not known(value):
            out += " "
            continue
        share = (value - floor) / span if span > 0 else 0.0
        out += BLOCKS[max(0, min(int(share * len(BLOCKS)), len(BLOCKS) - 1))]
    return out


def sampled(trajectory: Trajectory) -> int:
    return sum(len(step.tokens.sampled) for step in trajectory.steps if step.tokens is not None)


def status(play: Play) -> Text:
    """The one line that stays on screen in every view of an episode."""
    t = play.trajectory
    mean = sum(t.advantages) / len(t.advantages) if t.advantages else None
    outcome = t.verdict.outcome if t.verdict else None
    out = reward_mark(t.reward, t.success, outcome, t.stop)
    last = t.stopped_at or (t.steps[-1].at if t.steps else t.opened_at)
    parts = [
        f"adv {signed(mean)}",
        t.stop or "playing",
        f"{len(t.steps)} turns",
        f"{t.segments} seg",
        f"{count(sampled(t))} tok",
        seconds(last - t.opened_at),
        "not trained" if t.trained_step is None else f"trained s{t.trained_step}",
    ]
    out.append("  " + " · ".join(parts), "")
    if t.verdict is not None and t.verdict.flags:
        out.append("  ⚑ " + visible(" ".join(t.verdict.flags)), MARK)
    if t.error is not None:
        out.append("  ✗ " + visible(t.error.split("\n")[0]), BAD)
    return out
