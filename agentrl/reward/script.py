"""Judge by a script, as Harbor does: `/tests/test.sh` writes a reward file."""

import errno
import json
import math
from pathlib import Path
from secrets import token_hex

import msgspec

from agentrl.envs.sandbox import ExecResult, Sandbox
from agentrl.errors import SandboxError, VerifierError
from agentrl.task import Task
from agentrl.trajectory.records import Trajectory, Verdict, invalid, scored

LOGS = "/logs/verifier"
FILES = ("reward.json", "reward.txt")
BYTES = 65_536
"""How large a reward file may be."""

CONFINED = Path(__file__).with_name("confined.py").read_bytes()
CLEAN = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
SURVEY = """
for f in reward.json reward.txt; do
  at=/logs/verifier/$f
  if [ -L "$at" ]; then k=link; elif [ -d "$at" ]; then k=directory
  elif [ -p "$at" ]; then k=pipe; elif [ -f "$at" ]; then k=file
  elif [ -e "$at" ]; then k=device; else k=none; fi
  echo "$f $k"
done
for t in /tests/* /tests/.[!.]*; do [ -e "$t" ] && echo "test ${t##*/}"; done
true
"""


class ScriptVerifier:
    """Runs `/tests/test.sh` with bash from the workdir and reads what it wrote in `/logs/verifier`.

    `reward.json`, an object of finite numbers whose `reward` (or only entry) is the score, wins
    over `reward.txt`, one number; that both exist and differ is the flag REWARD_MISMATCH. Scores
    are clipped to 0..1. The exit status is ignored. Whatever the script left running is killed
    before anything is read (flag LATE_PROCESS). A script that runs out of time, or whose box dies,
    scores 0, since what the agent left can cause it; so does one beside which a file came into
    `/tests` (VERIFIER_TAMPER). `invalid` where the script wrote an empty file or something that is
    no finite number, or what lies there is no regular file (REWARD_FILE).

    A script that runs the agent's programs starts them as `$CONFINED ./program`: they then reach
    neither `/tests` nor `/logs` (see `confined.py`). Elsewhere the variable is empty.

    Raises VerifierError where the task has no script, the script wrote nothing, or a reward file
    was there before it ran.
    """

    async def verify(self, task: Task, trajectory: Trajectory, sandbox: Sandbox) -> Verdict:
        if "test.sh" not in task.tests:
            raise VerifierError("the task has no tests/test.sh", where=task.id)
        await self._fresh(task, sandbox)
        place = f"/tmp/.agentrl-{token_hex(12)}/confined"
        await sandbox.write(place, CONFINED)
        _, before = await self._survey(task, sandbox)
        env = {**CLEAN, "CONFINED": place}
        argv = ["env", *(f"{name}={value}" for name, value in env.items())]
        result = await sandbox.exec([*argv, "bash", "/tests/test.sh"], task.limits.verifier_s)
        if result.timed_out:
            return scored(0.0, note=f"the verifier ran out of time ({task.limits.verifier_s:g} s)")
        if result.dead:
            return scored(0.0, note="the judging box died while the verifier ran")
        clear = getattr(sandbox, "clear", None)
        late: tuple[str, ...] = await clear() if clear is not None else ()
        kinds, after = await self._survey(task, sandbox)
        found = {"LATE_PROCESS": f"still running: {late[0]}"[:200]} if late else {}
        if after - before:
            found["VERIFIER_TAMPER"] = f"/tests/{sorted(after - before)[0]} came while judging"
            return _with(scored(0.0, note="tests were added while judging"), found)
        odd = [
            f"{name} is a {kind}" for name, kind in kinds.items() if kind not in ("file", "none")
        ]
        if odd:
            found["REWARD_FILE"] = odd[0]
            return _with(invalid(f"the reward cannot be read: {odd[0]}"), found)
        read = {name: await _file(sandbox, name) for name in FILES if kinds.get(name) == "file"}
        if not read:
            raise VerifierError(
                f"tests/test.sh wrote no reward: {_said(result)}",
                where=task.id,
                help=f"it must write {LOGS}/reward.txt or reward.json whatever happens",
            )
        return _with(verdict(read.get(FILES[0]), read.get(FILES[1]), _said(result)), found)

    async def _fresh(self, task: Task, sandbox: Sandbox) -> None:
        made = await sandbox.exec(["mkdir", "-p", LOGS])
        if made.code != 0:
            raise VerifierError(f"cannot make {LOGS}: {_said(made)}", where=task.id)
        listed = await sandbox.exec(["find", LOGS, "-mindepth", "1"])
        if listed.code != 0 or listed.out.data:
            raise VerifierError(f"{LOGS} of the judging box is not empty", where=task.id)

    async def _survey(self, task: Task, sandbox: Sandbox) -> tuple[dict[str, str], set[str]]:
        """What kind of thing each reward file is, and the names in /tests."""
        seen = await sandbox.exec(["bash", "-c", SURVEY], 10.0)
        if seen.dead:
            raise SandboxError("the judging box died while the verifier ran", where=task.id)
        if seen.code != 0 or seen.out.dropped:
            raise VerifierError(f"cannot look at {LOGS}: {_said(seen)}", where=task.id)
        lines = [line.partition(" ") for line in seen.out.text.splitlines()]
        kinds = {name: kind for name, _, kind in lines if name in FILES}
        return kinds, {name for word, _, name in lines if word == "test"}


def _with(verdict: Verdict, found: dict[str, str]) -> Verdict:
    flags = tuple(sorted({*verdict.flags, *found}))
    return msgspec.structs.replace(verdict, flags=flags, evidence={**verdict.evidence, **found})


def verdict(as_json: bytes | None, as_text: bytes | None, said: str) -> Verdict:
    """The verdict from the reward files' contents (None: no such file)."""
    try:
        parts = _numbers(as_json) if as_json is not None else _number(as_text or b"")
    except ValueError as error:
        return invalid(f"the reward cannot be read: {error}; {said}")
    if "reward" not in parts and len(parts) != 1:
        return invalid(f"reward.json has no entry `reward` among {sorted(parts)[:20]}; {said}")
    score = parts["reward"] if "reward" in parts else next(iter(parts.values()))
    evidence = {}
    if as_json is not None and as_text is not None:
        try:
            agree = _number(as_text)["reward"] == score
        except ValueError:
            agree = False
        words = as_text[:20].decode("utf-8", "replace").strip()
        evidence = {} if agree else {"REWARD_MISMATCH": f"reward.json {score:g}, txt {words!r}"}
    note = "" if 0.0 <= score <= 1.0 else f"reward {score:g} was clipped to 0..1"
    clipped = min(1.0, max(0.0, score))
    return Verdict("reward", clipped, parts, note, tuple(evidence), evidence)


def _numbers(data: bytes) -> dict[str, float]:
    """An object of finite numbers; booleans count as 1 and 0. Raises ValueError."""
    try:
        found = json.loads(_text(data, "reward.json"))
    except RecursionError:
        raise ValueError("reward.json is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"reward.json is not JSON: {error}") from None
    if not isinstance(found, dict) or not found:
        raise ValueError("reward.json is not an object of numbers")
    numbers = {}
    for key, value in found.items():
        if not isinstance(value, (int, float)) or abs(value) > 1e300 or not math.isfinite(value):
            raise ValueError(f"reward.json: {key[:80]} is not a finite number")
        numbers[key] = float(value)
    return numbers


def _number(data: bytes) -> dict[str, float]:
    """One finite number. Raises ValueError."""
    text = _text(data, "reward.txt").strip()
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"reward.txt holds {text[:40]!r}, which is no number") from None
    if not math.isfinite(value):
        raise ValueError("reward.txt is not finite")
    return {"reward": value}


def _text(data: bytes, name: str) -> str:
    """What a reward file says. Raises ValueError."""
    if not data.strip():
        raise ValueError(f"{name} is empty")
    if len(data) > BYTES:
        raise ValueError(f"{name} is larger than {BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8") from None


async def _file(sandbox: Sandbox, name: str) -> bytes | None:
    """None where there is none; one too large for the wire is as good as one too large to read."""
    try:
        return await sandbox.read(f"{LOGS}/{name}")
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EFBIG:
            return b"0" * (BYTES + 1)
        raise


def _said(result: ExecResult) -> str:
    return (result.out.text + result.err.text).strip()[-300:] or "it printed nothing"
