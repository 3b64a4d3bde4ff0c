"""Can these tests be run apart from the code they test? Read from their source, never run.

They can where the code under test is only ever called with literals and what it returns is
compared with a literal on the spot. Then nothing but plain values has to cross between the process
that asserts and the one that runs the agent's code, and nothing that one does reaches a verdict.
"""

import ast
import sys
from collections.abc import Iterable, Mapping

JUDGING = ("assertEqual", "assertNotEqual", "assertIn", "assertNotIn", "assertAlmostEqual")
TRUTH = ("assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone")


def plain(sources: Iterable[bytes], project: Iterable[str]) -> bool:
    """Whether every one of these test files is of that kind.

    `project` are the paths of the code base; a test may import from it and from the standard
    library, nothing else.
    """
    roots = {path.split("/", 1)[0].removesuffix(".py") for path in project if path.endswith(".py")}
    return all(_one(source, roots) for source in sources)


def importable(files: Mapping[str, object]) -> list[str]:
    """Top-level modules of a code base that do not stand in for the standard library's."""
    known = set(sys.stdlib_module_names)
    tops = {path.split("/", 1)[0].removesuffix(".py") for path in files if path.endswith(".py")}
    return sorted(name for name in tops - known if name.isidentifier())


def _one(source: bytes, roots: set[str]) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found = _imported(node, roots)
            if found is None:
                return False
            names |= found
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names]
    allowed = {id(name) for node in ast.walk(tree) for name in _judged(node, names)}
    return bool(used) and all(id(node) in allowed for node in used)


def _imported(node: ast.Import | ast.ImportFrom, roots: set[str]) -> set[str] | None:
    """The project's names this binds; None where it imports what cannot be had apart."""
    if isinstance(node, ast.ImportFrom):
        top = (node.module or "").split(".")[0]
        mine = {alias.asname or alias.name for alias in node.names}
        if node.level or "*" in mine:
            return None
        pairs = [(top, mine)]
    else:
        pairs = [
            (alias.name.split(".")[0], {alias.asname or alias.name.split(".")[0]})
            for alias in node.names
        ]
    known = set(sys.stdlib_module_names)
    if any(top not in known and top not in roots for top, _ in pairs):
        return None
    return {name for top, bound in pairs if top not in known for name in bound}


def _judged(node: ast.AST, names: set[str]) -> list[ast.Name]:
    """The project's names that this very node calls and holds against a literal."""
    pairs: list[ast.expr] = []
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        pairs = [node.left, node.comparators[0]]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in JUDGING:
            pairs = node.args[:2]
        elif node.func.attr in TRUTH:
            pairs = [*node.args[:1], ast.Constant(True)]
    elif isinstance(node, (ast.Assert, ast.UnaryOp)):
        asked = node.test if isinstance(node, ast.Assert) else node.operand
        pairs = [asked, ast.Constant(True)]
    if len(pairs) != 2:
        return []
    for call, literal in (pairs, pairs[::-1]):
        name = _called(call, names)
        if name is not None and _literal(literal):
            return [name]
    return []


def _called(node: ast.expr, names: set[str]) -> ast.Name | None:
    """`f(1, [2])` or `m.f(x=1)` with `f` or `m` among `names`: that name."""
    if not isinstance(node, ast.Call):
        return None
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    if not all(_literal(value) for value in values):
        return None
    at: ast.expr = node.func
    while isinstance(at, ast.Attribute):
        at = at.value
    return at if isinstance(at, ast.Name) and at.id in names else None


def _literal(node: ast.expr) -> bool:
    """Constants, containers of them, and arithmetic on them."""
    fine = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BinOp, ast.UnaryOp)
    rest = (ast.operator, ast.unaryop, ast.Load, ast.keyword)
    for part in ast.walk(node):
        empty = isinstance(part, ast.Call) and ast.unparse(part) in ("set()", "frozenset()")
        name = isinstance(part, ast.Name) and part.id in ("set", "frozenset")
        if not (isinstance(part, fine + rest) or empty or name):
            return False
    return True
