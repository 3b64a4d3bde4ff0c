"""`agentrl watch`: how a run goes, live, from its files alone."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from agentrl.run.alerts import Alert, alerts
from agentrl.run.looks import metric_rows
from agentrl.run.metrics import StepRow, plain_line
from agentrl.run.replay import desk_of, on_a_terminal
from agentrl.run.runs import find_run, read_run
from agentrl.trajectory.index import Index
from agentrl.trajectory.outcomes import classes

POLL_S = 1.0
LEVELS = ("info", "warn", "error")


def main(args: argparse.Namespace) -> int:
    """Watch a run: on a terminal a screen, else a line a step until the run ends.

    `--once` prints one frame, `--json` one object. Exit 1 where `--fail-on LEVEL` finds an open
    alert of that level or above.
    """
    folder = find_run(args.run, args.runs)
    if args.json:
        print(json.dumps(picture(folder)))
    elif args.once:
        _frame(args, folder)
    elif on_a_terminal(args):
        args.viewer.watch(desk_of(args), folder)
    else:
        _follow(folder, args.quiet)
    return _code(folder, args.fail_on)


def picture(folder: Path) -> dict[str, Any]:
    """Everything a frame shows, as `--json` has it."""
    run, rows = read_run(folder), metric_rows()(folder)
    last = rows[-1] if rows else None
    held = [row for row in rows if row.heldout is not None]
    return {
        "run": run.id,
        "dir": str(folder),
        "state": run.state,
        "step": last.step if last else run.step,
        "of": last.of if last else run.of,
        "reward": last.reward if last else None,
        "reward_ci": last.reward_ci if last else None,
        "heldout": held[-1].heldout if held else None,
        "heldout_ci": held[-1].heldout_ci if held else None,
        "heldout_step": held[-1].step if held else None,
        "stats": {} if last is None else _finite(last.stats),
        "use": use(rows[-10:]),
        "failures": classes(_settled(folder).columns),
        "alerts": [msgspec.to_builtins(alert) for alert in alerts(rows)],
    }


def use(rows: list[StepRow]) -> dict[str, float | None]:
    """Shares of the wall time of these steps."""
    spent = {
        "rollout": sum(row.rollout_s for row in rows),
        "learn": sum(row.learn_s for row in rows),
        "handover": sum(row.handover_s for row in rows),
    }
    wall = sum(spent.values())
    return {name: round(value / wall, 4) if wall else None for name, value in spent.items()}


def _finite(stats: dict[str, float]) -> dict[str, float | None]:
    return {name: value if value == value else None for name, value in stats.items()}


def _settled(folder: Path) -> Index:
    index = Index(folder)
    index.settle()
    return index


def _frame(args: argparse.Namespace, folder: Path) -> None:
    rows = metric_rows()(folder)
    failures = classes(_settled(folder).columns)
    for line in args.viewer.frame(read_run(folder), rows, alerts(rows), failures, 80):
        print(line.rstrip())


def _follow(folder: Path, quiet: bool) -> None:
    """Steps and alerts as `key=value` lines, from the first on, until nobody writes any more."""
    look = metric_rows()
    last, told = 0, set[tuple[str, int, int | None]]()
    while True:
        ended = read_run(folder).state != "running"
        rows = look(folder)
        for row in rows:
            if row.step > last and not quiet:
                print(plain_line(row), flush=True)
            last = max(last, row.step)
        for alert in alerts(rows):
            mark = (alert.rule, alert.step, alert.until)
            if mark not in told:
                told.add(mark)
                print(_alert_line(alert), flush=True)
        if ended:
            run = read_run(folder)
            print(f"state={run.state} step={run.step} of={run.of}", file=sys.stderr)
            return
        time.sleep(POLL_S)


def _alert_line(alert: Alert) -> str:
    until = "" if alert.until is None else f" until={alert.until}"
    said = json.dumps(alert.text, ensure_ascii=False)
    return f"alert={alert.rule} level={alert.level} step={alert.step}{until} text={said}"


def _code(folder: Path, fail_on: str | None) -> int:
    if fail_on is None:
        return 0
    floor = LEVELS.index(fail_on)
    found = alerts(metric_rows()(folder))
    return int(any(a.until is None and LEVELS.index(a.level) >= floor for a in found))
