"""`agentrl runs`."""

import argparse
import json
import sys
import time
from pathlib import Path

import msgspec

from agentrl.run.runs import RunFile, find_run, list_runs, read_run
from agentrl.run.schema import RUN


def main(args: argparse.Namespace) -> int:
    """List runs, newest last, or show one."""
    if args.run is None:
        found = list_runs(args.runs)
    else:
        folder = find_run(args.run, args.runs)
        found = [(folder, read_run(folder))]
    if args.json:
        print(json.dumps({"runs": [_record(path, run) for path, run in found]}))
        return 0
    if not found:
        print(f"no runs in {args.runs}", file=sys.stderr)
        return 0
    width = max(len(run.id) for _, run in found)
    for _, run in found:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created))
        why = f"  {run.why}" if run.why else ""
        print(f"{run.id:<{width}}  {run.state:<11}  step {run.step}/{run.of}  {began}{why}")
    return 0


def _record(path: Path, run: RunFile) -> dict[str, object]:
    fields = msgspec.to_builtins(run) | {"dir": str(path)}
    return {name: fields[name] for name in RUN}
