"""A run written up: what was asked, how it learned, what it was worth, what it looked like.

Everything is read from the run's folder; nothing is written into it but the index, a cache.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentrl.config import RunConfig, load
from agentrl.run import compare_command, figures, plan, tables
from agentrl.run.intervals import Estimate, rate
from agentrl.run.measured import Measurement, Played, Try, read_all, settings
from agentrl.run.metrics import MetricsFile
from agentrl.run.page import Block, Heading, Table, Text, Transcript
from agentrl.run.passes import pass_at
from agentrl.run.runs import RunFile, read_run
from agentrl.run.words import in_words
from agentrl.trajectory import index
from agentrl.trajectory.events import Replied
from agentrl.trajectory.fold import fold
from agentrl.trajectory.records import Trajectory
from agentrl.trajectory.store import RunStore
from agentrl.trajectory.tokens import TokenReader

Lines = Callable[[Trajectory], list[str]]

LONGEST = 40_000
"""Characters of one transcript; what is longer is cut, and says so."""
MOST = 2_000_000
"""Characters of all transcripts, so that the page stays below five megabytes."""


class Told(Struct, frozen=True):
    """A run as it is read for its report."""

    folder: Path
    run: RunFile
    config: RunConfig
    passes: dict[int, dict[str, Played]]  # held-out passes by step
    answer: dict[str, Any] | None  # of an evaluation


def read(folder: Path) -> Told:
    """Raises ConfigError where the folder holds no run."""
    run = read_run(folder)
    file = folder / plan.ANSWER
    answer = json.loads(file.read_bytes()) if file.is_file() else None
    return Told(folder, run, load(base=folder / "config.toml").config, read_all(folder), answer)


def blocks(told: Told, lines: Lines, examples: int) -> list[Block]:
    """The whole report."""
    return [
        *asked(told),
        *curves(told),
        *results(told),
        *ends(told),
        *episodes(told, lines, examples),
        *made_with(told),
    ]


def asked(told: Told) -> Iterator[Block]:
    run = told.run
    why = f": {run.why}" if run.why else ""
    began = time.strftime("%Y-%m-%d %H:%M %z", time.localtime(run.created))
    training = not is_evaluation(told)
    step = f" at step {run.step} of {run.of}" if training else ""
    yield Text((f"{run.state}{step}{why}; began {began}. Typed: `{' '.join(run.command)}`",))
    yield Heading("What was asked")
    who = () if training else (f"Measured: `{plan.read(told.folder).player.name}`.",)
    yield Text((*who, *in_words(told.config, training)))
    origins_file = told.folder / "config.origin.json"
    origins = json.loads(origins_file.read_bytes()) if origins_file.is_file() else {}
    if origins:
        values = dict(settings(told.folder))
        rows = [(key, str(values.get(key, "—")), str(who)) for key, who in sorted(origins.items())]
        yield Text(("Settings that are not defaults, and who set them:",))
        yield Table(("key", "value", "set by"), tuple(rows))


def is_evaluation(told: Told) -> bool:
    return (told.folder / plan.NAME).is_file()


def success(tasks: Mapping[str, Played]) -> Estimate:
    """Success of one pass with its interval; tasks the host broke are left out."""
    judged = [(one, one.judged()) for one in tasks.values() if one.judged()]
    values = [pass_at(len(t), sum(x.success is True for x in t), 1) for _, t in judged]
    tries = max((len(t) for _, t in judged), default=1)
    return rate(values, [one.family for one, _ in judged], tries)


def curves(told: Told) -> Iterator[Block]:
    rows = MetricsFile(told.folder / "metrics.jsonl").rows()
    measured = {step: success(tasks) for step, tasks in sorted(told.passes.items())}
    if rows:
        yield Heading("How it learned")
        yield from figures.learning(rows, measured)


def results(told: Told) -> Iterator[Block]:
    """The held-out tables, each with its smallest detectable difference beside it."""
    if told.answer is not None:
        yield Heading("Results")
        bench = "oracle" in told.answer
        head, *body = (tables.bench_rows if bench else tables.evaluation_rows)(told.answer)
        yield Table(tuple(head), tuple(tuple(row) for row in body))
        notes = [*(tables.bench_notes(told.answer) if bench else ())]
        yield Text(tuple(line for line in [*notes, *tables.footnotes(told.answer)] if line))
        return
    if not told.passes:
        return
    yield Heading("Results on held-out tasks")
    rows = []
    for step, tasks in sorted(told.passes.items()):
        one = success(tasks)
        rows.append((str(step), *shown(one), str(one.n)))
    yield Table(("step", "success", "95 %", "tasks"), tuple(rows))
    yield Text((f"Interval: {success(told.passes[max(told.passes)]).method}.",))
    first, last = min(told.passes), max(told.passes)
    if first != last:
        yield from paired(told, first, last)


def shown(one: Estimate) -> tuple[str, str]:
    if not one.n:
        return "—", "—"
    return tables.share(one.mean), tables.between(one.ci95)


def paired(told: Told, first: int, last: int) -> Iterator[Block]:
    """Before against after, task by task, and by family."""
    sides = [
        Measurement(f"step {step}", told.config.model, told.folder, step, told.passes[step], 0)
        for step in (first, last)
    ]
    keys = [key for key in sides[0].tasks if key in sides[1].tasks]
    keys = [key for key in keys if all(side.tasks[key].judged() for side in sides)]
    if not keys:
        return
    answer = compare_command.compare(sides, keys, 0.05)
    one = answer["comparisons"][0]
    head = ("", f"step {first}", f"step {last}", "change", "95 %", "p", "smallest detectable")
    rows = [
        (name, a, b, change.removesuffix(" *"), interval, p, smallest)
        for name, a, b, change, interval, _, p, smallest in map(compare_command.row, one["metrics"])
    ]
    yield Text((f"Paired on {len(keys)} tasks: {' '.join(answer['verdict'])}",))
    yield Table(head, tuple(rows))
    families = sorted({sides[0].tasks[key].family for key in keys})
    split = []
    for family in families:
        own = [key for key in keys if sides[0].tasks[key].family == family]
        both = [success({key: side.tasks[key] for key in own}) for side in sides]
        split.append((family, str(len(own)), *(tables.share(x.mean) for x in both)))
    yield Table(("family", "tasks", f"step {first}", f"step {last}"), tuple(split))


def ends(told: Told) -> Iterator[Block]:
    """How episodes ended, by phase: the classes of failure apart."""
    phases: dict[str, Counter[str]] = {}
    entries = index.load(told.folder)
    training = [entry for entry in entries if entry.episode.startswith("g") and entry.stop]
    if training:
        phases["training"] = Counter(
            how(e.success if e.reward is not None else None, e.stop or "", "") for e in training
        )
    for step, tasks in sorted(told.passes.items()):
        tries = [one for played in tasks.values() for one in played.tries.values()]
        phases[f"held out, step {step}"] = Counter(of_try(one) for one in tries)
    kinds = sorted({kind for counter in phases.values() for kind in counter})
    if not kinds:
        return
    yield Heading("How episodes ended")
    yield Table(
        ("", *phases), tuple((kind, *(str(c[kind]) for c in phases.values())) for kind in kinds)
    )


def of_try(one: Try) -> str:
    return how(one.success, one.stop, one.fault)


def how(success: bool | None, stop: str, fault: str) -> str:
    if success:
        return "solved"
    if success is None:
        return f"broken by the host, not counted{f' ({fault})' if fault else ''}"
    named = {"done": "failed, thought it was done", "time": "failed, out of time"}
    return named.get(stop, f"failed, out of {stop}" if stop else "failed")


def episodes(told: Told, lines: Lines, examples: int) -> Iterator[Block]:
    """The same task before and after where there are two passes, else some of each kind."""
    if not told.passes or examples < 1:
        return
    chosen = list(choose(told.passes, examples))
    transcripts = fetch(told.folder, {name for _, names in chosen for name in names})
    if chosen:
        yield Heading("Episodes")
    room = MOST
    for title, names in chosen:
        yield Heading(title, 3)
        for name in names:
            one = transcripts[name]
            told_so = cut(lines(one))
            room -= sum(map(len, told_so))
            if room < 0:
                yield Text((f"The page is full: see `agentrl replay {told.folder.name}:{name}`.",))
                continue
            head = f"{name}   {one.task.id}   {'solved' if one.success else 'not solved'}"
            yield Transcript(name, head, told_so)


def choose(
    passes: Mapping[int, Mapping[str, Played]], examples: int
) -> Iterator[tuple[str, list[str]]]:
    """(title, episode ids), the most telling first."""
    first, last = passes[min(passes)], passes[max(passes)]
    if first is last:
        for title, wanted in (("Solved", True), ("Not solved", False)):
            names = [t.episode for p in last.values() for t in p.judged() if t.success is wanted]
            if names:
                yield title, names[:examples]
        return
    for title, ways in (
        ("Learned: failed before, solved after", (False, True)),
        ("Lost: solved before, failed after", (True, False)),
        ("Still failing", (False, False)),
    ):
        found = 0
        for key, played in first.items():
            pair = [p.judged() for p in (played, last[key])] if key in last else []
            if not all(pair) or not pair or found == examples:
                continue
            if tuple(tries[0].success for tries in pair) == ways:
                found += 1
                yield f"{title}: {played.id}", [tries[0].episode for tries in pair]


def fetch(folder: Path, names: set[str]) -> dict[str, Trajectory]:
    """Some episodes in one pass over the record, with their tokens."""
    reader = TokenReader(folder)

    def wanted() -> Iterator[Any]:
        for event in RunStore(folder).events(tokens=False):
            if getattr(event, "episode", None) in names:
                if isinstance(event, Replied) and event.row is not None:
                    event = replace(event, tokens=reader.span(*event.row))
                yield event

    return fold(wanted())


def cut(told: Sequence[str]) -> tuple[str, ...]:
    kept: list[str] = []
    left = LONGEST
    for number, line in enumerate(told):
        left -= len(line) + 1
        if left < 0:
            return (*kept, f"… cut here: {len(told) - number} more lines, see `agentrl replay`")
        kept.append(line)
    return tuple(kept)


def made_with(told: Told) -> Iterator[Block]:
    yield Heading("Environment and versions")
    versions = told.run.versions | ({"machine": told.run.machine} if told.run.machine else {})
    digest = plan.read(told.folder).digest if is_evaluation(told) else ""
    versions |= {"tasks' digest": digest} if digest else {}
    yield Table(("", "version"), tuple(versions.items()))
