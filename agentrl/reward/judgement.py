"""The guarded way to a verdict: a fresh box, what the agent left, and nothing else of it."""

import asyncio
from contextlib import AsyncExitStack

import msgspec

from agentrl.envs.sandbox import Harvest, OpenSandbox, Sandbox
from agentrl.errors import SandboxError, VerifierError, boundary
from agentrl.reward.base import Verifier
from agentrl.task import Task
from agentrl.trajectory.records import Trajectory, Verdict, masked, scored

HOST_ONLY = ("expected.json",)
"""Of a task's tests, what is compared on the host and never enters a box."""


async def judge(
    task: Task,
    trajectory: Trajectory,
    open_sandbox: OpenSandbox,
    harvest: Harvest,
    verifier: Verifier,
) -> Verdict:
    """Judge what the agent left, in a pristine box opened now.

    `harvest` was taken after every process of the agent was dead. A box that will not open is
    masked only when it will not open without the agent's files either; where just those keep it
    from opening, the score is 0. So is it when verifying takes longer than `limits.verifier_s`, or
    the box dies meanwhile. A check that fails, or finds the task invalid, is tried on an untouched
    workdir: where it comes to a score there, what the agent left broke it, and that is a 0 too.
    The note names the digest of the box or its opener, where one has it.

    Raises VerifierError where the check itself failed.
    """
    async with AsyncExitStack() as stack:
        box = await _open(stack, task, open_sandbox, harvest)
        if isinstance(box, Verdict):
            return box
        try:
            verdict = await _verify(task, trajectory, box, verifier)
        except VerifierError as error:
            broken: Verdict | VerifierError = error
        else:
            broken = verdict
    if isinstance(broken, Verdict) and broken.outcome == "reward":
        return _with_digest(broken, box, open_sandbox)
    if await _works_untouched(task, trajectory, open_sandbox, verifier):
        why = broken.note if isinstance(broken, Verdict) else broken.what
        return scored(0.0, note=f"the check breaks only on what the agent left: {why}")
    if isinstance(broken, VerifierError):
        raise broken
    return _with_digest(broken, box, open_sandbox)


async def _verify(task: Task, trajectory: Trajectory, box: Sandbox, verifier: Verifier) -> Verdict:
    """The verifier's word within its time. Raises VerifierError."""
    try:
        async with asyncio.timeout(task.limits.verifier_s):
            with boundary(VerifierError, "the verifier broke"):
                return await verifier.verify(task, trajectory, box)
    except TimeoutError:
        return scored(0.0, note=f"judging took over {task.limits.verifier_s:g} s")
    except SandboxError as error:
        return scored(0.0, note=f"the judging box broke: {error.what}")


async def _works_untouched(
    task: Task, trajectory: Trajectory, open_sandbox: OpenSandbox, verifier: Verifier
) -> bool:
    """Whether the check comes to a score where no agent has been."""
    try:
        async with open_sandbox(task, extra=_tests(task)) as box:
            return (await _verify(task, trajectory, box, verifier)).outcome == "reward"
    except (SandboxError, VerifierError):
        return False


def _tests(task: Task) -> dict[str, bytes]:
    return {f"/tests/{name}": data for name, data in task.tests.items() if name not in HOST_ONLY}


async def _open(
    stack: AsyncExitStack, task: Task, open_sandbox: OpenSandbox, harvest: Harvest
) -> Sandbox | Verdict:
    """A judging box; or the verdict, where it did not open twice."""
    extra = _tests(task)
    faults = []
    for _ in range(2):
        try:
            box = open_sandbox(task, extra=extra, harvest=harvest)
            return await stack.enter_async_context(box)
        except SandboxError as error:
            faults.append(error.what)
    try:
        async with open_sandbox(task, extra=extra):
            pass
    except SandboxError as error:
        why = f"no judging box opens, not even an untouched one: {error.what}"
        return masked(why, "SandboxError")
    return scored(0.0, note=f"no judging box opens with what the agent left: {faults[-1]}")


def _with_digest(verdict: Verdict, *places: object) -> Verdict:
    """The verdict with the base's digest in its note; the first place that has one tells it."""
    for place in places:
        digest = getattr(place, "digest", None)
        if digest:
            note = f"{verdict.note}; box {digest}" if verdict.note else f"box {digest}"
            return msgspec.structs.replace(verdict, note=note)
    return verdict
