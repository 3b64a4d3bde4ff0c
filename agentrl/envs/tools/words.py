"""How the tools speak: short, typed, and never longer than a small context can bear."""

import posixpath
from collections.abc import Mapping
from typing import Any

from agentrl.envs.sandbox import ExecResult
from agentrl.errors import AgentFault
from agentrl.tool import ToolOutput

OUTPUT_BYTES = 1_500
"""What one observation may hold, in bytes of UTF-8, its note about a cut not counted."""

TEXT = {"type": "string"}
"""The JSON schema of every argument here."""


FULL = {"disk": "[the disk is full]", "inodes": "[the disk takes no more files]"}


class Unusable(Exception):
    """The call's arguments cannot be used; the message is the observation."""


def texts(arguments: Mapping[str, Any], *names: str) -> list[str]:
    """The named arguments as strings. Raises Unusable where one is missing or no string."""
    values = []
    for name in names:
        value = arguments.get(name)
        if not isinstance(value, str):
            raise Unusable(f"error: {name} must be a string, not {_kind(value)}")
        if "\0" in value:
            raise Unusable(f"error: {name} holds a NUL byte")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unusable(f"error: {name} is not valid Unicode text") from None
        values.append(value)
    return values


def malformed(error: Unusable) -> ToolOutput:
    """The answer to a call whose arguments cannot be used."""
    return ToolOutput(str(error), malformed=True)


def inside(workdir: str, path: str) -> str | None:
    """`path` relative to the workdir ("." for the workdir itself), or None where it leads out."""
    full = posixpath.normpath(posixpath.join(workdir, path or "."))
    root = posixpath.normpath(workdir)
    if full == root:
        return "."
    if not full.startswith(root.rstrip("/") + "/"):
        return None
    return posixpath.relpath(full, root)


def clip(text: str, limit: int = OUTPUT_BYTES) -> str:
    """`text` as it is, or its head and tail with a note of how many bytes between were cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    half = limit // 2
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    return f"{head}\n[... {len(data) - 2 * half} bytes cut ...]\n{tail}"


def ending(result: ExecResult, timeout_s: float) -> str:
    """Why a command ended, in one bracketed note; empty when it simply succeeded."""
    notes = []
    if result.timed_out == "total":
        notes.append(f"[timed out after {timeout_s:g} s]")
    elif result.timed_out == "no_output":
        notes.append("[stopped: no output for too long]")
    elif result.limit in ("disk", "inodes"):
        notes.append(FULL[result.limit] + (f" [exit {result.code}]" if result.code else ""))
    elif result.oom or result.limit:
        notes.append(f"[killed: {result.limit or 'memory'} limit]")
    elif result.code is None:
        notes.append("[killed]")
    elif result.code != 0:
        notes.append(f"[exit {result.code}]")
    if result.restarted:
        notes.append("[shell restarted: directory and variables are lost]")
    return "\n".join(notes)


def alive(result: ExecResult, what: str) -> ExecResult:
    """`result`, unless the box died of the agent's doing: then AgentFault, which scores zero."""
    if result.dead:
        raise AgentFault(f"the box died during {what}", help="a command of the agent killed it")
    return result


def first_line(result: ExecResult) -> str:
    """What a helper command complained about, without its own name."""
    lines = result.err.text.strip().splitlines() or result.out.text.strip().splitlines()
    return clip(lines[-1].split(": ", 1)[-1], 200) if lines else f"exit {result.code}"


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
