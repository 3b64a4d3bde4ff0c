"""`agentrl bench`: a policy between the oracle and doing nothing, on any suite."""

import argparse
from pathlib import Path

from agentrl.config import preset_names
from agentrl.errors import ConfigError
from agentrl.run import eval_command


def main(args: argparse.Namespace) -> int:
    """`agentrl eval` with the suite as its target; exit 5 where tasks themselves are broken too."""
    if args.target in preset_names():
        if args.env:
            raise ConfigError("two suites", where=f"--env {args.env}", help="name one of them")
        args.env = args.target
    elif Path(args.target).is_dir():
        args.suite = args.target
    else:
        raise ConfigError(
            f"no suite is named {args.target!r}",
            where=f"agentrl bench {args.target}",
            help=f"there are {', '.join(preset_names())}; or give a folder of tasks",
        )
    return eval_command.main(args)
