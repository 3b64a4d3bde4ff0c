"""A frame of `agentrl watch`, from metric rows to lines; pure, so that one line tests it."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from agentrl.tui.desk import Alert, MetricRow, RunInfo
from agentrl.tui.facts import BAD, DIM, GOOD, MARK, bar, known, seconds, spark
from agentrl.tui.lines import visible

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
    room = max(width - 40, 8)
    out += [Text(""), Text("learning", "bold")]
    out += _reward(rows, room)
    out += _heldout(rows, room)
    out += [Text(""), Text("stability", "bold")]
    for label, name, style in (
        ("entropy", "entropy", ".3f"),
        ("mismatch", "mismatch_mean", ".2g"),
        ("mismatch max", "mismatch_max", ".2g"),
        ("clipped", "clip_fraction", ".1%"),
        ("grad norm", "grad_norm", ".3g"),
        ("staleness", "staleness_mean", ".2f"),
        ("staleness max", "staleness_max", ".0f"),
    ):
        out.append(_stat(rows, label, name, style, room))
    out += [Text(""), Text("time", "bold"), *_use(rows, width)]
    out += [Text(""), Text("last episodes", "bold"), *_failures(failures, width)]
    return [*out, Text(""), Text("alerts", "bold"), *_alerts(alerts)]


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


def _reward(rows: Sequence[MetricRow], room: int) -> list[Text]:
    last = rows[-1]
    taught = sum(row.groups - row.flat for row in rows[-10:])
    groups = sum(row.groups for row in rows[-10:])
    value = _measured(last.reward, last.reward_ci)
    curve = spark(_thinned([row.reward for row in rows], room), 0.0, 1.0)
    note = f"groups that teach: {taught}/{groups} of the last {len(rows[-10:])} steps"
    return [
        _line("reward", value, curve),
        _line("malformed", str(last.malformed), spark(_thinned(
            [float(row.malformed) for row in rows], room), 0.0)),
        Text(f" {note}", DIM),
    ]  # fmt: skip


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


def _stat(rows: Sequence[MetricRow], label: str, name: str, style: str, room: int) -> Text:
    values = [row.stats.get(name) for row in rows]
    last = values[-1]
    shown = format(last, style) if last is not None and known(last) else "—"
    return _line(label, shown, spark(_thinned(values, room)))


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
