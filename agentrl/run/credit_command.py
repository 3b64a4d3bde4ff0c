"""`agentrl credit`: a stored run under another credit scheme, and where the two differ.

Credit is a pure function of the record, so nothing is played or trained again. What cannot be seen
this way is what another scheme would have made the run collect.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import Struct

from agentrl.credit.base import CreditAssigner, describe, report
from agentrl.credit.mix import built
from agentrl.errors import ConfigError
from agentrl.run.replay import parse_address
from agentrl.run.runs import find_run
from agentrl.trajectory.records import Group, Step, Trajectory
from agentrl.trajectory.store import RunStore

RECORDED = "recorded"
SAME = 1e-9  # differences up to this are rounding
WIDTH = 60  # characters shown of what a step did


class Scheme(Struct, frozen=True):
    """A way to credit a group; None for a member it says nothing about."""

    name: str
    words: str
    assign: Callable[[Group], list[list[float] | None]]
    report: Callable[[Group], dict[str, float]]


class Compared(Struct, frozen=True):
    """One episode under both schemes; one number a step each."""

    episode: Trajectory
    new: list[float]
    old: list[float]

    @property
    def widest(self) -> float:
        return max((abs(a - b) for a, b in zip(self.new, self.old, strict=True)), default=0.0)


def main(args: argparse.Namespace) -> int:
    """Credit a run's groups twice and print the steps at which that makes a difference."""
    new, old = scheme(args.scheme, "--as"), scheme(args.compare, "--compare")
    address = parse_address(args.address)
    if address.step is not None:
        raise ConfigError("a step has no credit without its episode", where=args.address)
    folder = find_run(address.run, args.runs)
    store = RunStore(folder)
    groups = [
        Group(name, members[0].task, tuple(members)) for name, members in store.groups().items()
    ]
    wanted = [group for group in groups if holds(group, address.place)]
    if not wanted:
        raise ConfigError(
            f"no episode or group is called {address.place!r}" if address.place else "no episodes",
            where=str(folder),
            help="`agentrl replay RUN` lists them",
        )
    rows = [row for group in wanted for row in compared(group, new, old)]
    if address.place in {row.episode.id for row in rows}:
        rows = [row for row in rows if row.episode.id == address.place]
    if not rows:
        raise ConfigError(
            "there is nothing to compare: no judged episode was credited",
            where=str(folder),
            help=f"`--compare outcome` computes what the record lacks; it was `{old.name}`",
        )
    told = answer(folder, new, old, wanted, rows)
    if args.json:
        print(json.dumps(told | {"episodes": [episode(row) for row in rows]}))
        return 0
    shown = sorted(rows, key=lambda row: -row.widest)[: args.limit]
    print("\n".join([*head(told), *(line for row in shown for line in lines(row, new, old))]))
    if not args.quiet:
        print(f"{len(shown)} of {len(rows)} episodes, most different first", file=sys.stderr)
    return 0


def scheme(text: str, flag: str) -> Scheme:
    """`recorded`, a plug-in's name, or one with options: `anchor {discount = 0.9}`."""
    if text.strip() == RECORDED:
        told = "what the run was trained with, as last recorded"
        return Scheme(RECORDED, told, recorded, lambda group: {})
    name, brace, options = text.partition("{")
    try:
        own = tomllib.loads(f"own = {{{options}")["own"] if brace else {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"the options of a scheme are not TOML: {error}",
            where=f"{flag} {text}",
            help='write them as `anchor {discount = 0.9, std = "unbiased"}`',
        ) from None
    credit: CreditAssigner = built({"type": name.strip(), **own}, flag)[2]
    return Scheme(
        text.strip(),
        describe(credit),
        lambda group: list(credit.assign(group)),
        lambda group: report(credit, group),
    )


def recorded(group: Group) -> list[list[float] | None]:
    """What was credited when the run was made; None where nothing was."""
    return [
        list(member.advantages) if len(member.advantages) == len(member.steps) else None
        for member in group.members
    ]


def holds(group: Group, place: str) -> bool:
    """Whether a place is in the group; held-out tasks teach nobody, so they must be asked for."""
    if not place:
        return group.task.meta.get("split") != "held_out"
    return group.id == place or any(member.id == place for member in group.members)


def compared(group: Group, new: Scheme, old: Scheme) -> Iterator[Compared]:
    """The judged members that both schemes say something about."""
    for member, one, other in zip(group.members, new.assign(group), old.assign(group), strict=True):
        if member.reward is not None and member.steps and one is not None and other is not None:
            yield Compared(member, one, other)


def answer(
    folder: Path, new: Scheme, old: Scheme, groups: Sequence[Group], rows: Sequence[Compared]
) -> dict[str, Any]:
    """The summary; `--json` adds the episodes."""
    pairs = [pair for row in rows for pair in zip(row.new, row.old, strict=True)]
    return {
        "run": folder.name,
        "dir": str(folder),
        "as": {"name": new.name, "words": new.words, "report": means(new, groups)},
        "compare": {"name": old.name, "words": old.words, "report": means(old, groups)},
        "groups": len(groups),
        "steps": len(pairs),
        "differ": sum(abs(a - b) > SAME for a, b in pairs),
        "other_sign": sum(a * b < 0 for a, b in pairs),
        "largest": max(row.widest for row in rows),
        "correlation": correlation(pairs),
    }


def means(which: Scheme, groups: Sequence[Group]) -> dict[str, float]:
    """A scheme's reports, each the mean over the groups that gave it."""
    found: dict[str, list[float]] = {}
    for group in groups:
        for name, value in which.report(group).items():
            found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's, over all steps; None where one of the two never changes."""
    one, other = fmean(a for a, _ in pairs), fmean(b for _, b in pairs)
    both = sum((a - one) * (b - other) for a, b in pairs)
    spread = sum((a - one) ** 2 for a, _ in pairs) * sum((b - other) ** 2 for _, b in pairs)
    return both / spread**0.5 if spread > 0 else None


def episode(row: Compared) -> dict[str, Any]:
    """An episode in `--json`."""
    t = row.episode
    steps = [
        {"step": step.index, "as": a, "compare": b, "difference": a - b, "did": did(step)}
        for step, a, b in zip(t.steps, row.new, row.old, strict=True)
    ]
    return {"id": t.id, "group": t.group, "reward": t.reward, "largest": row.widest, "steps": steps}


def head(told: dict[str, Any]) -> list[str]:
    r = told["correlation"]
    lines = [f"{told['run']}   {told['as']['name']} against {told['compare']['name']}"]
    for key in ("as", "compare"):
        lines.append(f"  {told[key]['name']}: {told[key]['words']}")
        reported = told[key]["report"].items()
        lines += [f"    {name} {value:.3g}" for name, value in reported]
    share = f"{told['differ']} of {told['steps']} steps differ"
    return [
        *lines,
        f"{share}, {told['other_sign']} in sign; largest difference {told['largest']:.3f}; "
        f"correlation {'—' if r is None else f'{r:.3f}'}; {told['groups']} groups",
    ]


def lines(row: Compared, new: Scheme, old: Scheme) -> Iterable[str]:
    """An episode step by step; `!` marks a step the two push in opposite directions."""
    t = row.episode
    yield ""
    yield f"{t.id}  reward {t.reward:g}  {printable(t.task.id)}"
    names = [printable(which.name.partition("{")[0].strip())[:10] for which in (new, old)]
    yield f"  step {names[0]:>10} {names[1]:>10} {'difference':>10}"
    for step, a, b in zip(t.steps, row.new, row.old, strict=True):
        mark = "!" if a * b < 0 else " " if abs(a - b) > SAME else "="
        apart = f"{a - b:+10.3f}" if mark != "=" else f"{'':>10}"
        yield f"  {step.index:>4} {a:+10.3f} {b:+10.3f} {apart} {mark} {did(step)}".rstrip()


def did(step: Step) -> str:
    """What a step did, in a line: its first call, or its words."""
    who = "" if step.by == "agent" else f"[{step.by}] "
    if step.reply.calls:
        call = step.reply.calls[0]
        told = f"{call.name} {' '.join(str(value) for value in call.arguments.values())}"
        more = f" (+{len(step.reply.calls) - 1})" if len(step.reply.calls) > 1 else ""
        return printable(f"{who}{told}"[:WIDTH]) + more
    return printable(f"{who}{step.reply.content}"[:WIDTH])


def printable(text: str) -> str:
    """One line, and nothing a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text).strip()
