"""A frame of `agentrl watch`, from metric rows to lines; pure, so that one line tests it."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from rich.text import Text

from agentrl.tui.desk import Alert, MetricRow, RunInfo
from agentrl.tui.facts import BAD, DIM, GOOD, MARK, bar, known, seconds, spark
from agentrl.tui.lines import visible

WIDE = 110
"""From this width on there are two columns."""

LEVELS = {"error": BAD, "warn": MARK, "info": ""}


def frame(
    run: RunInfo,
    rows: Sequence[MetricRow],
    alerts: Sequence[Alert],
    failures: Mapping[str, int],
    width: int,
) -> list[Text]:
    """The whole picture at a width of at least 20 cells; what is not known is a dash."""
    width = max(width, 20)
    out = [_head(run, rows, width)]
    if not rows:
        return [*out, Text(" no step has been measured yet", DIM)]
    wide = width >= WIDE
    half = width // 2 - 1 if wide else width
    left = [Text("learning", "bold"), *_learning(rows, half), *_stability(rows, half)]
    right = [Text("time", "bold"), *_use(rows, half), Text("last episodes", "bold")]
    right += [*_failures(failures, half), Text("alerts", "bold"), *_alerts(alerts)]
    if not wide:
        return [*out, *left, *right]
    for one, other in zip_longest(left, right, fillvalue=Text()):
        line = one.copy()
        line.truncate(half, pad=True)
        out.append(line + Text("│ ", DIM) + other)
    return out


def _head(run: RunInfo, rows: Sequence[MetricRow], width: int) -> Text:
    last = rows[-1] if rows else None
    done, of = (last.step, last.of) if last else (run.step, run.of)
    share = done / of if of else 0.0
    state, style = {"running": ("● live", GOOD), "done": ("✓ done", "")}.get(
        run.state, (f"✗ {run.state}", BAD)
    )
    out = Text(no_wrap=True, overflow="ellipsis")
    out.append(f"{visible(run.id)}  ", "bold")
    out.append(state, style)
    out.append(f"  step {done}/{of} {bar(share, max(min(width - 60, 24), 4))} {share:.0%}")
    if run.state == "running" and rows and done < of:
        recent = [_wall(row) for row in rows[-10:]]
        out.append(f"  eta {seconds(sum(recent) / len(recent) * (of - done))}")
    return out


def _line(label: str, value: str, trend: str, note: str = "") -> Text:
    out = Text(no_wrap=True, overflow="ellipsis")
    out.append(f" {label:<14}{value:>14}  ")
    out.append(trend)
    out.append(f"  {note}" if note else "", DIM)
    return out


def _learning(rows: Sequence[MetricRow], width: int) -> list[Text]:
    room = max(width - 50, 8)
    last, recent = rows[-1], rows[-10:]
    taught, groups = sum(row.groups - row.flat for row in recent), sum(row.groups for row in recent)
    rewards = spark(_thinned([row.reward for row in rows], room), 0.0, 1.0)
    bad = spark(_thinned([float(row.malformed) for row in rows], room), 0.0)
    return [
        _line(
            "reward", _measured(last.reward, last.reward_ci), rewards, f"{taught}/{groups} teach"
        ),
        *_heldout(rows, room),
        _line("malformed", str(last.malformed), bad),
    ]


def _stability(rows: Sequence[MetricRow], width: int) -> list[Text]:
    room = max(width - 50, 8)
    return [
        Text("stability", "bold"),
        _stat(rows, "entropy", ("entropy", ".3f"), room),
        _stat(rows, "mismatch", ("mismatch_mean", ".2g"), room, ("mismatch_max", ".2g")),
        _stat(rows, "staleness", ("staleness_mean", ".2f"), room, ("staleness_max", ".0f")),
        _stat(rows, "clipped", ("clip_fraction", ".1%"), room),
        _stat(rows, "grad norm", ("grad_norm", ".3g"), room),
    ]


def _heldout(rows: Sequence[MetricRow], room: int) -> list[Text]:
    measured = [row for row in rows if row.heldout is not None]
    if not measured:
        return [_line("held out", "—", "", "not measured yet")]
    last = measured[-1]
    curve = spark(_thinned([row.heldout for row in measured], room), 0.0, 1.0)
    out = [_line("held out", _measured(last.heldout, last.heldout_ci), curve,
                 f"after step {last.step}")]  # fmt: skip
    if last.heldout_ci is not None:
        low, high = last.heldout_ci
        out.append(
            _line(
                "  95 %",
                f"{low:.2f} … {high:.2f}",
                _whisker(last.heldout or 0.0, last.heldout_ci, room),
            )
        )
    return out


def _whisker(mean: float, ends: tuple[float, float], room: int) -> str:
    """`├──●──┤` on a scale from 0 to 1."""
    cells = [" "] * room
    low, high = (min(int(end * room), room - 1) for end in ends)
    cells[low : high + 1] = "─" * (high - low + 1)
    cells[low], cells[high] = "├", "┤"
    cells[min(int(mean * room), room - 1)] = "●"
    return "".join(cells).rstrip()


def _stat(
    rows: Sequence[MetricRow],
    label: str,
    of: tuple[str, str],
    room: int,
    most: tuple[str, str] | None = None,
) -> Text:
    """A statistic (its name, its format) with its course; `most` is the greatest beside it."""
    values = [row.stats.get(of[0]) for row in rows]
    note = ""
    if most is not None:
        note = f"at most {_shown(rows[-1].stats.get(most[0]), most[1])}"
    return _line(label, _shown(values[-1], of[1]), spark(_thinned(values, room)), note)


def _shown(value: float | None, style: str) -> str:
    return format(value, style) if value is not None and known(value) else "—"


def _use(rows: Sequence[MetricRow], width: int) -> list[Text]:
    """Where the wall time of the last ten steps went."""
    recent = rows[-10:]
    wall = sum(map(_wall, recent)) or 1.0
    parts = [
        ("waiting for rollouts", sum(row.rollout_s for row in recent)),
        ("learning", sum(row.learn_s for row in recent)),
        ("hand-over", sum(row.handover_s for row in recent)),
    ]
    room = max(min(width - 40, 40), 6)
    out = [_line("step", seconds(wall / len(recent)), "",
                 f"{sum(row.tokens for row in recent) / wall:.0f} tokens/s sampled")]  # fmt: skip
    for label, spent in parts:
        share = spent / wall
        out.append(Text(f" {label:<22}{share:>6.0%}  {bar(share, room)}", no_wrap=True))
    return out


def _failures(failures: Mapping[str, int], width: int) -> list[Text]:
    total = sum(failures.values())
    if not total:
        return [Text(" none has ended yet", DIM)]
    room = max(min(width - 34, 40), 6)
    return [
        Text(f" {name:<22}{found:>6}  {bar(found / total, room)}", GOOD if name == "solved" else "")
        for name, found in failures.items()
        if found
    ]


def _alerts(alerts: Sequence[Alert]) -> list[Text]:
    if not alerts:
        return [Text(" none", DIM)]
    out = []
    for alert in sorted(alerts, key=lambda a: (a.until is not None, -a.step)):
        until = f"   resolved s{alert.until}" if alert.until is not None else ""
        text = f" s{alert.step:<5}{alert.level:<6}{alert.rule:<17}{alert.text}{until}"
        out.append(Text(text, DIM if until else LEVELS.get(alert.level, "")))
    return out


def _measured(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None or not known(value):
        return "—"
    half = f" ±{(interval[1] - interval[0]) / 2:.2f}" if interval else ""
    return f"{value:.2f}{half}"


def _wall(row: MetricRow) -> float:
    return row.rollout_s + row.learn_s + row.handover_s


def _thinned(values: Sequence[float | None], room: int) -> list[float | None]:
    """No more than `room` values, each the mean of the known ones it stands for."""
    if len(values) <= room:
        return list(values)
    out: list[float | None] = []
    for cell in range(room):
        part = values[cell * len(values) // room : (cell + 1) * len(values) // room]
        found = [value for value in part if value is not None and known(value)]
        out.append(sum(found) / len(found) if found else None)
    return out
