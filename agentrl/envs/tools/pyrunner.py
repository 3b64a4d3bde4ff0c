"""Run folders of Python tests. `tests.py` makes it, with `pyasserts.py`, one script for the box.

    python pyrunner.py tests                          one line a failing test, then the counts
    python pyrunner.py --report OUT.json hidden tests  a report, and its digest as the last line;
                                                      the first folder is read, then removed

Each test file runs in a process of its own, forked from one that never imports the code under
test, holds the report and is the only one connected to the caller. What counts is what that
process was told about each test, never an exit status or printed words. A file whose process
ends early, whose asserts no longer fail when they must, or which replaced builtins has no passes.
"""

import ast
import builtins
import ctypes
import hashlib
import json
import math
import os
import select
import shutil
import signal
import sys
import time
import traceback
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from agentrl.envs.tools.pyasserts import Asserts, Notes, brief, equal

TEST_S = 5
"""Seconds one test may take; a file's import counts as one."""
SILENCE_S = 7.0
"""Seconds without news after which a file's process is killed."""
ORDER = "AGENTRL_TEST_ORDER"
"""Set to `reversed`, each file's tests run from the last to the first."""
SHOWN = 8
DETAIL = 200

_write, _exit, _token = os.write, os._exit, os.urandom


class TooLong(BaseException):
    """A test ran into its time limit; no `except Exception` stops it."""


# --- one file, in its own process ---------------------------------------------------------------


class Outcomes(unittest.TestResult):
    """Keeps the first trouble of a unittest case as an exception, or that it was skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble: BaseException | None = None
        self.skips = ""

    def addError(self, test: Any, err: Any) -> None:
        self.trouble = self.trouble or err[1]

    def addFailure(self, test: Any, err: Any) -> None:
        self.trouble = self.trouble or err[1]

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.trouble = self.trouble or err[1]

    def addSkip(self, test: Any, reason: str) -> None:
        self.skips = reason or "skipped"

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.skips = "expected failure"

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.trouble = self.trouble or AssertionError("unexpected success")


class File:
    """A test file being run: its asserts by line, and what they last saw."""

    def __init__(self, path: str, workdir: str) -> None:
        self.path, self.workdir = path, workdir
        self.notes = Notes()
        self.asserts: dict[int, str] = {}

    def load(self, name: str, source: str, **more: Any) -> types.ModuleType:
        """Execute the file with its asserts instrumented and `more` among its names."""
        tree = ast.parse(source, self.path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                self.asserts[node.lineno] = " ".join(ast.unparse(node.test).split())
        code = compile(ast.fix_missing_locations(Asserts().visit(tree)), self.path, "exec")
        module = types.ModuleType(name)
        module.__dict__.update({"__file__": self.path, "@equal": equal, "@note": self.notes.note})
        module.__dict__.update(more)
        sys.modules[name] = module
        exec(code, module.__dict__)
        return module

    def attempt(self, test: Callable[[], Any]) -> tuple[str, str]:
        """Run one test under its time limit: (`passed` | `failed` | `skipped` | `error`, why)."""
        self.notes.seen.clear()
        signal.setitimer(signal.ITIMER_REAL, TEST_S, 0.5)
        try:
            trouble = test()
            if isinstance(trouble, tuple):
                return trouble
            return "passed", ""
        except unittest.SkipTest as error:
            return "skipped", str(error)
        except BaseException as error:
            return "failed", self.explain(error)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def explain(self, error: BaseException) -> str:
        """`AssertionError: assert add(2, 3) == 5 (got 6)`, or the error and where it arose."""
        if isinstance(error, TooLong):
            return f"timed out after {TEST_S} s"
        frames = traceback.extract_tb(error.__traceback__)
        kind, text = type(error).__name__, " ".join(str(error).split())
        here = [f for f in frames if f.filename == self.path]
        if isinstance(error, AssertionError) and frames and frames[-1].filename == self.path:
            shown = self.asserts.get(here[-1].lineno or 0, "")
            if shown:
                got = f" (got {brief(self.notes.seen[0])})" if self.notes.seen else ""
                return f"{kind}: assert {shown}{got}" + (f": {text}" if text else "")
        inner = [f for f in frames if f.filename.startswith(self.workdir + os.sep)]
        if isinstance(error, SyntaxError) and error.filename:
            where = f" ({os.path.relpath(error.filename, self.workdir)}:{error.lineno})"
            return f"{kind}: {error.msg}{where}"
        place = inner[-1] if inner else None
        where = ""
        if place is not None and not isinstance(error, AssertionError):
            where = f" ({os.path.relpath(place.filename, self.workdir)}:{place.lineno})"
        return (f"{kind}: {text}" if text else kind) + where


def tests_in(module: types.ModuleType, label: str) -> list[tuple[str, Callable[[], Any]]]:
    """Every test of a module, in order: `test_*` functions, unittest cases, `Test*` classes."""
    found: list[tuple[str, Callable[[], Any]]] = []
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType) and name.startswith("test_"):
            found.append((f"{label}::{name}", value))
        elif isinstance(value, type) and issubclass(value, unittest.TestCase):
            for method in unittest.defaultTestLoader.getTestCaseNames(value):
                found.append((f"{label}::{name}::{method}", _case(value, method)))
        elif isinstance(value, type) and name.startswith("Test"):
            methods = [m for m in vars(value) if m.startswith("test_")]
            found += [(f"{label}::{name}::{m}", _method(value, m)) for m in methods]
    return found


def _case(kind: type[unittest.TestCase], method: str) -> Callable[[], Any]:
    def run() -> Any:
        outcomes = Outcomes()
        unittest.TestSuite([kind(method)]).run(outcomes)
        if outcomes.trouble is not None:
            raise outcomes.trouble
        return ("skipped", outcomes.skips) if outcomes.skips else None

    return run


def _method(kind: type, method: str) -> Callable[[], Any]:
    def run() -> None:
        instance = kind()
        getattr(instance, "setup_method", lambda: None)()
        try:
            getattr(instance, method)()
        finally:
            getattr(instance, "teardown_method", lambda: None)()

    return run


def watched() -> dict[str, Any]:
    """What no honest code replaces, by name."""
    spaces = {"builtins": builtins, "unittest": unittest.TestCase, "math": math}
    return {f"{at}.{k}": v for at, space in spaces.items() for k, v in vars(space).items()} | {
        f"runner.{k}": v for k, v in globals().items() if isinstance(v, (type, types.FunctionType))
    }


def checked_equal(self: unittest.TestCase, first: Any, second: Any, msg: Any = None) -> None:
    """`TestCase.assertEqual`, not talked round by an `__eq__`."""
    equal(first, second)
    _assert_equal(self, first, second, msg)


_assert_equal = unittest.TestCase.assertEqual


def canaries(file: File) -> bool:
    """Whether an assert that must fail still fails, and one that must pass passes."""
    module = types.ModuleType("canary")
    module.__dict__.update({"@equal": equal, "@note": file.notes.note, "unittest": unittest})
    source = (
        "def bad():\n    assert 1 == 2\ndef good():\n    assert 1 == 1\n"
        "def case():\n    unittest.TestCase().assertEqual(1, 2)\n"
        "def true():\n    unittest.TestCase().assertTrue(0)\n"
    )
    exec(
        compile(ast.fix_missing_locations(Asserts().visit(ast.parse(source))), "c", "exec"),
        module.__dict__,
    )
    seen = [file.attempt(getattr(module, name))[0] for name in ("bad", "case", "true", "good")]
    return seen == ["failed", "failed", "failed", "passed"]


def child(path: str, label: str, source: str, pipe: int, key: str) -> None:
    """Run one file and tell the parent; never returns."""

    def tell(kind: str, name: str = "", outcome: str = "", why: str = "") -> None:
        words = [key, kind, *(part.encode("utf-8", "replace").hex() for part in (name, why))]
        _write(pipe, "\t".join([*words, outcome]).encode() + b"\n")

    def late(signum: int, frame: object) -> None:
        raise TooLong

    workdir = os.getcwd()
    file = File(path, workdir)
    signal.signal(signal.SIGALRM, late)
    sys.argv = [path]
    own = os.path.dirname(os.path.abspath(__file__))
    rest = [entry for entry in sys.path if entry and os.path.abspath(entry) != own]
    sys.path[:] = [workdir, os.path.dirname(path), *rest]
    sys.modules["__main__"] = types.ModuleType("__main__")
    unittest.TestCase.assertEqual = checked_equal  # type: ignore[method-assign]
    before = watched()
    found: list[tuple[str, Callable[[], Any]]] = []

    def load() -> None:
        name = os.path.splitext(os.path.basename(path))[0]
        found.extend(tests_in(file.load(name, source), label))
        if os.environ.get(ORDER) == "reversed":
            found.reverse()

    outcome, why = file.attempt(load)
    if outcome != "passed":
        tell("broken", why=why)
    for name, _ in found:
        tell("found", name)
    for name, test in found:
        outcome, why = file.attempt(test)
        tell("ran", name, outcome, why)
    after = watched()
    for name in [k for k, v in before.items() if after.get(k) is not v]:
        tell("replaced", name)
    if not canaries(file):
        tell("replaced", "assert")
    tell("end")
    _exit(0)


# --- the process that keeps the score -----------------------------------------------------------


def run_file(path: str, label: str, source: str, report: dict[str, Any]) -> None:
    """Fork a process for one file and enter what it tells into the report."""
    key = _token(16).hex()
    inward, outward = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            os.close(inward)
            child(path, label, source, outward, key)
        finally:
            os._exit(1)
    os.close(outward)
    try:
        told = listen(inward)
    finally:
        os.close(inward)
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    enter(label, [line[1:] for line in told if line[0] == key and len(line) == 5], report)


def listen(pipe: int) -> list[list[str]]:
    """Lines from a file's process, until it says `end`, hangs up or falls silent."""
    data = b""
    deadline = time.monotonic() + SILENCE_S
    while (left := deadline - time.monotonic()) > 0 and len(data) < 4_000_000:
        if not select.select([pipe], [], [], left)[0]:
            break
        chunk = os.read(pipe, 65_536)
        data += chunk
        if not chunk or b"\tend\t" in data[-400:]:
            break
        deadline = time.monotonic() + SILENCE_S
    return [line.split("\t") for line in data.decode("ascii", "replace").splitlines()]


def enter(label: str, told: list[list[str]], report: dict[str, Any]) -> None:
    """Add one file's lines. Without an `end`, or with something replaced, nothing passed."""
    results: dict[str, list[str]] = {}
    complete, replaced, broken = False, [], ""
    for kind, name_hex, why_hex, outcome in told:
        name, why = (bytes.fromhex(h).decode("utf-8", "replace") for h in (name_hex, why_hex))
        if kind == "found":
            results[name] = ["error", "the process ended before this test did"]
        elif kind == "ran" and name in results:
            results[name] = [outcome, why]
        elif kind == "replaced":
            replaced.append(name)
        elif kind == "broken":
            broken = why
        complete = complete or kind == "end"
    if broken or (not complete and not results):
        report["errors"][label] = broken or "the process ended during import"
    if replaced or not complete:
        why = f"{', '.join(replaced)[:80]} was replaced" if replaced else "the process ended early"
        results = {k: ["error", why] if v[0] == "passed" else v for k, v in results.items()}
    report["replaced"] += replaced
    report["results"].update(results)


def tests_below(folder: str) -> Iterator[tuple[str, str, str]]:
    """Path, label and source of each test file, in order."""
    top = os.path.abspath(folder)
    for at, folders, names in sorted(os.walk(top)):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(names):
            if name.startswith("test_") and name.endswith(".py"):
                path = os.path.join(at, name)
                label = os.path.join(os.path.basename(top), os.path.relpath(path, top))
                with open(path, encoding="utf-8") as stream:
                    yield path, label, stream.read()


def main(arguments: list[str]) -> int:
    """Run the folders given. 0 where at least one test ran and all passed."""
    out = arguments[1] if arguments[:1] == ["--report"] else ""
    report: dict[str, Any] = {"results": {}, "errors": {}, "replaced": []}
    sys.dont_write_bytecode = True
    sys.argv = sys.argv[:1]
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: no sibling may open our descriptors
    files = [
        file for folder in (arguments[2:] if out else arguments) for file in tests_below(folder)
    ]
    if out:  # read already, and of no more use to anyone but the code under test
        shutil.rmtree(arguments[2])
    for path, label, source in files:
        run_file(path, label, source, report)
    if out:
        data = json.dumps(report).encode()
        with open(out, "wb") as stream:
            stream.write(data)
        print("report", hashlib.sha256(data).hexdigest())
    else:
        print(summary(report))
    results = report["results"].values()
    fine = bool(results) and not report["errors"] and all(r[0] == "passed" for r in results)
    return 0 if fine else 1


def summary(report: dict[str, Any]) -> str:
    """One line a failing test and the counts."""
    results = report["results"].items()
    lines = [f"ERROR {label}: {why}"[:DETAIL] for label, why in report["errors"].items()]
    bad = [(name, why) for name, (outcome, why) in results if outcome in ("failed", "error")]
    lines += [f"FAIL {name}: {why}"[:DETAIL] for name, why in bad]
    if len(lines) > SHOWN:
        lines[SHOWN:] = [f"[... and {len(lines) - SHOWN} more]"]
    skipped = sum(outcome == "skipped" for _, (outcome, _) in results)
    failed = len(bad)
    counts = [f"{len(results) - failed - skipped} passed", f"{failed} failed"]
    counts += [f"{skipped} skipped"] if skipped else []
    counts += [f"{len(report['errors'])} errors"] if report["errors"] else []
    return "\n".join([*lines, ", ".join(counts) if results or lines else "no tests found"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
