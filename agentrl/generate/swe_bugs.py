"""Small functions with one line that can be wrong: the bug families.

Each function states its behaviour in its docstring, so the right line follows from the text.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from agentrl.generate.values import Values

PLAIN = ("ant", "bee", "cat", "dog", "elk", "fly")  # strings given as arguments; not values


class Func(Struct, frozen=True):
    """`body[at]` is the right line, `wrong` what the bug makes of it; `inputs` are argument
    tuples that between them tell the two apart."""

    name: str
    params: str
    doc: str
    body: tuple[str, ...]
    wrong: str
    inputs: tuple[tuple[Any, ...], ...]
    at: int = 0
    needs: str = ""  # an import line

    def source(self, buggy: bool = False) -> str:
        body = [self.wrong if buggy and i == self.at else x for i, x in enumerate(self.body)]
        text = "".join(f"    {line}\n" for line in body)
        return f'def {self.name}({self.params}):\n    """{self.doc}"""\n{text}'

    @property
    def edit(self) -> tuple[str, str]:
        """(old, new): the shortest natural replacement that mends the line."""
        return self.wrong.strip(), self.body[self.at].strip()


Shape = Callable[[Values, str], Func]


def _pairs(v: Values, n: int = 4) -> tuple[tuple[int, int], ...]:
    """Different pairs of unequal one-digit numbers."""
    pairs = [(a, b) for a in range(2, 10) for b in range(2, 10) if a != b]
    return tuple(v.sample(pairs, n))


def _singles(v: Values, n: int = 4) -> tuple[tuple[int], ...]:
    return tuple((a,) for a in v.sample(range(2, 13), n))


def _around(v: Values, k: int) -> tuple[tuple[int], ...]:
    return ((k,), (k - 1,), (k + 1,), (k + 5 + v.below(9),))


SAID = {"+": "plus", "-": "minus", "*": "times"}


def _operator_two(v: Values, name: str) -> Func:
    right, wrong = v.sample("+-*", 2)
    return Func(
        name,
        "a, b",
        f"Return a {SAID[right]} b.",
        (f"return a {right} b",),
        f"return a {wrong} b",
        _pairs(v),
    )


def _operator_constant(v: Values, name: str) -> Func:
    right, wrong = v.sample("+-*", 2)
    k = v.number()
    return Func(
        name,
        "n",
        f"Return n {SAID[right]} {k}.",
        (f"return n {right} {k}",),
        f"return n {wrong} {k}",
        _singles(v),
    )


def _operator_scaled(v: Values, name: str) -> Func:
    right, wrong = v.sample("+-*", 2)
    k = v.number(high=99)
    return Func(
        name,
        "a, b",
        f"Return a {SAID[right]} b, all times {k}.",
        (f"total = a {right} b", f"return total * {k}"),
        f"total = a {wrong} b",
        _pairs(v),
    )


def _operator_bool(v: Values, name: str) -> Func:
    low = v.number(high=400)
    high = v.number(low=low + 20)
    return Func(
        name,
        "n",
        f"Return True if n is over {low} and under {high}.",
        (f"return n > {low} and n < {high}",),
        f"return n > {low} or n < {high}",
        ((low + 7,), (low - 3,), (high + 5,), (high - 1,)),
    )


def _constant_added(v: Values, name: str) -> Func:
    op, k = v.pick("+-"), v.number()
    wrong = k + v.pick((-1, 1))
    return Func(
        name,
        "n",
        f"Return n {SAID[op]} {k}.",
        (f"return n {op} {k}",),
        f"return n {op} {wrong}",
        _singles(v),
    )


def _constant_range(v: Values, name: str) -> Func:
    k = v.number(high=99)
    return Func(
        name,
        "n",
        f"Return the sum of 1 to n, times {k}.",
        ("total = sum(range(1, n + 1))", f"return total * {k}"),
        "total = sum(range(1, n))",
        _singles(v),
    )


def _constant_index(v: Values, name: str) -> Func:
    said, right, wrong = v.pick((("first", "0", "1"), ("last", "-1", "-2"), ("second", "1", "2")))
    k = v.number()
    return Func(
        name,
        "items",
        f"Return the {said} item plus {k}.",
        (f"return items[{right}] + {k}",),
        f"return items[{wrong}] + {k}",
        tuple((v.sample(range(1, 10), 3),) for _ in range(4)),
    )


COMPARED = {
    ">=": ("at least", ">"),
    ">": ("more than", ">="),
    "<=": ("at most", "<"),
    "<": ("less than", "<="),
}


def _comparison_bool(v: Values, name: str) -> Func:
    op, k = v.pick(list(COMPARED)), v.number()
    said, wrong = COMPARED[op]
    return Func(
        name,
        "n",
        f"Return True if n is {said} {k}.",
        (f"return n {op} {k}",),
        f"return n {wrong} {k}",
        _around(v, k),
    )


def _comparison_words(v: Values, name: str) -> Func:
    op, k, one, two = v.pick(list(COMPARED)), v.number(), v.word(), v.word()
    said, wrong = COMPARED[op]
    return Func(
        name,
        "n",
        f"Return '{one}' if n is {said} {k}, else '{two}'.",
        (f"if n {op} {k}:", f"    return '{one}'", f"return '{two}'"),
        f"if n {wrong} {k}:",
        _around(v, k),
    )


def _comparison_count(v: Values, name: str) -> Func:
    op, k = v.pick(list(COMPARED)), v.number()
    said, wrong = COMPARED[op]
    return Func(
        name,
        "items",
        f"Count the items that are {said} {k}.",
        (f"return len([n for n in items if n {op} {k}])",),
        f"return len([n for n in items if n {wrong} {k}])",
        (([k, k + 1, k - 1],), ([k - 3, k],), ([k + 2, k - 2, k + 4],), ([k, k],)),
    )


def _variable_order(v: Values, name: str) -> Func:
    k = v.number()
    return Func(
        name,
        "a, b",
        f"Return a times {k}, minus b.",
        (f"return a * {k} - b",),
        f"return b * {k} - a",
        _pairs(v),
    )


def _variable_join(v: Values, name: str) -> Func:
    word = v.word()
    return Func(
        name,
        "a, b",
        f"Join a and b with '{word}' between them.",
        (f"return a + '{word}' + b",),
        f"return b + '{word}' + a",
        tuple((a, b) for a, b in (v.sample(PLAIN, 2) for _ in range(4))),
    )


def _variable_total(v: Values, name: str) -> Func:
    k, op = v.number(), v.pick("+*")
    return Func(
        name,
        "a, b",
        f"Return a {SAID[op]} b, minus {k}.",
        (f"total = a {op} b", f"return total - {k}"),
        f"return {v.pick('ab')} - {k}",
        _pairs(v),
        at=1,
    )


def _return_missing(v: Values, name: str) -> Func:
    op, k = v.pick("+-*"), v.number()
    line = f"n {op} {k}"
    return Func(name, "n", f"Return n {SAID[op]} {k}.", (f"return {line}",), line, _singles(v))


def _return_argument(v: Values, name: str) -> Func:
    op, k = v.pick("+-*"), v.number()
    local = v.word()
    return Func(
        name,
        "n",
        f"Return n {SAID[op]} {k}.",
        (f"{local} = n {op} {k}", f"return {local}"),
        "return n",
        _singles(v),
        at=1,
    )


def _return_items(v: Values, name: str) -> Func:
    k, local = v.number(), v.word()
    return Func(
        name,
        "items",
        f"Return a list of the items over {k}.",
        (f"{local} = [n for n in items if n > {k}]", f"return {local}"),
        "return items",
        (([k - 1, k + 1],), ([k + 3],), ([k, k + 5, k + 9],), ([k - 4],)),
        at=1,
    )


def _negated_multiple(v: Values, name: str) -> Func:
    m = 2 + v.below(6)
    right, wrong = v.pick((("==", "!="), ("!=", "==")))
    word, other = v.word(), v.word()
    said = "a multiple" if right == "==" else "no multiple"
    return Func(
        name,
        "n",
        f"Return '{word}' if n is {said} of {m}, else '{other}'.",
        (f"if n % {m} {right} 0:", f"    return '{word}'", f"return '{other}'"),
        f"if n % {m} {wrong} 0:",
        ((m * 3,), (m * 2 + 1,), (m * 5,), (m * 4 + 1,)),
    )


def _negated_in(v: Values, name: str) -> Func:
    k = v.number()
    sets = [v.sample(PLAIN, 3) for _ in range(4)]
    inputs = tuple((s[0], s[0 if i % 2 else 1 :]) for i, s in enumerate(sets))
    return Func(
        name,
        "key, items",
        f"Return {k} if key is in items, else 0.",
        ("if key in items:", f"    return {k}", "return 0"),
        "if key not in items:",
        inputs,
    )


def _negated_empty(v: Values, name: str) -> Func:
    k = v.number()
    lists: list[list[int]] = [list(v.sample(range(1, 10), 2)) for _ in range(3)]
    return Func(
        name,
        "items",
        f"Return the first item, or {k} if there is none.",
        ("if not items:", f"    return {k}", "return items[0]"),
        "if items:",
        (*((x,) for x in lists), ([],)),
    )


SHAPES: dict[str, tuple[Shape, ...]] = {
    "wrong_operator": (_operator_two, _operator_constant, _operator_scaled, _operator_bool),
    "wrong_constant": (_constant_added, _constant_range, _constant_index),
    "wrong_comparison": (_comparison_bool, _comparison_words, _comparison_count),
    "wrong_variable": (_variable_order, _variable_join, _variable_total),
    "wrong_return": (_return_missing, _return_argument, _return_items),
    "negated_condition": (_negated_multiple, _negated_in, _negated_empty),
}


def draw(v: Values, family: str) -> Func:
    """A function of the family under a fresh name."""
    return v.pick(SHAPES[family])(v, v.identifier())


def caller(v: Values, inner: Func, module: str) -> Func:
    """A function, right in itself, that shows the fault of `inner` in another module."""
    k = v.number()
    names = [p.strip() for p in inner.params.split(",")]
    call = f"{inner.name}({', '.join(names)})"
    line = f"return [{k}, {call}]"
    return Func(
        v.identifier(),
        inner.params,
        f"Return a list of {k} and {call}.",
        (line,),
        line,
        inner.inputs,
        needs=f"from {module} import {inner.name}",
    )
