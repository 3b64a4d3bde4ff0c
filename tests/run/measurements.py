"""Runs with held-out measurements, written event by event."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentrl.config import load
from agentrl.messages import Message, ToolCall
from agentrl.run.metrics import MetricsFile, StepRow
from agentrl.run.plan import Plan, Player, write
from agentrl.run.runs import create_run, update_run
from agentrl.task import Task
from agentrl.trajectory.events import (
    ContextSet,
    EpisodeOpened,
    EpisodeStopped,
    HeldOutMeasured,
    Observed,
    Replied,
    Verified,
)
from agentrl.trajectory.records import Usage, masked, scored
from agentrl.trajectory.store import RunStore

Scores = Sequence[Sequence[float | None]]
"""One row a task, one score a try; None where the host broke it."""


def task(number: int, say: str = "count the words") -> Task:
    family = f"family{number % 3}"
    instruction = f"{say} in file {number}"
    return Task(f"t/{family}/{number}", "t", instruction, meta={"family": family, "difficulty": 1})


def measure(
    store: RunStore, scores: Scores, step: int = 0, turns: int = 1, say: str = "count the words"
) -> None:
    """One pass over tasks 0, 1, ...; each reply is 7 tokens long."""
    for number, tries in enumerate(scores):
        for go, score in enumerate(tries):
            play(store, f"h{step}.{number}.{go}", task(number, say), score, turns)
    results = {f"t/family{n % 3}/{n}": mean(tries) for n, tries in enumerate(scores)}
    store.append(HeldOutMeasured(step=step, results=results, meta={"label": "h"}))


def mean(tries: Sequence[float | None]) -> float | None:
    known = [score for score in tries if score is not None]
    return sum(known) / len(known) if known else None


def play(store: RunStore, episode: str, of: Task, score: float | None, turns: int) -> None:
    group = episode.rpartition(".")[0]
    store.append(EpisodeOpened(episode=episode, group=group, task=of))
    store.append(ContextSet(episode=episode, by="env", context=(Message("user", of.instruction),)))
    for turn in range(turns):
        call = ToolCall("1", "shell", {"command": f"echo <b>{episode}</b> {turn}"})
        reply = Message("assistant", "", (call,))
        store.append(Replied(episode=episode, by="agent", reply=reply, usage=Usage(9, 7)))
        store.append(Observed(episode=episode, seen=(Message("tool", "\x1b[2J", call_id="1"),)))
    stop = "error" if score is None else "time" if score == 0.25 else "done"
    store.append(EpisodeStopped(episode=episode, why=stop))
    verdict = masked("no room", "SandboxError") if score is None else scored(score)
    store.append(Verified(episode=episode, verdict=verdict, reward=score))


def evaluation(runs: Path, scores: Scores, *, turns: int = 1, say: str = "count the words") -> str:
    """The id of a finished evaluation."""
    folder = create_run(load("terminal"), ["agentrl", "eval"], runs, "eval-t")
    write(folder, Plan(Player("nothing")))
    with RunStore(folder) as store:
        measure(store, scores, turns=turns, say=say)
    update_run(folder, state="done")
    return folder.name


def training(runs: Path, passes: Mapping[int, Scores]) -> Path:
    """A training run measured at some steps, with a row of metrics a step."""
    folder = create_run(load("terminal", flags=[("max-steps", "4")]), ["agentrl", "train"], runs)
    with RunStore(folder) as store:
        for step, scores in passes.items():
            measure(store, scores, step, turns=2)
        for number in range(4):
            play(store, f"g{number}.0", task(100 + number), float(number % 2), 1)
    metrics = MetricsFile(folder / "metrics.jsonl")
    for step in range(1, 5):
        reward = step / 5
        metrics.append(
            StepRow(
                step=step, of=4, reward=reward, reward_ci=(reward - 0.1, reward + 0.1),
                stats={"entropy": 1 / step, "turns": 2.0},
            )
        )  # fmt: skip
    update_run(folder, state="done", step=4)
    return folder
