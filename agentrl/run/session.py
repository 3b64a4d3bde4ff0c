"""A whole run: set up, measure, train, measure again, and say what came of it."""

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentrl.agent.episode import Recipe
from agentrl.config import RunConfig
from agentrl.engine.torch.engine import TorchEngine
from agentrl.errors import ConfigError
from agentrl.learner.process import LearnerProcess
from agentrl.run import build, progress
from agentrl.run.evaluate import Evaluation, evaluate
from agentrl.run.intervals import estimate, paired
from agentrl.run.metrics import Report, StepRow
from agentrl.run.models import resolve
from agentrl.run.progress import Progress
from agentrl.run.train import Run, StepDone, train
from agentrl.scheduler.slots import Work
from agentrl.trajectory.events import HeldOutMeasured, RunStarted
from agentrl.trajectory.store import RunStore


class Session:
    """One attempt at a run in `folder`. Use as a context manager; leaving it ends every part."""

    def __init__(self, config: RunConfig, folder: Path, report: Report, attempt: int = 1) -> None:
        self.config = config
        self.folder = folder
        self.report = report
        self.attempt = attempt
        self.began = time.monotonic()
        self.tokens = 0
        self.earlier_s = 0.0
        self.steps_done: list[StepRow] = []

    def __enter__(self) -> "Session":
        c = self.config
        self.model = resolve(c.model)
        self.world = build.world(c)
        self.backend = build.open_sandbox(c)
        self.engine: TorchEngine = build.engine(c, self.model)
        self.store = RunStore(self.folder)
        self.learner: LearnerProcess | None = None
        return self

    def __exit__(self, *exc: object) -> None:
        if self.learner is not None:
            self.learner.close()
        self.engine.close()
        self.store.close()

    # -- the parts of a run ------------------------------------------------------------------

    async def measure(self, how: Recipe, step: int) -> Evaluation | None:
        """Held-out success under the weights that are live; None where nothing is held out."""
        tasks = self.world.held_out
        if not tasks:
            return None
        wave = 32 if self.config.scheduler.mode == "sync" else 0
        found = await evaluate(
            tasks,
            build.for_evaluation(self.config, how, self.engine, self.model),
            self.store,
            step,
            self.config.eval.tries,
            lockstep=(self.engine, wave) if wave else None,
        )
        self.report.evaluation(step, found.success.mean, found.success.ci95, found.success.n)
        return found

    async def run(self) -> dict[str, Any]:
        """Trains to `max_steps`, measuring before, during (if asked) and after."""
        c = self.config
        how = build.recipe(c, self.engine, self.model, self.backend)
        start = progress.latest(self.folder) if self.attempt > 1 else None
        at = progress.read(start) if start else None
        run, teacher = self.assemble(how, at, start)
        self.store.append(RunStarted(run=self.folder.name, attempt=self.attempt, step=run.step))
        before = self.recorded(0) or await self.measure(how, 0)
        if run.step < c.max_steps:
            await self.train(run, teacher, how)
        done = self.recorded(c.max_steps) if at and at.step >= c.max_steps else None
        after = before if c.max_steps == 0 else done or await self.measure(how, c.max_steps)
        return self.answer(run, before, after)

    def assemble(
        self, how: Recipe, at: Progress | None, start: Path | None
    ) -> tuple[Run, LearnerProcess]:
        """The run, fresh or as a checkpoint left it, with its weights live."""
        c = self.config
        teacher = self.learner = build.learner(c, self.model, self.folder)
        if at is None or start is None:
            again, first = self.leftovers(Progress(0, 0, [], [], 0, 0.0))
            run = build.run(c, self.world, self.store, self.engine, how, teacher, first, again)
            return run, teacher
        teacher.load(start / "learner")
        again, first = self.leftovers(at)
        run = build.run(c, self.world, self.store, self.engine, how, teacher, first, again)
        run.step = at.step
        run.trained = progress.numbers(at.trained)
        run.curriculum.restore(at.curriculum)
        self.tokens, self.earlier_s = at.tokens, at.seconds
        self.report.note(
            f"back: step {at.step}, optimizer, random state, task order at group {first}; "
            f"{sum(w.group is not None for w in again)} finished groups waiting, "
            f"{sum(w.group is None for w in again)} to be played again"
        )
        return run, teacher

    def leftovers(self, at: Progress) -> tuple[list[Work], int]:
        """Groups drawn before a restart and not trained. Lock step plays them all again."""
        if self.attempt == 1 or self.config.scheduler.mode == "sync":
            return [], at.next_group
        groups = self.store.groups()
        return progress.unfinished(groups, at, self.config.scheduler.group_size)

    def recorded(self, step: int) -> Evaluation | None:
        """A held-out measurement of an earlier attempt, read from the record."""
        if self.attempt == 1:
            return None
        for event in self.store.events(tokens=False):
            if isinstance(event, HeldOutMeasured) and event.step == step:
                known = [value for value in event.results.values() if value is not None]
                return Evaluation(step, event.results, estimate(known), {}, {}, 0, 0)
        return None

    async def train(self, run: Run, teacher: LearnerProcess, how: Recipe) -> None:
        c = self.config
        if run.step:
            await self.engine.load(teacher.publish())

        async def after_step(done: StepDone) -> None:
            self.tokens += done.lesson.tokens
            found = None
            if c.eval.every and done.step % c.eval.every == 0 and done.step < c.max_steps:
                found = await self.measure(how, done.step)
            self.steps_done.append(row := self.row(done, found))
            self.report.step(row)
            if done.step % c.learner.save_every == 0 or done.step == c.max_steps:
                await asyncio.to_thread(self.save, run, teacher)

        await train(run, c.max_steps, after_step)

    def save(self, run: Run, teacher: LearnerProcess) -> None:
        """A checkpoint: the learner's state, then everything else, then the marker."""
        folder = self.folder / "state" / f"{run.step:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        teacher.save(folder / "learner")
        now = Progress(
            step=run.step,
            next_group=run.slots.next,
            trained=progress.ranges(run.trained),
            curriculum=run.curriculum.state(),
            tokens=self.tokens,
            seconds=self.earlier_s + time.monotonic() - self.began,
        )
        progress.seal(folder, now, self.config.learner.keep)

    def row(self, done: StepDone, found: Evaluation | None) -> StepRow:
        lesson = done.lesson
        reward = estimate(lesson.rewards) if lesson.rewards else None
        return StepRow(
            step=done.step,
            of=self.config.max_steps,
            reward=reward.mean if reward else None,
            reward_ci=reward.ci95 if reward else None,
            heldout=found.success.mean if found else None,
            heldout_ci=found.success.ci95 if found else None,
            groups=len(lesson.taught) + lesson.flat,
            flat=lesson.flat,
            malformed=lesson.malformed,
            tokens=lesson.tokens,
            rollout_s=done.rollout_s,
            learn_s=done.learn_s,
            handover_s=done.handover_s,
            version=done.step,
            stats=done.stats | {"turns": lesson.turns / max(lesson.episodes, 1)},
        )

    def answer(
        self, run: Run, before: Evaluation | None, after: Evaluation | None
    ) -> dict[str, Any]:
        """What `train --json` prints."""
        out: dict[str, Any] = {
            "run": self.folder.name,
            "folder": str(self.folder),
            "steps": run.step,
            "wall_s": self.earlier_s + time.monotonic() - self.began,
            "tokens_sampled": self.tokens,
            "engine": {key: number(value) for key, value in self.engine.counters().items()},
        }
        if before is not None and after is not None:
            gain = paired(before.results, after.results)
            out["heldout"] = {
                "before": number(before.success.mean),
                "after": number(after.success.mean),
                "difference": number(gain.mean),
                "ci95": [number(bound) for bound in gain.ci95],
                "tasks": gain.n,
                "before_ci95": [number(bound) for bound in before.success.ci95],
                "after_ci95": [number(bound) for bound in after.success.ci95],
                "by_difficulty": {str(d): number(v) for d, v in after.by_difficulty.items()},
                "by_family": {f: number(v) for f, v in after.by_family.items()},
                "temperature": self.config.eval.temperature,
            }
        return out


def number(value: float) -> float | None:
    """JSON has no nan."""
    return None if math.isnan(value) else round(value, 6)


def train_run(
    config: RunConfig, folder: Path, report: Report, attempt: int = 1
) -> dict[str, Any]:
    """Trains in `folder`, from its newest checkpoint when `attempt` > 1; returns the answer."""
    with Session(config, folder, report, attempt) as session:
        return asyncio.run(session.run())


def evaluate_model(config: RunConfig, folder: Path, report: Report) -> dict[str, Any]:
    """Measures `config.model` on the held-out tasks of `config.env`; writes its record too."""
    with Session(config, folder, report) as session:
        how = build.recipe(config, session.engine, session.model, session.backend)
        found = asyncio.run(session.measure(how, 0))
        if found is None:
            raise ConfigError("this suite holds no task out", where=config.env.suite)
        return {
            "run": folder.name,
            "success": number(found.success.mean),
            "ci95": [number(bound) for bound in found.success.ci95],
            "tasks": found.success.n,
            "malformed": found.malformed,
            "tokens_sampled": found.tokens,
            "by_difficulty": {str(d): number(v) for d, v in found.by_difficulty.items()},
            "by_family": {f: number(v) for f, v in found.by_family.items()},
            "temperature": config.eval.temperature,
            "wall_s": time.monotonic() - session.began,
        }


ReportFactory = Callable[[Path], Report]
__all__ = ["Session", "evaluate_model", "replace", "train_run"]
