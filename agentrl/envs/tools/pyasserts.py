"""Asserts that say what they saw, and are not talked round by an `__eq__`.

The first half of the runner's source: `tests.py` joins the two, so nothing here may import from
this package.
"""

import ast
import math
import sys
from typing import Any

PLAIN = (type(None), bool, int, float, complex, str, bytes)

_type = type


class Asserts(ast.NodeTransformer):
    """Note the first operand of every assert; send every `==` through `equal`."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test = node.test
        if isinstance(test, ast.Compare):
            test.left = _call("@note", test.left)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.operand, ast.Call):
            test.operand = _call("@note", test.operand)
        elif isinstance(test, ast.Call):
            node.test = _call("@note", test)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            return ast.copy_location(_call("@equal", node.left, node.comparators[0]), node)
        return node


def _call(name: str, *operands: ast.expr) -> ast.Call:
    call = ast.Call(ast.Name(name, ast.Load()), list(operands), [])
    return ast.copy_location(call, operands[0])


class Notes:
    """The last operand an assert looked at."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def note(self, value: Any) -> Any:
        self.seen[:] = [value]
        return value


def equal(left: Any, right: Any) -> Any:
    """`left == right`, but AssertionError for a value that claims equality with everything."""
    result = left == right
    if result is True and (lies(left, right) or lies(right, left)):
        raise AssertionError("EQ_OVERRIDE: a value claims to equal what it does not")
    return result


def lies(value: Any, other: Any, depth: int = 0) -> bool:
    """Whether `value` also claims to equal values near `other`, or to be unequal to it."""
    kind = _type(value)
    if kind in PLAIN or depth > 8:
        return False
    if kind in (list, tuple) and isinstance(other, (list, tuple)):
        return any(lies(a, b, depth + 1) for a, b in zip(value, other, strict=False))
    if kind is dict and isinstance(other, dict):
        return any(lies(v, other.get(k), depth + 1) for k, v in value.items())
    if kind in (set, frozenset):
        return any(lies(v, None, depth + 1) for v in value)
    mock = sys.modules.get("unittest.mock")
    if mock is not None and value is mock.__dict__.get("ANY"):
        return False
    return any((value == probe) is True for probe in near(other)) or (value != other) is True


def near(value: Any) -> list[Any]:
    """Values nothing honest equals while it equals `value`."""
    probes: list[Any] = [object()]
    if isinstance(value, bool):
        probes.append(not value)
    elif isinstance(value, (int, float)):
        probes += [value + 1, value - 7919] if math.isfinite(value) else []
    elif isinstance(value, str):
        probes.append(str(value) + "\x00~")
    elif isinstance(value, bytes):
        probes.append(bytes(value) + b"\x00~")
    elif isinstance(value, list):
        probes.append([*value, object()])
    elif isinstance(value, dict):
        probes.append({**value, object(): 1})
    return probes


def brief(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except BaseException as error:
        return f"<repr raised {type(error).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."
