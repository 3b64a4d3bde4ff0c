"""Is a task fit to train on? Its oracle must pass and doing nothing must fail, every time."""

from collections.abc import Sequence
from typing import Protocol, cast

from msgspec import Struct

from agentrl.envs.base import BuildEnv
from agentrl.envs.sandbox import Artifacts, Harvest, OpenSandbox, Sandbox
from agentrl.errors import TaskError
from agentrl.messages import Message, ToolCall
from agentrl.reward.base import Verifier
from agentrl.task import Task
from agentrl.trajectory.records import Step, Trajectory, Verdict


class Judge(Protocol):
    """Judges what an agent left, in a pristine box of its own."""

    async def __call__(
        self,
        task: Task,
        trajectory: Trajectory,
        open_sandbox: OpenSandbox,
        harvest: Harvest,
        verifier: Verifier,
    ) -> Verdict: ...


class Admission(Struct, frozen=True):
    """The verdicts on each try; `reasons` is empty for a task that is admitted."""

    task: str
    oracle: tuple[Verdict, ...]
    nothing: tuple[Verdict, ...]
    reasons: tuple[str, ...] = ()

    @property
    def admitted(self) -> bool:
        return not self.reasons


async def admit(
    task: Task,
    open_sandbox: OpenSandbox,
    build_env: BuildEnv,
    verifier: Verifier,
    judge: Judge,
    repeats: int = 2,
) -> Admission:
    """Play the oracle and, apart, only its closing `submit`, `repeats` times each, through the
    env's own tools in fresh boxes. An oracle call the env cannot carry out is a reason too.

    Raises what the boxes, the env and the judge raise; a task at fault is reported instead.
    """
    if not task.oracle:
        return Admission(task.id, (), (), ("the task has no oracle",))
    idle = [call for call in task.oracle[-1:] if call.name == "submit"]
    tries: dict[str, list[Verdict]] = {"oracle": [], "nothing": []}
    reasons: list[str] = []
    for _ in range(repeats):
        for name, calls in (("oracle", task.oracle), ("nothing", idle)):
            trajectory, harvest = await play(task, calls, open_sandbox, build_env)
            tries[name].append(await judge(task, trajectory, open_sandbox, harvest, verifier))
            if name == "oracle":
                reasons += _unplayable(trajectory)
    reasons += [f"the oracle did not pass: {_said(v)}" for v in tries["oracle"] if not v.success]
    for verdict in tries["nothing"]:
        if verdict.success:
            reasons.append("doing nothing passes")
        elif verdict.outcome != "reward":
            reasons.append(f"doing nothing was not judged: {_said(verdict)}")
    return Admission(
        task.id, tuple(tries["oracle"]), tuple(tries["nothing"]), tuple(dict.fromkeys(reasons))
    )


async def play(
    task: Task, calls: Sequence[ToolCall], open_sandbox: OpenSandbox, build_env: BuildEnv
) -> tuple[Trajectory, Harvest]:
    """Carry out calls one a step, as an agent would, and take what they left behind."""
    async with open_sandbox(task) as box:
        env = build_env(task, box)
        opening = tuple(await env.reset())
        steps: list[Step] = []
        for i, call in enumerate(calls):
            reply = Message("assistant", "", calls=(call,))
            seen = await env.step(reply)
            steps.append(
                Step(i, 0, "agent", reply, None, seen.messages, seen.signals, seen.malformed)
            )
            if seen.done:
                break
        harvest = await _artifacts(box).harvest()
    trajectory = Trajectory(
        f"admit/{task.id}", f"admit/{task.id}", task, opening, tuple(steps), 1, "done"
    )
    return trajectory, harvest


def _artifacts(box: Sandbox) -> Artifacts:
    if not hasattr(box, "harvest"):
        raise TaskError(
            "this sandbox cannot hand over what an agent left in it",
            where=type(box).__name__,
            help="use a sandbox with `harvest`, such as bubblewrap",
        )
    return cast(Artifacts, box)


def _unplayable(trajectory: Trajectory) -> list[str]:
    bad = [step for step in trajectory.steps if step.malformed]
    reasons = [f"oracle call {s.index} ({s.reply.calls[0].name}) is malformed" for s in bad]
    if len(trajectory.steps) < len(trajectory.task.oracle):
        reasons.append(f"the episode ended at oracle call {len(trajectory.steps) - 1}")
    return reasons


def _said(verdict: Verdict) -> str:
    score = "" if verdict.score is None else f" {verdict.score:g}"
    return f"{verdict.outcome}{score}{': ' + verdict.note if verdict.note else ''}"
