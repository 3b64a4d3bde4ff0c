"""State keys: when are two steps of siblings "in the same state"?

A key is a function `(trajectory, step) -> str | None`: what names the world as it was before that
step, or None where that is not known. Equal strings mean the same state. The coarser the key, the
more there is to compare with and the more is compared that should not be.

    observation   the words that led to the step, without clocks, pids and other noise
    workspace     what the env named the world by (`Observation.state`)

What the model had in its context is a second key, see `context_key`: the same world after another
history is another state to the policy.
"""

import importlib
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Literal

from agentrl.errors import ConfigError
from agentrl.messages import Message
from agentrl.trajectory.records import Step, Trajectory

StateKey = Callable[[Trajectory, int], str | None]
Context = Literal["none", "rewrite", "full"]

NOISE = (
    (re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]"), ""),  # colours and cursor movements
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d(:\d\d)?( \d{4})?"), "<time>"),  # ls, date
    (re.compile(r"\b\d{1,2}:\d\d:\d\d([.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)?\s?(ns|µs|us|ms|s|sec|secs|seconds)\b"), "<duration>"),
    (re.compile(r"\b0x[0-9a-fA-F]{4,}\b"), "<address>"),
    (re.compile(r"\b(pid|PID|process|Process)([ =:]+)\d+"), r"\1\2<pid>"),
    (re.compile(r"/proc/\d+"), "/proc/<pid>"),
    (re.compile(r"/tmp/[\w.-]+"), "/tmp/<name>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
)


def normalised(text: str) -> str:
    """`text` without what differs between two looks at the same world.

    Clock times, durations, addresses, process numbers, names below /tmp and terminal colours
    become placeholders; trailing blanks and empty lines go. Example: `ran in 0.31s, pid 77` and
    `ran in 2.5 s, pid 9` are the same.
    """
    for pattern, word in NOISE:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def observation(trajectory: Trajectory, step: int) -> str | None:
    """The normalised words before the step; None where nothing was said, so nothing is known.

    A silent command (`mkdir x`) tells no state apart from another, so it is no state.
    """
    heard = trajectory.opening if step == 0 else trajectory.steps[step - 1].seen
    return normalised("\n".join(message.content for message in heard)) or None


def workspace(trajectory: Trajectory, step: int) -> str | None:
    """The env's own name for the world before the step; the first step's is the task itself."""
    if step == 0:
        return f"task {trajectory.task.id}"
    return trajectory.steps[step - 1].state or None


def state_key(name: str) -> StateKey:
    """`observation`, `workspace`, or another one as `module:function`. Raises ConfigError."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, colon, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function) if colon else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the state key {name!r} cannot be loaded: {error}",
            where="credit.key",
            help="it must be importable where the run starts, as `module:function`",
        ) from error
    if not callable(found):
        raise ConfigError(
            f"{name!r} is no state key",
            where="credit.key",
            help=f"{', '.join(BUILT_IN)}, or `module:function` taking (trajectory, step)",
        )
    key: StateKey = found
    return key


def context_key(trajectory: Trajectory, step: int, kind: Context) -> str:
    """What stands for the model's context before a step.

    none      nothing: the world alone counts
    rewrite   the prompt this stretch of context began with, so that only a rewrite tells apart
    full      everything the model saw, token by token (by words where no tokens were recorded)
    """
    if kind == "none":
        return ""
    segment = trajectory.steps[step].segment
    if kind == "rewrite":
        if segment == 0:
            return ""  # the opening, which is the same for all siblings
        first = next(one.tokens for one in trajectory.steps if one.segment == segment)
        return digest(first.context if first else segment)
    stretch = [one for one in trajectory.steps[: step + 1] if one.segment == segment]
    if any(one.tokens is None for one in stretch):
        return digest([words(trajectory.opening), *(said(one) for one in trajectory.steps[:step])])
    sent: list[int] = []
    for one in stretch:
        assert one.tokens is not None
        sent += one.tokens.context
        sent += one.tokens.sampled if one.index < step else []
    return digest(sent)


def said(step: Step) -> str:
    return words((step.reply, *step.seen))


def words(messages: tuple[Message, ...]) -> str:
    return repr([(m.role, m.content, [(c.name, c.arguments) for c in m.calls]) for m in messages])


def digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=12).hexdigest()


BUILT_IN: dict[str, StateKey] = {"observation": observation, "workspace": workspace}
