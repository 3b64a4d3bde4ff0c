"""`agentrl compare`: measurements of the same tasks, paired task by task."""

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from agentrl.errors import ConfigError
from agentrl.run.answer import number
from agentrl.run.contest import Difference, difference, holm
from agentrl.run.measured import Measurement, Played, find, settings
from agentrl.run.passes import pass_all, pass_at
from agentrl.run.tables import columns

Value = Callable[[Played], float]

IGNORED = ("output", "model")
"""Keys whose difference says nothing beyond the sides' names."""


def main(args: argparse.Namespace) -> int:
    """Print the comparison; exit 1 where `--fail-on` says so, 2 where tasks are not the same."""
    if len(args.sides) < 2:
        raise ConfigError("name two measurements", help="`agentrl compare A B`; `agentrl runs`")
    if not 0 < args.alpha < 1:
        raise ConfigError("alpha lies between 0 and 1", where=f"--alpha {args.alpha:g}")
    sides = [find(spec, args.runs) for spec in args.sides]
    keys = same_tasks(sides, args.common)
    answer = compare(sides, keys, args.alpha)
    if args.json:
        print(json.dumps(answer))
    else:
        print("\n".join(text(answer)))
        if not args.quiet:
            print(f"next: agentrl replay {sides[-1].folder.name[-4:]}", file=sys.stderr)
    return failed(answer, args.fail_on)


def failed(answer: Mapping[str, Any], fail_on: str | None) -> int:
    """1 where success decisively fell (`regress`), or moved either way (`any`)."""
    for comparison in answer["comparisons"]:
        success = comparison["metrics"][0]
        moved = success["decisive"]
        if moved and (fail_on == "any" or (fail_on == "regress" and success["difference"] < 0)):
            return 1
    return 0


def same_tasks(sides: Sequence[Measurement], common: bool) -> list[str]:
    """The contents every side has judged, in the first side's order. Raises ConfigError.

    Without `common` every side must have been given the same tasks, and have played them all.
    """
    for side in sides:
        if side.unplayed and not common:
            raise ConfigError(
                f"{side.address} stopped with {side.unplayed} episodes unplayed",
                where=side.address,
                help=f"`agentrl resume {side.folder.name[-4:]}`, or --common",
            )
    for a, b in pairwise(sides):
        if a.tasks.keys() != b.tasks.keys() and not common:
            raise ConfigError(
                not_the_same(a, b),
                where=f"{a.address} and {b.address}",
                help="measure both on the same tasks (same --env, --eval.tasks, --eval.seed or "
                "--suite), or --common",
            )
    shared = [key for key in sides[0].tasks if all(key in side.tasks for side in sides)]
    if not shared:
        names = " and ".join(side.address for side in sides)
        raise ConfigError("there is no task that all of them played", where=names)
    judged = [key for key in shared if all(side.tasks[key].judged() for side in sides)]
    if not judged:
        raise ConfigError("no task was judged on every side: the host broke them all")
    return judged


def not_the_same(a: Measurement, b: Measurement) -> str:
    """In what way two sets of tasks differ, in one sentence."""
    shared = len(a.tasks.keys() & b.tasks.keys())
    ids = {one.id for one in a.tasks.values()} & {one.id for one in b.tasks.values()}
    changed = len(ids) - shared
    contents = f", {changed} have the same name but other contents" if changed > 0 else ""
    return (
        f"these are not the same tasks: {len(a.tasks)} and {len(b.tasks)}, "
        f"{shared} in common{contents}"
    )


def metrics(sides: Sequence[Measurement], keys: Sequence[str]) -> dict[str, tuple[Value, bool]]:
    """Name -> (value of a task, whether it lies in 0..1)."""
    least = min(len(side.tasks[key].judged()) for side in sides for key in keys)
    found: dict[str, tuple[Value, bool]] = {
        "success": (lambda p: pass_at(*tally(p), 1), True),
    }
    if least > 1:
        found[f"pass@{least}"] = (lambda p: pass_at(*tally(p), least), True)
        found[f"pass^{least}"] = (lambda p: pass_all(*tally(p), least), True)
    found["turns"] = (lambda p: mean([one.turns for one in p.judged()]), False)
    found["tokens"] = (lambda p: mean([one.tokens for one in p.judged()]), False)
    return found


def tally(played: Played) -> tuple[int, int]:
    judged = played.judged()
    return len(judged), sum(one.success is True for one in judged)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def compare(sides: Sequence[Measurement], keys: Sequence[str], alpha: float) -> dict[str, Any]:
    """What `compare --json` prints: every side against the first, Holm's correction over them."""
    first, others = sides[0], sides[1:]
    kinds = metrics(sides, keys)
    rows = [[_metric(first, other, keys, name, *kinds[name]) for name in kinds] for other in others]
    corrected = holm([found[0][1].p for found in rows])
    comparisons = []
    for other, found, p in zip(others, rows, corrected, strict=True):
        head = found[0][0]
        head["p_holm"] = number(p)
        head["decisive"] = found[0][1].decisive(alpha) and p <= alpha
        for row, paired in found[1:]:
            row["decisive"] = paired.decisive(alpha)
        comparisons.append(
            {
                "a": first.address,
                "b": other.address,
                "metrics": [row for row, _ in found],
                **flips(first, other, keys),
                "config": differences(first, other),
            }
        )
    return {
        "sides": [_side(side, keys) for side in sides],
        "tasks": len(keys),
        "comparisons": comparisons,
        "verdict": [sentence for one in comparisons for sentence in verdict(one)],
    }


def _side(side: Measurement, keys: Sequence[str]) -> dict[str, Any]:
    tries = [one for key in keys for one in side.tasks[key].tries.values()]
    every = [one for played in side.tasks.values() for one in played.tries.values()]
    return {
        "name": side.address,
        "policy": side.policy,
        "tries": side.tries,
        "tasks": len(side.tasks),
        "masked": sum(one.success is None for one in every),
        "timeouts": sum(one.stop == "time" and one.success is not None for one in tries),
    }


def _metric(
    a: Measurement, b: Measurement, keys: Sequence[str], name: str, value: Value, bounded: bool
) -> tuple[dict[str, Any], Difference]:
    before = [value(a.tasks[key]) for key in keys]
    after = [value(b.tasks[key]) for key in keys]
    single = bounded and all(len(side.tasks[key].judged()) == 1 for side in (a, b) for key in keys)
    families = [a.tasks[key].family for key in keys]
    found = difference(before, after, families, single=single, bounded=bounded)
    row = {
        "metric": name,
        "a": number(mean(before)),
        "b": number(mean(after)),
        "difference": number(found.change.mean),
        "ci95": [None if math.isinf(end) else number(end) for end in found.change.ci95],
        "p": number(found.p),
        "test": found.test,
        "interval": found.change.method,
        "wins": found.wins,
        "ties": found.ties,
        "losses": found.losses,
        "smallest_difference": None if found.smallest is None else number(found.smallest),
    }
    return row, found


def flips(a: Measurement, b: Measurement, keys: Sequence[str]) -> dict[str, list[str]]:
    """Tasks that went from never to always solved, and the other way."""
    share = [(key, _share(a.tasks[key]), _share(b.tasks[key])) for key in keys]
    return {
        "fixed": [a.tasks[key].id for key, x, y in share if (x, y) == (0.0, 1.0)],
        "broke": [a.tasks[key].id for key, x, y in share if (x, y) == (1.0, 0.0)],
    }


def _share(played: Played) -> float:
    n, c = tally(played)
    return c / n


def differences(a: Measurement, b: Measurement) -> dict[str, list[Any]]:
    old, new = settings(a.folder), settings(b.folder)
    return {
        key: [old.get(key), new.get(key)]
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key not in IGNORED
    }


def verdict(comparison: Mapping[str, Any]) -> list[str]:
    """What the numbers say, and what they cannot say."""
    success, *costs = comparison["metrics"]
    a, b = comparison["a"], comparison["b"]
    found = []
    if success["decisive"]:
        way = "more" if success["difference"] > 0 else "fewer"
        found.append(f"{b} solves {way} of these tasks than {a}: decisive.")
    else:
        least = success["smallest_difference"]
        shows = "no difference" if least is None else f"differences of {least:.2f} or more"
        found.append(f"{b} against {a}: not decisive. These tasks can show {shows}.")
    for row in costs:
        if row["metric"] in ("turns", "tokens") and row["decisive"]:
            way = "fewer" if row["difference"] < 0 else "more"
            found.append(f"{b} takes {way} {row['metric']}: decisive.")
    return found


def text(answer: Mapping[str, Any]) -> list[str]:
    """The comparison as a person reads it."""
    out = []
    for letter, side in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", answer["sides"], strict=False):
        broken = f", {side['masked']} episodes broken by the host" if side["masked"] else ""
        times = f", {side['timeouts']} time-outs" if side["timeouts"] else ""
        out.append(
            f"{letter}  {side['name']}   {side['policy']}   × {side['tries']}{broken}{times}"
        )
    for one in answer["comparisons"]:
        out += ["", f"{one['b']} against {one['a']}, paired on {answer['tasks']} tasks", ""]
        head = ["", "A", "B", "B−A", "95 %", "wins/ties/losses", "p", "smallest"]
        rows = [head, *map(row, one["metrics"])]
        success = one["metrics"][0]
        out += columns(rows)
        out.append(f"p: {success['test']}; interval: {success['interval']}")
        out.append("smallest: the difference this comparison finds with 80 % power")
        if len(answer["comparisons"]) > 1:
            out.append(
                f"p of success corrected for all comparisons (Holm): {success['p_holm']:.3g}"
            )
        for name, tasks in (("fixed", one["fixed"]), ("broke", one["broke"])):
            if tasks:
                more = f" and {len(tasks) - 5} more" if len(tasks) > 5 else ""
                out.append(f"{name} {len(tasks)}: {', '.join(tasks[:5])}{more}")
        if one["config"]:
            told = [f"{key} {old} → {new}" for key, (old, new) in one["config"].items()]
            out.append(f"config: {' · '.join(told)}")
    return [*out, "", *answer["verdict"]]


def row(row: Mapping[str, Any]) -> list[str]:
    form = "{:.1f}" if row["metric"] in ("turns", "tokens") else "{:.2f}"

    def shown(value: float | None, sign: str = "") -> str:
        return "—" if value is None else form.replace(":", f":{sign}").format(value)

    low, high = row["ci95"]
    mark = " *" if row["decisive"] else ""
    return [
        row["metric"],
        shown(row["a"]),
        shown(row["b"]),
        shown(row["difference"], "+") + mark,
        f"{shown(low, '+')} to {shown(high, '+')}",
        f"{row['wins']}/{row['ties']}/{row['losses']}",
        f"{row['p']:.3g}",
        shown(row["smallest_difference"]),
    ]
