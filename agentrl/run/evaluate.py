"""Success on tasks the policy never trains on."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct, field

from agentrl.agent.episode import Recipe, run_episode
from agentrl.engine.torch.engine import TorchEngine
from agentrl.run.intervals import Estimate, estimate
from agentrl.task import Task
from agentrl.trajectory.events import HeldOutMeasured
from agentrl.trajectory.records import Trajectory
from agentrl.trajectory.store import EpisodeLog, RunStore


class Evaluation(Struct, frozen=True):
    """One pass over held-out tasks. `results` maps task id to success, None where masked."""

    step: int
    results: dict[str, float | None]
    success: Estimate
    by_difficulty: dict[int, float] = field(default_factory=dict)
    by_family: dict[str, float] = field(default_factory=dict)
    episodes: int = 0
    masked: int = 0
    malformed: int = 0
    tokens: int = 0  # sampled


async def evaluate_tasks(
    tasks: Sequence[Task],
    recipe: Recipe,
    store: RunStore,
    step: int,
    tries: int = 1,
    label: str = "h",
    lockstep: tuple[TorchEngine, int] | None = None,
) -> Evaluation:
    """Plays every task `tries` times; episodes are `<label><step>.<task number>.<try>`.

    `lockstep` = (engine, wave) plays waves of that many episodes in lock step, for bitwise
    repeatable results.
    """
    jobs = [(number, task, go) for number, task in enumerate(tasks) for go in range(tries)]

    async def play(number: int, task: Task, go: int) -> Trajectory:
        name = f"{label}{step}.{number}.{go}"
        return await run_episode(task, f"{label}{step}.{number}", EpisodeLog(store, name), recipe)

    played: list[Trajectory] = []
    wave = lockstep[1] if lockstep else len(jobs)
    for start in range(0, len(jobs), max(wave, 1)):
        part = jobs[start : start + wave]
        if lockstep:
            lockstep[0].flush()
            lockstep[0].expect(len(part))
        played += await asyncio.gather(*(play(*job) for job in part))
    found = summarise(step, tasks, played)
    store.append(HeldOutMeasured(step=step, results=found.results, meta={"tries": tries}))
    return found


def summarise(step: int, tasks: Sequence[Task], played: Sequence[Trajectory]) -> Evaluation:
    """Averages the tries of each task, then over tasks."""
    scores: dict[str, list[float]] = {task.id: [] for task in tasks}
    for one in played:
        if one.reward is not None:
            scores[one.task.id].append(float(one.success))
    results = {task: (sum(s) / len(s) if s else None) for task, s in scores.items()}
    known = {task.id: r for task in tasks if (r := results[task.id]) is not None}

    def mean(chosen: list[Task]) -> float:
        values = [known[task.id] for task in chosen if task.id in known]
        return sum(values) / len(values) if values else float("nan")

    return Evaluation(
        step=step,
        results=results,
        success=estimate(list(known.values())),
        by_difficulty={
            d: mean([t for t in tasks if t.difficulty == d])
            for d in sorted({t.difficulty for t in tasks})
        },
        by_family={
            f: mean([t for t in tasks if t.family == f]) for f in sorted({t.family for t in tasks})
        },
        episodes=len(played),
        masked=sum(one.reward is None for one in played),
        malformed=sum(step.malformed for one in played for step in one.steps),
        tokens=sum(len(s.tokens.sampled) for one in played for s in one.steps if s.tokens),
    )
