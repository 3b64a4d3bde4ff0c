"""A run's curves: as SVG where matplotlib is installed, and always as text."""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.run.intervals import Estimate
from agentrl.run.metrics import StepRow, curve
from agentrl.run.page import Figure

PANELS = {
    "entropy": "entropy, nats a token",
    "turns": "turns an episode",
    "grad_norm": "gradient norm",
    "staleness_mean": "staleness, steps",
}
"""Statistics worth a curve of their own, where a run has them."""


def learning(rows: Sequence[StepRow], held_out: Mapping[int, Estimate]) -> list[Figure]:
    """Reward and held-out success with their 95 % intervals, then the learner's statistics."""
    if not rows:
        return []
    title = "Mean reward of training episodes and success on held-out tasks, with 95 % intervals"
    known = [row for row in rows if row.step not in held_out]
    marks = [StepRow(step=s, of=rows[-1].of, heldout=e.mean) for s, e in held_out.items()]
    text = curve(sorted([*rows, *marks], key=lambda row: row.step) if known or marks else rows)
    if not drawable():
        return [Figure(title, text)]
    panels = [name for name in PANELS if any(name in row.stats for row in rows)]
    return [
        Figure(title, text, success(rows, held_out)),
        *(Figure(PANELS[name], _text(rows, name), panel(rows, name)) for name in panels),
    ]


def drawable() -> bool:
    """Whether matplotlib is there."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def success(rows: Sequence[StepRow], held_out: Mapping[int, Estimate]) -> str:
    figure, axes = _axes(3.2)
    points = [(row.step, row.reward, row.reward_ci) for row in rows if row.reward is not None]
    steps = [step for step, _, _ in points]
    axes.plot(steps, [mean for _, mean, _ in points], color="#1f77b4", label="reward")
    banded = [(step, ci) for step, _, ci in points if ci is not None]
    if banded:
        low, high = zip(*(ci for _, ci in banded), strict=True)
        axes.fill_between([step for step, _ in banded], low, high, alpha=0.2, linewidth=0)
    sure = {step: one for step, one in held_out.items() if not math.isnan(one.mean)}
    if sure:
        means = [one.mean for one in sure.values()]
        below = [one.mean - one.ci95[0] for one in sure.values()]
        above = [one.ci95[1] - one.mean for one in sure.values()]
        axes.errorbar(
            list(sure), means, [below, above], fmt="D", color="#d62728", capsize=3,
            label="held-out success",
        )  # fmt: skip
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("0 … 1")
    axes.legend(loc="best", frameon=False)
    return _svg(figure)


def panel(rows: Sequence[StepRow], name: str) -> str:
    figure, axes = _axes(1.8)
    points = [(row.step, row.stats[name]) for row in rows if name in row.stats]
    axes.plot([step for step, _ in points], [value for _, value in points], color="#1f77b4")
    axes.set_ylabel(name)
    return _svg(figure)


def _text(rows: Sequence[StepRow], name: str) -> str:
    values = [row.stats[name] for row in rows if name in row.stats]
    return f"{name}: first {values[0]:.4g}, last {values[-1]:.4g}, " + (
        f"least {min(values):.4g}, most {max(values):.4g}"
    )


def _axes(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(8, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel("optimizer step")
    axes.grid(alpha=0.25)
    return figure, axes


def _svg(figure: Any) -> str:
    """The `<svg>` element alone; text stays text, and the same data give the same bytes."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "agentrl"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
