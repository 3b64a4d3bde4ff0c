"""`agentrl replay`: what agents did, as text that pipes well."""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentrl.errors import ConfigError
from agentrl.run.runs import find_run
from agentrl.trajectory.records import Trajectory
from agentrl.trajectory.store import RunStore


class Address(Struct, frozen=True):
    """`RUN[:EPISODE or :GROUP][#STEP]`; an episode may also be written `s40.g3.e1`."""

    run: str
    place: str = ""
    step: int | None = None


def parse_address(text: str) -> Address:
    """Take an address apart. Raises ConfigError where `#` is not followed by a number."""
    rest, hash_mark, step = text.partition("#")
    if hash_mark and not step.isdigit():
        raise ConfigError(
            f"{step!r} is not a step number", where=text, help="write it as RUN:g3.1#12"
        )
    run, _, place = rest.partition(":")
    place = re.sub(r"^s(\d+|-)\.", "", place)
    place = re.sub(r"\.e(\d+)$", r".\1", place)
    return Address(run or "@latest", place, int(step) if step else None)


def main(args: argparse.Namespace) -> int:
    """Print one episode where the address names one, else the list of episodes.

    `args.lines` and `args.summary` say how an episode and a list of them look.
    """
    if args.failed and args.solved:
        raise ConfigError("`--failed` and `--solved` leave nothing", where="agentrl replay")
    address = parse_address(args.address)
    place = args.episode or args.group or address.place
    folder = find_run(address.run, args.runs)
    store = RunStore(folder)
    episodes = store.trajectories()
    if store.torn:
        print(f"warning: {store.torn} shards end in half a line, left out", file=sys.stderr)
    if place in episodes:
        return _one(args, folder, _at_step(episodes[place], address.step))
    if address.step is not None:
        raise ConfigError(f"#{address.step} needs an episode before it", where=args.address)
    found = _of_group(episodes, place) if place else list(episodes.values())
    chosen = [t for t in found if _wanted(t, args.failed, args.solved)]
    return _many(args, folder, chosen if args.limit is None else chosen[: args.limit], len(found))


def _of_group(episodes: Mapping[str, Trajectory], place: str) -> list[Trajectory]:
    found = [t for t in episodes.values() if t.group == place]
    if found:
        return found
    known = [*dict.fromkeys(t.group for t in episodes.values()), *episodes]
    near = get_close_matches(place, known, 1, 0.3)
    raise ConfigError(
        f"no episode or group is called {place!r}",
        where=f"{len(episodes)} episodes in this run",
        help=f"one with a similar name exists: `{near[0]}`" if near else "leave it out to list all",
    )


def _at_step(trajectory: Trajectory, step: int | None) -> Trajectory:
    """The whole episode, or no more of it than one step."""
    if step is None:
        return trajectory
    if step >= len(trajectory.steps):
        raise ConfigError(
            f"episode {trajectory.id} has no step {step}",
            where=trajectory.id,
            help=f"it has {len(trajectory.steps)}, counted from 0",
        )
    return replace(trajectory, steps=(trajectory.steps[step],))


def _wanted(trajectory: Trajectory, failed: bool, solved: bool) -> bool:
    if failed:
        return trajectory.stop is not None and not trajectory.success
    return trajectory.success or not solved


def _one(args: argparse.Namespace, folder: Path, trajectory: Trajectory) -> int:
    if args.json:
        head = {"run": folder.name, "dir": str(folder)}
        print(json.dumps(head | {"episode": msgspec.to_builtins(trajectory)}))
    else:
        _print(args.lines(trajectory))
    return 0


def _many(args: argparse.Namespace, folder: Path, chosen: list[Trajectory], of: int) -> int:
    if args.json:
        head = {"run": folder.name, "dir": str(folder)}
        print(json.dumps(head | {"episodes": [record(t) for t in chosen]}))
        return 0
    _print(args.summary(chosen))
    if not args.quiet:
        example = chosen[0].id if chosen else "EPISODE"
        print(
            f"{len(chosen)} of {of} episodes      next: agentrl replay {folder}:{example}",
            file=sys.stderr,
        )
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
    sys.stdout.flush()  # a closed pipe is noticed here, where it can be handled


def record(trajectory: Trajectory) -> dict[str, Any]:
    """An episode in a list, as `--json` has it."""
    return dict(_fields(trajectory))


def _fields(t: Trajectory) -> Iterator[tuple[str, Any]]:
    yield "id", t.id
    yield "group", t.group
    yield "task", t.task.id
    yield "stop", t.stop
    yield "success", t.success
    yield "reward", t.reward
    yield "outcome", t.verdict.outcome if t.verdict else None
    yield "steps", len(t.steps)
    yield "segments", t.segments
    yield "malformed", sum(step.malformed for step in t.steps)
    yield "trained_step", t.trained_step
