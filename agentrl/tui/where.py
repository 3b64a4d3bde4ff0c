"""`reward<0.5 and turns>20 and stop=="context" and flag("tests.edited") and text("sed -i")`.

One small language for filters, read with Python's own parser and nothing of Python beyond
comparisons, `and`, `or`, `not`, `in` and the two calls; evaluated over whole columns at once.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from agentrl.errors import ConfigError

NAMES = {
    "episode": "episode",
    "group": "group",
    "task": "task",
    "family": "family",
    "difficulty": "difficulty",
    "reward": "reward",
    "advantage": "advantage",
    "success": "success",
    "stop": "stop",
    "outcome": "outcome",
    "turns": "steps",
    "steps": "steps",
    "malformed": "malformed",
    "step": "trained_step",
    "parent": "parent",
    "seconds": "seconds",
}
"""What a filter may name -> the column it means. `step` is the optimizer step, -1 where none."""

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

Columns = Mapping[str, Any]
Search = Callable[[str], set[str]]
"""Text -> the episodes in whose events it stands."""


def matching(expression: str, columns: Columns, search: Search) -> Any:
    """A mask [N] over the columns. What is not known (no reward yet) matches no comparison.

    Raises ConfigError for what is not in the language, naming the nearest name there is.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ConfigError(
            f"the filter cannot be read: {error.msg}",
            where=expression,
            help='for instance: reward<0.5 and stop=="context"',
        ) from None
    found = _Reader(columns, search, expression).value(tree.body)
    count = len(columns["episode"])
    return np.broadcast_to(np.asarray(found, dtype=bool), count)


class _Reader:
    def __init__(self, columns: Columns, search: Search, expression: str) -> None:
        self._columns = columns
        self._search = search
        self._expression = expression

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.BoolOp(op=op, values=values):
                join = np.logical_and if isinstance(op, ast.And) else np.logical_or
                masks = [self.value(part) for part in values]
                return join.reduce(np.broadcast_arrays(*masks))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return np.logical_not(self.value(operand))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Compare():
                return self._compare(node)
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(text))]):
                return self._call(name, text)
            case ast.Name(id=name):
                return self._column(name)
            case ast.Constant(value=value) if isinstance(value, str | int | float | bool):
                return value
        raise self._refused(ast.unparse(node))

    def _compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        out: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            if isinstance(op, ast.In) and isinstance(left, str):
                part = np.array([left in (text or "") for text in np.atleast_1d(right)])
            elif type(op) in _COMPARE:
                part = self._compared(_COMPARE[type(op)], left, right)
            else:
                raise self._refused(ast.unparse(node))
            out = np.logical_and(out, part)
            left = right
        return out

    def _compared(self, compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """What is not known is never equal, less or more; nor is it unequal, for nobody knows."""
        try:
            found = np.asarray(compare(left, right))
        except TypeError:
            raise self._refused(f"{_kind(left)} beside {_kind(right)}") from None
        for side in (left, right):
            if isinstance(side, np.ndarray) and side.dtype.kind == "f":
                found = found & ~np.isnan(side)
            elif isinstance(side, np.ndarray) and side.dtype == object:
                found = found & np.array([value is not None for value in side], dtype=bool)
        return found

    def _call(self, name: str, text: str) -> Any:
        if name == "flag":
            return np.array([text in flags.split(" ") for flags in self._columns["flags"]])
        if name == "text":
            found = self._search(text)
            return np.array([episode in found for episode in self._columns["episode"]])
        raise self._refused(f"{name}(…)")

    def _column(self, name: str) -> Any:
        if name == "seconds":
            ended = self._columns["stopped_at"]
            return np.where(ended > 0, ended - self._columns["opened_at"], np.nan)
        if name not in NAMES:
            near = get_close_matches(name, [*NAMES, "flag", "text"], 1)
            raise ConfigError(
                f"no episode has a {name!r}",
                where=self._expression,
                help=f"a name that is similar: `{near[0]}`"
                if near
                else f"there are {', '.join(NAMES)}, flag(…) and text(…)",
            )
        return self._columns[NAMES[name]]

    def _refused(self, part: str) -> ConfigError:
        return ConfigError(
            f"{part} is not something a filter can say",
            where=self._expression,
            help="compare names with < <= > >= == !=; join with and, or, not; flag(…) and text(…)",
        )


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "a word" if value.dtype == object else "a number"
    return repr(value)
