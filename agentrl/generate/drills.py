"""Drills: pre-training text in which nearly every answered token is one to take over from above.

A policy that starts from nothing learns to copy in a minute from these, where half of the tokens
teach it, and hardly ever from whole transcripts, where few do. Values are the training split's.
"""

from collections.abc import Callable
from typing import NamedTuple

from agentrl.generate.values import EXTENSIONS, Values

LINKS = ("to", "and", "then", "with", "in", "from", "into", "as", "the", "of", "for", "at", "on")
SIGNS = ("+", "-", "*", "%", "<", ">", "<=", ">=", "==", "!=")


class Drill(NamedTuple):
    """`asked` by the user, `seen` in a tool's result (may be empty), and the `answer`."""

    asked: str
    seen: str
    answer: tuple[str, ...]


def drill(seed: int) -> Drill:
    """One drill of any kind, of training values; the same seed gives the same."""
    v = Values(f"drill:{seed}", "train")
    kind: Callable[[Values], Drill] = v.pick((_echo, _listing, _filtered, _filtered, _lookup))
    return kind(v)


def _item(v: Values) -> str:
    kind = v.below(20)
    if kind < 6:
        return v.name()
    if kind < 11:
        return v.file()
    if kind < 13:
        return f"{v.name()}/{v.file()}"
    if kind < 16:
        return str(v.number())
    if kind < 18:
        return f"{v.word()} {v.number()}"
    return f"return {v.pick('nab')} {v.pick(SIGNS)} {v.number()}"


def _items(v: Values, most: int) -> list[str]:
    return [_item(v) for _ in range(1 + v.below(most))]


def _echo(v: Values) -> Drill:
    """All that stands in backticks, in its order."""
    items = _items(v, 5)
    asked = " ".join(f"{v.pick(LINKS)} `{x}`" if v.chance(0.7) else f"`{x}`" for x in items)
    return Drill(asked, "", tuple(items))


def _listing(v: Values) -> Drill:
    """All lines of a result, in their order."""
    items = _items(v, 5)
    return Drill(v.pick(("ls", "all", "lines")), "\n".join(items), tuple(items))


def _filtered(v: Values) -> Drill:
    """The lines of a result that end as asked."""
    one, other, third = v.sample(EXTENSIONS, 3)
    files = [v.file(v.pick((one, one, other, third))) for _ in range(2 + v.below(4))]
    files.append(v.file(one))
    files = v.shuffled(files)
    where = f"{v.word()}/" if v.chance(0.3) else ""
    picked = tuple(where + f for f in files if f.endswith(one))
    asked = f"`{where}` .{one}" if where else f".{one}"
    return Drill(asked, "\n".join(files), picked)


def _lookup(v: Values) -> Drill:
    """The values of the keys that are asked for."""
    joint = v.pick(("=", " ", ": "))
    pairs = [(v.name(), _value(v)) for _ in range(2 + v.below(4))]
    asked = v.sample(pairs, 1 + v.below(2))
    seen = "\n".join(f"{key}{joint}{value}" for key, value in pairs)
    return Drill(" ".join(f"`{k}`" for k, _ in asked), seen, tuple(value for _, value in asked))


def _value(v: Values) -> str:
    return str(v.number()) if v.chance(0.5) else v.name()
