"""`agentrl sandbox exec | shell | gc | conformance`: a backend, tried by hand or by the suite."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatch
from typing import Any

from msgspec.structs import replace

from agentrl.envs.conformance.kit import Check
from agentrl.envs.conformance.suite import CHECKS, Outcome, suite
from agentrl.envs.sandbox import ExecResult
from agentrl.errors import ConfigError, SandboxError
from agentrl.plugins import find
from agentrl.run.tasks import named
from agentrl.task import SandboxSpec, Task

MARKS = {"kept": "✓", "broken": "✗", "unenforced": "–"}


def main(args: argparse.Namespace) -> int:
    """Do one of the four; 0 for yes, 1 for no."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "exec": execute,
        "shell": shell,
        "gc": collect,
        "conformance": conformance,
    }
    if args.command and args.action != "exec":
        raise ConfigError(
            f"`agentrl sandbox {args.action}` takes no command",
            where=f"agentrl sandbox {args.action} … {args.command[0]}",
            help="`agentrl sandbox exec -- COMMAND` runs one",
        )
    return actions[args.action](args)


def execute(args: argparse.Namespace) -> int:
    """One command in a fresh box, its output passed on byte for byte; 0 where it ended with 0."""
    if not args.command:
        raise ConfigError("no command is given", help="`agentrl sandbox exec -- COMMAND ARGS`")

    async def act() -> ExecResult:
        async with opened(args) as box:
            result: ExecResult = await box.exec(args.command, timeout_s=args.timeout)
            return result

    result = asyncio.run(act())
    if args.json:
        print(json.dumps(record(result)))
    else:
        pass_on(result, args.quiet)
    return 0 if result.code == 0 else 1


def shell(args: argparse.Namespace) -> int:
    """A shell in a fresh box: line by line from a terminal, else all of stdin as one command."""
    results = asyncio.run(_shell(args))
    if args.json:
        print(json.dumps({"commands": [record(result) for result in results]}))
    return 0 if not results or results[-1].code == 0 else 1


async def _shell(args: argparse.Namespace) -> list[ExecResult]:
    results: list[ExecResult] = []
    async with opened(args) as box:
        if not hasattr(box, "shell"):
            raise SandboxError(f"boxes of backend {args.backend!r} have no shell")
        typed = sys.stdin.isatty()
        while True:
            if typed:
                print("box$ ", end="", file=sys.stderr, flush=True)
            command = await asyncio.to_thread(sys.stdin.readline if typed else sys.stdin.read)
            if not command:
                return results
            results.append(await box.shell(command, timeout_s=args.timeout))
            if not args.json:
                pass_on(results[-1], args.quiet)
            if results[-1].dead:
                return results


@asynccontextmanager
async def opened(args: argparse.Namespace) -> AsyncIterator[Any]:
    """A fresh box of the backend asked for, with a task's files and image where one is named."""
    task = Task("by-hand", "by-hand", "", sandbox=SandboxSpec())
    if args.task:
        tasks = named(args.task)
        if len(tasks) != 1:
            raise ConfigError(f"{args.task} holds {len(tasks)} tasks", help="name one of them")
        task = tasks[0]
    if args.image:
        task = replace(task, sandbox=replace(task.sandbox, image=args.image))
    async with backend(args.backend)(task) as box:
        yield box


def backend(name: str) -> Any:
    return find("sandboxes", name)()


def pass_on(result: ExecResult, quiet: bool) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(result.out.data)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(result.err.data)
    sys.stderr.buffer.flush()
    if told := ending(result):
        print(f"({told})", file=sys.stderr)
    elif not quiet and result.code:
        print(f"(exit code {result.code})", file=sys.stderr)


def ending(result: ExecResult) -> str:
    """How a command ended, where an exit code does not say it all."""
    said = []
    if result.timed_out:
        said.append("timed out" if result.timed_out == "total" else "silent for too long")
    if result.limit:
        said.append(f"met its limit: {result.limit}")
    if result.restarted:
        said.append("the shell was started again; its directory and variables are lost")
    if result.dead:
        said.append("the box is gone")
    return "; ".join(said)


def record(result: ExecResult) -> dict[str, Any]:
    return {
        "code": result.code,
        "out": result.out.text,
        "err": result.err.text,
        "dropped": result.out.dropped + result.err.dropped,
        "timed_out": result.timed_out,
        "limit": result.limit,
        "restarted": result.restarted,
        "dead": result.dead,
        "seconds": round(result.seconds, 6),
    }


def collect(args: argparse.Namespace) -> int:
    """Remove what killed harnesses left of this backend's, and nothing else."""
    opener = backend(args.backend)
    if not hasattr(opener, "gc"):
        raise ConfigError(
            f"backend {args.backend!r} cannot collect what it leaves",
            where=f"--backend {args.backend}",
            help="it needs the Collects capability (envs/sandbox.py)",
        )
    removed = opener.gc()
    if args.json:
        print(json.dumps({"backend": args.backend, "removed": removed}))
        return 0
    print("".join(f"removed {name}\n" for name in removed), end="")
    if not args.quiet:
        print(f"{len(removed)} leftovers of {args.backend} removed", file=sys.stderr)
    return 0


def conformance(args: argparse.Namespace) -> int:
    """The exec contract, check by check; 1 where a promise is broken."""
    outcomes = asyncio.run(_conformance(args, chosen(args.only)))
    broken = [outcome for outcome in outcomes if outcome.state == "broken"]
    if args.json:
        rows = [{name: getattr(o, name) for name in o.__struct_fields__} for o in outcomes]
        counts = {state: sum(o.state == state for o in outcomes) for state in MARKS}
        print(json.dumps({"backend": args.backend, **counts, "checks": rows}))
    if not args.quiet:
        least = [outcome for outcome in outcomes if outcome.state == "unenforced"]
        print(
            f"{args.backend}: {len(outcomes) - len(broken) - len(least)} promises kept, "
            f"{len(broken)} broken, {len(least)} not made",
            file=sys.stderr,
        )
    return 1 if broken else 0


def chosen(only: str | None) -> Sequence[Check]:
    """The checks whose name holds these words, or matches the pattern. Raises ConfigError."""
    if only is None:
        return CHECKS
    found = [check for check in CHECKS if only in check.name or fnmatch(check.name, only)]
    if not found:
        names = "".join(f"\n    {check.name}" for check in CHECKS)
        raise ConfigError(
            f"no check is called {only!r}", where=f"--only {only}", help=f"there are:{names}"
        )
    return found


async def _conformance(args: argparse.Namespace, checks: Sequence[Check]) -> list[Outcome]:
    outcomes = []
    async for outcome in suite(backend(args.backend), checks):
        outcomes.append(outcome)
        if not args.json:
            reason = f"\n    {outcome.reason}" if outcome.reason else ""
            print(
                f"{MARKS[outcome.state]} {outcome.name}  {outcome.seconds:.2f} s{reason}",
                flush=True,
            )
    return outcomes
