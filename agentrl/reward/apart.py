"""Run tests in a process that never imports the code they test; a script for inside a box.

python apart.py SPEC.json: the file is read and removed before any code under test is started. It
holds `files` (label, source) and `roots` (importable names of the code base, which lies in the
current directory). Test code runs here; a name of the code base is a stand-in that has
`worker.py`, a program of its own, do the call; only plain values cross. The last line printed is
the report.
"""

import base64
import builtins
import ctypes
import json
import math
import os
import signal
import socket
import sys
import time
import types
import zlib
from collections.abc import Callable
from typing import Any, NoReturn

from agentrl.envs.tools import pyrunner
from agentrl.reward.worker import pack, unpack

FRAME = 8_000_000
LINE = 30_000
"""Bytes of the report's line: what is certain to be kept of the output's end."""


class Gone(Exception):
    """The process that runs the code under test has ended."""


class Odd(Exception):
    """What came back is no plain value, so nothing can be said of it."""


class Raised(Exception):
    """The code under test raised something of its own."""


class Worker:
    """The process with the code under test, started when it is first asked something."""

    def __init__(self, script: str, paths: list[str]) -> None:
        self.argv = [sys.executable or "/usr/bin/python3", "-I", "-S", "-B", script, *paths]
        self.wire: Any = None
        self.pid = 0
        self.exits = ""
        self.values: list[Any] = []

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        actions.append((os.POSIX_SPAWN_DUP2, theirs.fileno(), 3))
        env = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ
        }
        self.pid = os.posix_spawn(self.argv[0], self.argv, env, file_actions=actions, setsid=True)
        theirs.close()
        os.close(null)
        self.wire = ours

    def stop(self, patience_s: float = 0.0) -> int:
        """Kill it and all of its session; the status it ended with, by itself or so."""
        if self.wire is None:
            return 0
        self.wire.close()
        self.wire = None
        end = time.monotonic() + patience_s
        done, status = os.waitpid(self.pid, os.WNOHANG)
        while not done and time.monotonic() < end:
            time.sleep(0.005)
            done, status = os.waitpid(self.pid, os.WNOHANG)
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if not done:
            status = os.waitpid(self.pid, 0)[1]
        return status

    def ask(self, op: str, path: str, args: Any = (), named: Any = None) -> Any:
        """The value, or a stand-in. Raises what the code raised, Gone and Odd."""
        if self.wire is None:
            self.start()
        words = {
            "op": op,
            "path": path,
            "args": [pack(part) for part in args],
            "named": {name: pack(part) for name, part in (named or {}).items()},
        }
        data = json.dumps(words).encode()
        try:
            self.wire.sendall(len(data).to_bytes(4, "big") + data)
            size = int.from_bytes(self.receive(4), "big")
            if size > FRAME:
                raise Gone("the process ended: it said too much")
            reply = json.loads(self.receive(size))
        except (OSError, Gone, ValueError, RecursionError) as error:
            # A dying process hangs up before it can be waited for.
            if self.stop(patience_s=0.3) == 0 and not str(error).endswith("much"):
                self.exits = self.exits or f"the process ended while {path} was at work"
            raise Gone("the process ended") from None
        return self.read(op, path, reply)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.wire.recv(min(count - len(data), 1 << 20))
            if not chunk:
                raise Gone("the process ended")
            data += chunk
        return data

    def read(self, op: str, path: str, reply: Any) -> Any:
        if type(reply) is not dict:
            raise Odd(f"{path} gave no answer")
        if "raised" in reply:
            self.throw(op, path, reply)
        if "value" in reply:
            try:
                value = unpack(reply["value"])
            except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
                raise Odd(f"{path} gave no plain value") from None
            self.values[:] = [value]
            return value
        if op == "call":
            raise Odd(f"{path} returned {reply.get('kind')}, which is no plain value")
        return Named(self, path)

    def throw(self, op: str, path: str, reply: dict[str, Any]) -> NoReturn:
        kind = vars(builtins).get(str(reply["raised"]))
        text = str(reply.get("text", ""))
        if reply["raised"] == "SystemExit" and op != "call":
            self.exits = self.exits or f"SystemExit while {path} was imported"
        known = isinstance(kind, type) and issubclass(kind, (Exception, SystemExit))
        if isinstance(kind, type) and known and kind.__name__ == reply.get("kind"):
            try:
                raised = kind(text)
            except TypeError:  # some take more than words
                raise Raised(f"{kind.__name__}: {text}") from None
            raise raised
        raise Raised(f"{reply.get('kind')}: {text}")


class Named:
    """A stand-in for a module, function or class of the code base."""

    def __init__(self, worker: Worker, path: str) -> None:
        self.__dict__["@worker"], self.__dict__["@path"] = worker, path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        here = self.__dict__
        return here["@worker"].ask("get", f"{here['@path']}.{name}")

    def __call__(self, *args: Any, **named: Any) -> Any:
        here = self.__dict__
        return here["@worker"].ask("call", here["@path"], args, named)

    def __eq__(self, other: object) -> bool:
        raise Odd(f"{self.__dict__['@path']} is no plain value")

    __hash__ = None  # type: ignore[assignment]


def importer(worker: Worker, roots: list[str]) -> Callable[..., Any]:
    """`__import__` for test code."""

    def find(
        name: str, space: Any = None, inner: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if level or name.split(".")[0] not in roots:
            return __import__(name, space, inner, fromlist, level)
        worker.ask("import", name)
        return Named(worker, name if fromlist else name.split(".")[0])

    return find


def run_file(
    label: str, source: str, worker: Worker, roots: list[str], report: dict[str, Any]
) -> None:
    """Enter what one file's tests come to."""
    name = os.path.join(os.getcwd(), label)
    file = pyrunner.File(name, os.getcwd())
    found: list[tuple[str, Callable[[], Any]]] = []
    names = {**vars(builtins), "__import__": importer(worker, roots)}

    def load() -> None:
        title = os.path.splitext(os.path.basename(name))[0]
        module: types.ModuleType = file.load(title, source, __builtins__=names)
        found.extend(pyrunner.tests_in(module, label))

    outcome, why = file.attempt(load)
    if outcome != "passed":
        report["errors"][label] = why
        worker.stop()
    if os.environ.get(pyrunner.ORDER) == "reversed":
        found.reverse()
    for test, run in found:
        worker.values.clear()
        outcome, why = file.attempt(run)
        report["results"][test] = [outcome, why]
        if why.startswith("timed out"):
            worker.stop()
        if outcome == "failed" and any(
            isinstance(v, float) and not math.isfinite(v) for v in worker.values
        ):
            report["nan"] = test


def line(report: dict[str, Any]) -> str:
    """The report on one line; where there is too much to say, the reasons are left out."""
    for room in (200, 60, 0):
        short = {name: [kind, why[:room]] for name, (kind, why) in report["results"].items()}
        data = json.dumps({**report, "results": short}).encode()
        text = base64.b64encode(zlib.compress(data)).decode()
        if len(text) < LINE:
            break
    return f"report {text}"


def main(spec_path: str) -> int:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody may look into this process
    with open(spec_path, encoding="utf-8") as stream:
        spec = json.load(stream)
    os.unlink(spec_path)
    here = os.path.dirname(os.path.abspath(spec_path))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]

    def late(signum: int, frame: object) -> None:
        raise pyrunner.TooLong

    signal.signal(signal.SIGALRM, late)
    workdir = os.getcwd()
    worker = Worker(os.path.join(here, "worker.py"), [workdir, os.path.join(workdir, "tests")])
    report: dict[str, Any] = {"results": {}, "errors": {}, "replaced": []}
    for label, source in spec["files"]:
        run_file(label, source, worker, spec["roots"], report)
    worker.stop()
    report["exits"] = worker.exits
    sys.stdout.write("\n" + line(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
