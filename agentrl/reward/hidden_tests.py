"""Judge code by tests its author has not seen."""

import hashlib
import json
import posixpath
import sys
from secrets import token_hex
from typing import Any

from agentrl.envs.sandbox import ExecResult, Sandbox
from agentrl.envs.tools.tests import RUNNER
from agentrl.errors import VerifierError
from agentrl.reward import scan
from agentrl.task import Task
from agentrl.trajectory.records import Trajectory, Verdict, invalid, scored

PUBLIC = "tests/"
HIDDEN = "hidden/"
SCORELESS = {"EARLY_EXIT", "FRAME_INSPECT", "IMPORT_HOOK", "MONKEYPATCH", "REPORT_FORGED"}
"""Flags precise enough to cost the whole score; the others only inform."""

ENDED = ("SystemExit", "the process ended")
"""How the runner tells of code that ends its process while it is imported."""

HOOKS = ("sitecustomize.py", "usercustomize.py", "conftest.py")


class HiddenTestsVerifier:
    """Runs hidden and public tests on the code the agent left; only required ids count.

    `task.tests` holds `hidden/test_*.py`; `task.files` the public `tests/test_*.py`, which are put
    back as they were. `task.meta["expected_tests"]` lists the ids that must be seen to pass, as
    `hidden/test_a.py::test_b`, `tests/test_a.py::Class::test_b`; one that is missing, skipped or
    broken has failed. Score: 1.0 where all pass, else half the share that passed, so that partial
    credit never comes near success.

    Flags: `TEST_TAMPER` the public tests were edited; `SHADOW_MODULE`, `RUNNER_HOOK` files that
    would have been imported in place of the judge's (they are removed); what `scan` finds;
    `MONKEYPATCH` found in the act; `REPORT_FORGED`. Those in SCORELESS make the score 0.

    `invalid` where no id is required. Raises VerifierError where the box cannot be prepared or a
    required id is in no test file.
    """

    async def verify(self, task: Task, trajectory: Trajectory, sandbox: Sandbox) -> Verdict:
        required = required_ids(task)
        if not required:
            return invalid("no test is required: meta['expected_tests'] is empty")
        found = await prepare(task, sandbox)
        out = f"/tmp/.report-{token_hex(12)}.json"
        await sandbox.write("/tests/pyrunner.py", RUNNER)
        argv = ["@python", "/tests/pyrunner.py", "--report", out, "/tests/hidden"]
        argv += ["tests"] if _public(task) else []
        result = await sandbox.exec(argv, task.limits.verifier_s)
        if result.timed_out:
            return _flagged(scored(0.0, note="the tests ran out of time"), found)
        report = await _report(sandbox, out, result)
        if report is None:
            if result.code in (0, 1):
                found.add("REPORT_FORGED")
            said = result.err.text.strip()[-200:]
            return _flagged(scored(0.0, note=f"the tests gave no report {said}".strip()), found)
        if report["replaced"]:
            found.add("MONKEYPATCH")
        if any(why.startswith(ENDED) for why in report["errors"].values()):
            found.add("EARLY_EXIT")
        return _flagged(grade(required, report), found)


def required_ids(task: Task) -> list[str]:
    """The ids that must pass. Raises VerifierError where one names no test file of the task."""
    required = list(dict.fromkeys(task.meta.get("expected_tests", [])))
    for name in required:
        path = str(name).split("::")[0]
        known = task.files if path.startswith(PUBLIC) else task.tests
        if path not in known or "::" not in str(name):
            raise VerifierError(f"expected test {name!r} is in no test file", where=task.id)
    return required


def grade(required: list[str], report: dict[str, Any]) -> Verdict:
    """A part for each required id; 1.0 for all, else half the share that passed."""
    results = report["results"]
    parts = {name: float(results.get(name, [""])[0] == "passed") for name in required}
    share = sum(parts.values()) / len(parts)
    failed = [name for name in required if not parts[name]]
    whys = [results[name][1] if name in results else "not seen" for name in failed[:1]]
    whys += list(report["errors"].values())[:1]
    note = (
        f"failed {len(failed)} of {len(required)}: {failed[0]}: {'; '.join(whys)}" if failed else ""
    )
    return scored(1.0 if not failed else share * 0.5, parts, note[:400])


async def prepare(task: Task, sandbox: Sandbox) -> set[str]:
    """Put the public tests back, remove what would be imported in the judge's place; flags."""
    listed = await sandbox.exec(["find", ".", "-type", "f", "-printf", "%P\\0"])
    if listed.code != 0 or listed.dead:
        raise VerifierError("cannot list the workdir", where=task.id)
    if listed.out.dropped:
        raise VerifierError("the workdir holds too many files to judge", where=task.id)
    paths = [name.decode("utf-8", "surrogateescape") for name in listed.out.data.split(b"\0")[:-1]]
    flags: set[str] = set()
    public = _public(task)
    after: dict[str, bytes] = {}
    for path in paths:
        if path.startswith(PUBLIC):
            if path not in public and not _compiled(path):
                flags.add("TEST_TAMPER")
        elif path.endswith(".py"):
            after[path] = await sandbox.read(path)
    for path, data in public.items():
        if path not in paths or await sandbox.read(path) != data:
            flags.add("TEST_TAMPER")
    bad = [path for path in paths if path not in task.files and (flag := _shadow(path))]
    flags |= {flag for path in bad if (flag := _shadow(path))}
    compiled = [path for path in paths if _compiled(path)]
    await _remove(sandbox, [PUBLIC, *bad, *compiled], task)
    folders = sorted({posixpath.dirname(path) for path in public})
    if folders:
        made = await sandbox.exec(["mkdir", "-p", "--", *folders])
        if made.code != 0:
            raise VerifierError(f"cannot restore {PUBLIC}: {made.err.text}", where=task.id)
    for path, data in public.items():
        await sandbox.write(path, data)
    return flags | set(scan.flags(task.files, after))


async def _remove(sandbox: Sandbox, paths: list[str], task: Task) -> None:
    for at in range(0, len(paths), 200):
        names = [f"./{path}" for path in paths[at : at + 200]]
        gone = await sandbox.exec(["rm", "-rf", "--", *names])
        if gone.code != 0:
            raise VerifierError(f"cannot clear the workdir: {gone.err.text}", where=task.id)


def _public(task: Task) -> dict[str, bytes]:
    return {path: data for path, data in task.files.items() if path.startswith(PUBLIC)}


def _compiled(path: str) -> bool:
    return path.endswith((".pyc", ".pyo"))


def _shadow(path: str) -> str | None:
    """The flag of a new file that Python would import or run in place of its own."""
    name = path.rsplit("/", 1)[-1]
    if name in HOOKS or name.endswith(".pth") or ".dist-info/" in path:
        return "RUNNER_HOOK"
    top = path.split("/", 1)[0].split(".", 1)[0]
    importable = "/" in path or path.endswith((".py", ".so"))
    return "SHADOW_MODULE" if importable and top in sys.stdlib_module_names else None


async def _report(sandbox: Sandbox, path: str, result: ExecResult) -> dict[str, Any] | None:
    """The runner's report, if it is the one whose digest the runner printed last."""
    lines = result.out.text.splitlines()
    try:
        data = await sandbox.read(path)
    except OSError:
        return None
    if not lines or lines[-1] != f"report {hashlib.sha256(data).hexdigest()}":
        return None
    report: dict[str, Any] = json.loads(data)
    return report


def _flagged(verdict: Verdict, flags: set[str]) -> Verdict:
    score = 0.0 if flags & SCORELESS else verdict.score
    return Verdict("reward", score, verdict.parts, verdict.note, tuple(sorted(flags)))
