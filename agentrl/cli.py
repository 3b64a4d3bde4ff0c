"""The command line: parse, then import the one verb asked for.

stdout is the answer, stderr the talk. Nothing heavy is imported before a verb runs, so that help
and a mistyped flag cost nothing.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import NoReturn

from agentrl.errors import AgentRLError, ConfigError
from agentrl.run.faults import tell, unexpected
from agentrl.run.options import TOP
from agentrl.verbs import VERBS, Verb

EXIT_CODES = (
    "exit codes: 0 done, yes · 1 done, no · 2 asked wrongly, nothing started · "
    "3 machine not ready\n            4 could not go on, state is on disk · "
    "5 too many episodes broke · 130/143 interrupted/terminated"
)
VIEWERS = ("replay", "watch", "report")
KEYS = """
  @FILE.toml            configuration files, later ones win
  --section.key VALUE   any key of the configuration; `--help-all` lists them
"""


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is an error like any other of ours."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, where=self.prog, help=f"`{self.prog} --help` shows the options")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except AgentRLError as error:
        return tell(error, words)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # a fault of ours: one line, and how to get the rest
        return tell(unexpected(error), words)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if words else 2
    if words[0] == "--version":
        from agentrl import __version__

        print(f"agentrl {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name not in VERBS:
        raise _unknown_verb(name)
    args = _parse(name, rest)
    if args is None:
        return 0
    signal.signal(signal.SIGTERM, _terminated)
    module = importlib.import_module(VERBS[name].module)
    if name in VIEWERS:  # how it looks is the viewer's business; how a run is found is not
        args.viewer = importlib.import_module("agentrl.tui.viewer")
    return int(module.main(args))


def _parse(name: str, words: list[str]) -> argparse.Namespace | None:
    """The verb's arguments; None where help was asked for and has been printed."""
    verb = VERBS[name]
    parser = _parser(name, verb)
    after = words.index("--") if "--" in words else len(words)  # what follows is another's
    words, foreign = words[:after], words[after:]
    if "--help-all" in words and verb.builds:
        parser.print_help()
        print("\nevery key:\n" + _every_key())
        return None
    if "-h" in words or "--help" in words:
        parser.print_help()
        return None
    files: list[Path] = []
    flags: list[tuple[str, str | bool]] = []
    if verb.builds:
        words, files, flags = split_flags(words)
    if not verb.runs_command:
        words += foreign
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise _unknown_flag(name, parser, unknown[0])
    args.verb, args.files, args.flags = name, files, flags
    args.command = foreign[1:]
    args.runs_given = args.runs or os.environ.get("AGENTRL_RUNS")
    args.runs = Path(args.runs_given or "runs")
    return args


def split_flags(
    words: Sequence[str],
) -> tuple[list[str], list[Path], list[tuple[str, str | bool]]]:
    """Take `@file.toml` and configuration flags out of the words; the rest is the verb's own."""
    rest: list[str] = []
    files: list[Path] = []
    flags: list[tuple[str, str | bool]] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("@") and word.endswith(".toml"):
            files.append(Path(word[1:]))
        elif not word.startswith("--") or not ("." in name or name in TOP):
            rest.append(word)
        elif equals:
            flags.append((name, value))
        else:
            flags.append((name, _value_of(name, waiting)))
    return rest, files, flags


def _value_of(name: str, waiting: list[str]) -> str | bool:
    from agentrl.config import flag_takes_value  # pydantic: only where a flag asks for it

    follows = bool(waiting) and not waiting[0].startswith(("--", "@"))
    if not flag_takes_value(name):
        return waiting.pop(0) if follows and waiting[0] in ("true", "false") else True
    if not follows:
        raise ConfigError(
            f"flag --{name} needs a value", where=f"--{name}", help=f"`--{name} VALUE`"
        )
    return waiting.pop(0)


def _parser(name: str, verb: Verb) -> Parser:
    extra = KEYS if verb.builds else ""
    parser = Parser(
        prog=f"agentrl {name}",
        description=verb.about,
        epilog=f"{extra}\nexamples:\n  {verb.examples[0]}\n  {verb.examples[1]}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.options(parser)
    everywhere = parser.add_argument_group("options every verb has")
    everywhere.add_argument("--json", action="store_true", help="the answer as JSON on stdout")
    everywhere.add_argument("--plain", action="store_true", help="no redraw; key=value lines")
    everywhere.add_argument("-q", "--quiet", action="store_true", help="warnings and errors only")
    everywhere.add_argument("--debug", action="store_true", help="tracebacks")
    everywhere.add_argument("--runs", metavar="DIR", help="folder of runs (AGENTRL_RUNS, ./runs)")
    return parser


def _overview() -> str:
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  {name:<{width}}{verb.about}" for name, verb in VERBS.items())
    return (
        "usage: agentrl VERB [TARGET] [options]\n\n"
        "Train tool-using agents on long tasks by reinforcement learning.\n\n"
        f"{verbs}\n\n"
        "`agentrl VERB --help` shows a verb's options.\n\n"
        "examples:\n  agentrl train --env terminal --max-steps 20\n  agentrl replay @latest\n\n"
        f"{EXIT_CODES}"
    )


def _every_key() -> str:
    from agentrl.config.sections import SECTIONS, RunConfig

    lines = []
    for table, model in ({"": RunConfig} | SECTIONS).items():
        for key, field in model.model_fields.items():
            if key not in SECTIONS:
                flag = f"{table}.{key}".lstrip(".").replace("_", "-")
                lines.append(f"  --{flag:<30} {field.default}")
    return "\n".join(lines)


def _unknown_verb(name: str) -> ConfigError:
    if name.startswith("-"):
        return ConfigError(
            f"option {name} stands before the verb",
            where=f"agentrl {name}",
            help="the verb comes first: `agentrl VERB [options]`",
        )
    near = get_close_matches(name, VERBS, 1, 0.5)
    help = f"a verb with a similar name exists: `{near[0]}`" if near else ""
    return ConfigError(
        f"unknown verb {name!r}",
        where=f"agentrl {name}",
        help=help or f"verbs: {', '.join(VERBS)}",
    )


def _unknown_flag(name: str, parser: Parser, word: str) -> ConfigError:
    where = f"agentrl {name} … {word}"
    if not word.startswith("-"):
        files = "; configuration files are written @FILE.toml" if VERBS[name].builds else ""
        return ConfigError(
            f"unexpected argument {word!r}",
            where=where,
            help=f"`agentrl {name} --help` shows what it takes{files}",
        )
    known = [option for action in parser._actions for option in action.option_strings]
    if VERBS[name].builds:
        known += [f"--{flag}" for flag in TOP] + [w for w in _every_key().split() if w[:2] == "--"]
    near = get_close_matches(word.partition("=")[0], known, 1)
    return ConfigError(
        f"unknown flag {word}",
        where=where,
        help=f"a flag with a similar name exists: `{near[0]}`"
        if near
        else f"`agentrl {name} --help` shows the flags",
    )


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
