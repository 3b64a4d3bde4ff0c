"""What an evaluation was asked to do: `eval.json` in its run folder, so that it can go on.

What it came to is `answer.json`, beside it.
"""

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from agentrl.engine.chat_format import Endpoint
from agentrl.errors import ConfigError

NAME, ANSWER = "eval.json", "answer.json"
SCHEMA = 1


class Player(Struct, frozen=True):
    """Who plays: weights in a folder, an endpoint, the tasks' own oracle, or nobody.

    `tokenizer` counts the contexts of an endpoint: a checkpoint folder or `tiny`.
    """

    kind: Literal["checkpoint", "endpoint", "oracle", "nothing"] = "checkpoint"
    folder: str = ""
    endpoint: Endpoint | None = None
    tokenizer: str = "tiny"

    @property
    def name(self) -> str:
        if self.endpoint is not None:
            return f"{self.endpoint.model} at {self.endpoint.base_url}"
        return self.folder or self.kind


class Plan(Struct, frozen=True):
    """Who plays what, and how much it may cost. `suite` empty: the configuration's held-out tasks.

    `most_tokens` (sampled) and `most_minutes` (wall, one attempt) are 0 where nothing limits them:
    no episode begins beyond them, those begun are finished.
    """

    player: Player = Player()
    suite: str = ""
    patterns: tuple[str, ...] = ()
    limit: int = 0
    most_tokens: int = 0
    most_minutes: float = 0.0
    fail_under: str = ""  # e.g. `0.4` or `pass@4=0.4`
    max_errors: float = 0.1  # share of episodes the host may break
    bench: bool = False  # the oracle and doing nothing first
    digest: str = ""  # of the tasks, set when the run is made
    schema: int = SCHEMA


def write(folder: Path, plan: Plan) -> None:
    (folder / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1))


def read(folder: Path) -> Plan:
    """Raises ConfigError where the folder holds no evaluation, or one of a newer agentrl."""
    file = folder / NAME
    try:
        plan = msgspec.json.decode(file.read_bytes(), type=Plan)
    except FileNotFoundError:
        raise ConfigError(
            f"{folder.name} is no evaluation", where=str(folder), help="`agentrl runs` lists them"
        ) from None
    except (msgspec.DecodeError, OSError) as error:
        raise ConfigError(f"{NAME} cannot be read: {error}", where=str(file)) from None
    if plan.schema > SCHEMA:
        raise ConfigError(
            f"{NAME} is of schema {plan.schema}; this agentrl reads up to {SCHEMA}",
            where=str(file),
            help="open it with the version that wrote it, or a newer one",
        )
    return plan
