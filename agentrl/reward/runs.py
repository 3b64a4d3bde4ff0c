"""Run a task's tests in a judging box: apart from the code they test, or together with it."""

import base64
import hashlib
import json
import zlib
from pathlib import Path
from secrets import randbelow, token_hex
from typing import Any

from agentrl.envs.sandbox import ExecResult, Sandbox
from agentrl.envs.tools.tests import RUNNER
from agentrl.reward.plain import importable
from agentrl.task import Task

PUBLIC = "tests/"
HIDDEN = "hidden/"
_HERE = Path(__file__).parent
WORKER = (_HERE / "worker.py").read_bytes()
APART = (
    (_HERE / "apart.py")
    .read_text("utf-8")
    .replace("from agentrl.envs.tools import pyrunner", "import pyrunner")
    .replace("from agentrl.reward.worker import", "from worker import")
    .encode()
)
ROOM = 60_000_000
"""Bytes a report may unpack to."""

Ran = tuple[dict[str, Any] | None, ExecResult]
"""The report, None where there is none to be believed, and how the runner ended."""


def sources(task: Task) -> list[tuple[str, bytes]]:
    """Label and source of every test file, the hidden ones first."""
    hidden = {name: data for name, data in task.tests.items() if name.startswith(HIDDEN)}
    public = {name: data for name, data in task.files.items() if name.startswith(PUBLIC)}
    return [
        (label, data)
        for files in (hidden, public)
        for label, data in sorted(files.items())
        if label.rsplit("/", 1)[-1].startswith("test_") and label.endswith(".py")
    ]


async def apart(task: Task, sandbox: Sandbox, code: dict[str, bytes]) -> Ran:
    """In a process that never imports `code`; its report comes over the pipe we opened.

    With the tests goes a pair nobody could foresee, of which one must pass and one must fail; where
    they do not, nothing is believed.
    """
    place = f"/tmp/.agentrl-{token_hex(12)}"
    canary, number = f"hidden/test_{token_hex(8)}.py", randbelow(1 << 60)
    trial = f"def test_good():\n    assert {number} == {number}\n\n"
    trial += f"def test_bad():\n    assert {number} == {number + 1}\n"
    files = [(label, data.decode("utf-8", "replace")) for label, data in sources(task)]
    spec = {"files": [*files, (canary, trial)], "roots": importable(code)}
    for name, data in (("pyrunner.py", RUNNER), ("worker.py", WORKER), ("apart.py", APART)):
        await sandbox.write(f"{place}/{name}", data)
    await sandbox.write(f"{place}/spec.json", json.dumps(spec).encode())
    argv = ["@python", f"{place}/apart.py", f"{place}/spec.json"]
    result = await sandbox.exec(argv, task.limits.verifier_s)
    report = _unpacked(result.out.tail or result.out.head)
    if report is None or result.code != 0:
        return None, result
    seen = [
        report["results"].pop(f"{canary}::{name}", [""])[0] for name in ("test_good", "test_bad")
    ]
    return (report if seen == ["passed", "failed"] else None), result


def _unpacked(said: bytes) -> dict[str, Any] | None:
    lines = said.strip().splitlines()
    if not lines or not lines[-1].startswith(b"report "):
        return None
    try:
        opened = zlib.decompressobj()
        data = opened.decompress(base64.b64decode(lines[-1][7:], validate=True), ROOM)
        report: dict[str, Any] = json.loads(data)
    except (ValueError, zlib.error):
        return None
    return report


async def together(task: Task, sandbox: Sandbox, code: dict[str, bytes]) -> Ran:
    """Each test file in one process with the code it imports; another keeps the score."""
    place = f"/tmp/.agentrl-{token_hex(12)}"
    out = f"/tmp/.report-{token_hex(12)}.json"
    for name, data in task.tests.items():
        if name.startswith(HIDDEN):
            await sandbox.write(f"{place}/{name}", data)
    await sandbox.write(f"{place}/pyrunner.py", RUNNER)
    argv = ["@python", f"{place}/pyrunner.py", "--report", out, f"{place}/hidden"]
    argv += ["tests"] if any(name.startswith(PUBLIC) for name in task.files) else []
    result = await sandbox.exec(argv, task.limits.verifier_s)
    return (None if result.timed_out else await _report(sandbox, out, result)), result


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
