"""`agentrl eval`."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentrl.errors import ConfigError
from agentrl.run.answers import console, finish, resolve
from agentrl.run.runs import find_run


def main(args: argparse.Namespace) -> int:
    """Measure a checkpoint; exit 1 below `--fail-under`, 5 where too many episodes broke."""
    base, checkpoint = target(args)
    resolved = resolve(args, base)
    if args.print_config:
        print(resolved.annotated(), end="")
        return 0
    from agentrl.run import session  # torch: only where something is about to start

    with console(args) as report:
        answer = session.evaluate(resolved, report, checkpoint)
    return verdict(finish(args, answer), answer, args.fail_under, args.max_errors)


def verdict(
    code: int, answer: Mapping[str, Any], fail_under: float | None, max_errors: float
) -> int:
    """The exit code: interrupted before all else, then broken episodes, then the gate."""
    if code:
        return code
    if answer["masked"] > max_errors * answer["episodes"]:
        return 5
    success = answer["success"]
    return int(fail_under is not None and (success is None or success < fail_under))


def target(args: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """(config of the run, checkpoint folder); both None where the configured model is meant."""
    spec: str | None = args.checkpoint
    if spec is None:
        return None, None
    if Path(spec, "config.json").is_file():
        return None, Path(spec)
    name, _, which = spec.rpartition("@")
    if not name:  # no @, or one that begins a run's name, as in @latest
        name, which = spec, ""
    run = find_run(name, args.runs)
    if args.env:
        raise ConfigError(
            "a run brings its own configuration",
            where=f"--env {args.env}",
            help="leave out --env, or name the weights' folder instead of the run",
        )
    return run / "config.toml", weights_of(run, which)


def weights_of(run: Path, which: str = "") -> Path:
    """The weights of a run after a step, `best`, or the newest. Raises ConfigError."""
    whole = {path.parent.name: path.parent for path in (run / "weights").glob("v*/LIVE")}
    if which == "best":
        wanted = (run / "weights" / "best").resolve().name
    elif which.isdigit():
        wanted = f"v{int(which):06d}"
    else:
        wanted = max(whole, default="") if which in ("", "latest") else which
    if wanted in whole:
        return whole[wanted]
    kept = ", ".join(str(int(name[1:])) for name in sorted(whole)) or "none yet"
    raise ConfigError(
        f"{run.name} has no weights {which or 'yet'}",
        where=str(run / "weights"),
        help=f"steps whose weights are kept: {kept}",
    )
