"""Runs the code under test for `apart.py`; a script for inside a box that needs only Python.

Descriptor 3 is a socket: frames of a 4-byte length and JSON both ways. A question names a dotted
path to import, to look up or to call; the answer is a plain value, or says why there is none.
Nothing here is secret, and nothing it says is taken for more than a value.
"""

import importlib
import json
import os
import sys
from typing import Any

DEPTH = 40


def pack(value: Any, depth: int = 0) -> Any:
    """A plain value as JSON that keeps its type; TypeError for anything else."""
    if depth > DEPTH:
        raise TypeError("a value nested too deeply")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        return {"i": hex(value)}
    if isinstance(value, float):
        return {"f": float(value).hex()}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return {"b": bytes(value).hex()}
    if isinstance(value, complex):
        return {"c": [value.real.hex(), value.imag.hex()]}
    for kind, name in ((list, "l"), (tuple, "t"), (set, "s"), (frozenset, "z")):
        if isinstance(value, kind):
            return {name: [pack(part, depth + 1) for part in value]}
    if isinstance(value, dict):
        pairs = dict.items(value)
        return {"d": [[pack(k, depth + 1), pack(v, depth + 1)] for k, v in pairs]}
    raise TypeError(f"a {type(value).__name__}")


def unpack(data: Any) -> Any:
    """The value `pack` was given. Raises ValueError and TypeError for anything it never makes."""
    if data is None or data is True or data is False or type(data) is str:
        return data
    if type(data) is not dict or len(data) != 1:
        raise ValueError("no plain value")
    ((name, inner),) = data.items()
    if name == "i":
        return int(inner, 16)
    if name == "f":
        return float.fromhex(inner)
    if name == "b":
        return bytes.fromhex(inner)
    if name == "c":
        return complex(*(float.fromhex(part) for part in inner))
    if name == "d":
        return {unpack(key): unpack(value) for key, value in inner}
    kinds = {"l": list, "t": tuple, "s": set, "z": frozenset}
    return kinds[name](unpack(part) for part in inner)


def find(path: str) -> Any:
    """What a dotted path leads to, importing as far as there are modules."""
    names = path.split(".")
    thing, at = importlib.import_module(names[0]), 1
    for at in range(1, len(names) + 1):
        if at == len(names):
            return thing
        if not hasattr(thing, names[at]):
            try:
                importlib.import_module(".".join(names[: at + 1]))
            except ModuleNotFoundError as error:
                if error.name != ".".join(names[: at + 1]):
                    raise
        thing = getattr(thing, names[at])
    return thing


def answer(question: dict[str, Any]) -> dict[str, Any]:
    if question["op"] == "import":
        importlib.import_module(question["path"])
        return {"ref": True}
    thing = find(question["path"])
    if question["op"] == "call":
        args = [unpack(part) for part in question["args"]]
        named = {name: unpack(part) for name, part in question["named"].items()}
        thing = thing(*args, **named)
    try:
        return {"value": pack(thing)}
    except TypeError as error:
        return {"ref": True, "kind": str(error)}


def told(error: BaseException) -> dict[str, Any]:
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return {"raised": kinds[0], "kind": type(error).__name__, "text": str(error)[:300]}


def receive(fd: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = os.read(fd, count - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return data


def main() -> None:
    sys.path[:0] = sys.argv[1:]
    sys.argv = sys.argv[:1]
    listen, write, code = receive, os.write, json.JSONEncoder().encode
    while True:
        question = json.loads(listen(3, int.from_bytes(listen(3, 4), "big")))
        try:
            reply = answer(question)
        except BaseException as error:
            reply = told(error)
        try:
            data = code(reply).encode()
        except BaseException:
            data = b'{"raised": "ValueError", "kind": "ValueError", "text": "no answer"}'
        view = memoryview(len(data).to_bytes(4, "big") + data)
        while view:
            view = view[write(3, view) :]


if __name__ == "__main__":
    main()
