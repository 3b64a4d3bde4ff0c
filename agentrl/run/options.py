"""What the verbs of evaluation take. Only argparse here, so that help costs nothing."""

import argparse
from collections.abc import Callable

Options = Callable[[argparse.ArgumentParser], None]


def evaluation(run_options: Options) -> Options:
    """Options of `eval`: those of a verb that builds a run, and who plays what for how much."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("checkpoint", nargs="?", help="RUN, RUN@STEP, a model folder or a URL")
        _evaluation(parser, run_options)
        parser.add_argument("--suite", metavar="DIR", help="every task folder below, not the env's")

    return add


def bench(run_options: Options) -> Options:
    """Options of `bench`."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("target", metavar="SUITE", help="terminal, ..., or a folder of tasks")
        parser.add_argument("checkpoint", nargs="?", help="RUN, RUN@STEP, a model folder or a URL")
        _evaluation(parser, run_options)
        parser.set_defaults(suite=None)

    return add


def _evaluation(parser: argparse.ArgumentParser, run_options: Options) -> None:
    run_options(parser)
    who = parser.add_argument_group("who plays (else `--model`)")
    who.add_argument("--policy", choices=("oracle", "nothing"), help="the tasks' own solution, ...")
    who.add_argument("--base-url", metavar="URL", help="OpenAI-compatible endpoint, ends in /v1")
    who.add_argument("--api-key-env", metavar="VAR", help="variable with its key (OPENAI_API_KEY)")
    who.add_argument("--request-s", type=float, metavar="S", help="longest request (60)")
    who.add_argument("--tokenizer", metavar="PATH", help="counts its contexts (tiny)")
    what = parser.add_argument_group("what, and for how much")
    what.add_argument("--tasks", metavar="GLOB", action="append", help="only tasks so called")
    what.add_argument("--limit", type=int, metavar="N", help="the first N tasks")
    what.add_argument("-k", dest="tries", type=int, metavar="N", help="tries a task (eval.tries)")
    what.add_argument("-j", dest="at_once", type=int, metavar="N", help="episodes side by side")
    budget(what)
    what.add_argument("--fail-under", metavar="X", help="exit 1 below 0.4, or pass@4=0.4")
    what.add_argument("--max-errors", type=float, default=0.1, metavar="SHARE", help="exit 5")


def budget(parser: argparse._ActionsContainer) -> None:
    """What an evaluation may cost; beyond it nothing begins, and it can be resumed."""
    parser.add_argument("--max-tokens", type=int, metavar="N", help="of an evaluation, sampled")
    parser.add_argument("--max-minutes", type=float, metavar="M", help="of an evaluation, wall")


def compare(parser: argparse.ArgumentParser) -> None:
    """Options of `compare`."""
    parser.add_argument(
        "sides", nargs="+", metavar="A B", help="RUN, or RUN@STEP of a training run"
    )
    parser.add_argument("--common", action="store_true", help="only the tasks all of them played")
    parser.add_argument("--alpha", type=float, default=0.05, metavar="P", help="0.05")
    parser.add_argument("--fail-on", choices=("regress", "any"), help="exit 1 where B is worse")


def report(parser: argparse.ArgumentParser) -> None:
    """Options of `report`."""
    parser.add_argument("run", nargs="?", default="@latest", help="path, id, its ending, @latest")
    parser.add_argument("--out", metavar="DIR", help="where to write (RUNS/reports)")
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="episodes of a kind")
