"""Judge by a script, as Harbor does: `/tests/test.sh` writes a reward file."""

import json
import math

from agentrl.envs.sandbox import ExecResult, Sandbox
from agentrl.errors import VerifierError
from agentrl.task import Task
from agentrl.trajectory.records import Trajectory, Verdict, invalid, scored

LOGS = "/logs/verifier"


class ScriptVerifier:
    """Runs `/tests/test.sh` with bash from the workdir and reads what it wrote in `/logs/verifier`.

    `reward.json`, an object of finite numbers whose `reward` (or only entry) is the score, wins
    over `reward.txt`, one number; that both exist and differ is the flag REWARD_MISMATCH. Scores
    are clipped to 0..1. The exit status is ignored. A script that runs out of time, or whose box
    dies, scores 0, since what the agent left can cause it. `invalid` where the script wrote an
    empty file or something that is no finite number.

    Raises VerifierError where the task has no script, the script wrote nothing, or a reward file
    was there before it ran.
    """

    async def verify(self, task: Task, trajectory: Trajectory, sandbox: Sandbox) -> Verdict:
        if "test.sh" not in task.tests:
            raise VerifierError("the task has no tests/test.sh", where=task.id)
        await self._fresh(task, sandbox)
        result = await sandbox.exec(["bash", "/tests/test.sh"], task.limits.verifier_s)
        if result.timed_out:
            return scored(0.0, note=f"the verifier ran out of time ({task.limits.verifier_s:g} s)")
        if result.dead:
            return scored(0.0, note="the judging box died while the verifier ran")
        found = [await _file(sandbox, name) for name in ("reward.json", "reward.txt")]
        if found == [None, None]:
            raise VerifierError(
                f"tests/test.sh wrote no reward: {_said(result)}",
                where=task.id,
                help=f"it must write {LOGS}/reward.txt or reward.json whatever happens",
            )
        return verdict(found[0], found[1], _said(result))

    async def _fresh(self, task: Task, sandbox: Sandbox) -> None:
        made = await sandbox.exec(["mkdir", "-p", LOGS])
        if made.code != 0:
            raise VerifierError(f"cannot make {LOGS}: {_said(made)}", where=task.id)
        listed = await sandbox.exec(["find", LOGS, "-mindepth", "1"])
        if listed.code != 0 or listed.out.data:
            raise VerifierError(f"{LOGS} of the judging box is not empty", where=task.id)


def verdict(as_json: bytes | None, as_text: bytes | None, said: str) -> Verdict:
    """The verdict from the reward files' contents (None: no such file)."""
    try:
        parts = _numbers(as_json) if as_json is not None else _number(as_text or b"")
    except ValueError as error:
        return invalid(f"the reward cannot be read: {error}; {said}")
    if "reward" not in parts and len(parts) != 1:
        return invalid(f"reward.json has no entry `reward` among {sorted(parts)}; {said}")
    score = parts["reward"] if "reward" in parts else next(iter(parts.values()))
    flags: tuple[str, ...] = ()
    if as_json is not None and as_text is not None:
        try:
            agree = _number(as_text)["reward"] == score
        except ValueError:
            agree = False
        flags = () if agree else ("REWARD_MISMATCH",)
    note = "" if 0.0 <= score <= 1.0 else f"reward {score:g} was clipped to 0..1"
    return Verdict("reward", min(1.0, max(0.0, score)), parts, note, flags)


def _numbers(data: bytes) -> dict[str, float]:
    """An object of finite numbers; booleans count as 1 and 0. Raises ValueError."""
    if not data.strip():
        raise ValueError("reward.json is empty")
    found = json.loads(data)
    if not isinstance(found, dict) or not found:
        raise ValueError("reward.json is not an object of numbers")
    for key, value in found.items():
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"reward.json: {key} is not a finite number")
    return {key: float(value) for key, value in found.items()}


def _number(data: bytes) -> dict[str, float]:
    """One finite number. Raises ValueError."""
    if not data.strip():
        raise ValueError("reward.txt is empty")
    value = float(data.strip())
    if not math.isfinite(value):
        raise ValueError("reward.txt is not finite")
    return {"reward": value}


async def _file(sandbox: Sandbox, name: str) -> bytes | None:
    try:
        return await sandbox.read(f"{LOGS}/{name}")
    except FileNotFoundError:
        return None


def _said(result: ExecResult) -> str:
    return (result.out.text + result.err.text).strip()[-300:] or "it printed nothing"
