"""Answers of `eval` and `bench` as a person reads them. Pure: a JSON answer in, lines out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl.run.metrics import short


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Rows with aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        gap.join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def share(value: float | None) -> str:
    """0.305 -> `0.30`; what is not known is a dash."""
    return "—" if value is None else f"{value:.2f}"


def between(bounds: Sequence[float | None]) -> str:
    return "—" if None in bounds else f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def evaluation(answer: Mapping[str, Any]) -> list[str]:
    """The table of one evaluation."""
    head = f"{answer['model']}   {answer['tasks']} tasks × {answer['tries']}   "
    return [
        head + f"temperature {answer['temperature']:g}   digest {answer['digest'][:8]}",
        "",
        *columns(evaluation_rows(answer)),
        *footnotes(answer),
    ]


def evaluation_rows(answer: Mapping[str, Any]) -> list[list[str]]:
    """pass@k and pass^k; the first row is the head."""
    rows = [["", "mean", "95 %", "tasks"]]
    for name, one in answer["passes"].items():
        rows.append([name, share(one["mean"]), between(one["ci95"]), str(one["tasks"])])
    return rows


def bench(answer: Mapping[str, Any]) -> list[str]:
    """The policy between the oracle and doing nothing, in one table."""
    return [*columns(bench_rows(answer)), *bench_notes(answer), *footnotes(answer)]


def bench_rows(answer: Mapping[str, Any]) -> list[list[str]]:
    rows = [["", "success", "95 %", "tasks", "time-outs", "host faults"]]
    named = (
        ("oracle", answer["oracle"]),
        (answer["model"], answer),
        ("nothing", answer["nothing"]),
    )
    for name, one in named:
        counted = [str(one[key]) for key in ("tasks", "timeouts", "masked")]
        rows.append([name, share(one["success"]), between(one["ci95"]), *counted])
    return rows


def bench_notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """Broken tasks, and what several tries came to."""
    for task, why in answer["broken"].items():
        yield f"✗ {task}   {why}"
    passes = [
        f"{name} {share(one['mean'])} ({between(one['ci95'])})"
        for name, one in answer["passes"].items()
        if name != "pass@1"
    ]
    if passes:
        yield " · ".join(passes)


def footnotes(answer: Mapping[str, Any]) -> Iterator[str]:
    smallest = answer["smallest_difference"]
    told = "none, too few tasks" if smallest is None else f"{smallest:.2f}"
    yield f"interval: {answer['interval']}"
    yield f"smallest detectable difference to a second policy on these tasks: {told}"
    yield ""
    yield f"ends      {counts(answer['stops'])}"
    if answer["faults"]:
        yield f"broken    {counts(answer['faults'])}, by the host, not counted"
    if answer["unplayed"]:
        yield f"unplayed  {answer['unplayed']} episodes: the budget was used up"
    cost = f"{answer['turns']:.1f} turns, {short(answer['tokens_per_episode'])} tokens an episode"
    own = answer["replies_counted_here"]
    yield f"cost      {cost}" + (f" ({own} replies counted here)" if own else "")
    for name in ("difficulty", "family"):
        yield f"{name:<9} {counts({k: share(v) for k, v in answer[f'by_{name}'].items()})}"
    if "endpoint" in answer:
        yield from endpoint(answer["endpoint"])


def endpoint(facts: Mapping[str, Any]) -> Iterator[str]:
    """What an endpoint was like, where that is worth a line."""
    if facts["adapted"]:
        yield f"endpoint  {', '.join(facts['adapted'])}"
    if facts["failed_requests"]:
        yield f"endpoint  requests tried again: {counts(facts['failed_requests'])}"
    if facts["usage_doubted"]:
        yield f"endpoint  misstates its usage in {facts['usage_doubted']} replies; counted here"


def counts(of: Mapping[str, Any]) -> str:
    return " · ".join(f"{name} {value}" for name, value in of.items()) or "—"
