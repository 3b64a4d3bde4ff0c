"""Configuration as TOML text: written so that it reads back the same, and where each key stands."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_\"'-]+)*)\s*=")


def write(table: Mapping[str, Any]) -> str:
    """A table as TOML: plain keys first, then one section a nested table. None is left out."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and v is not None}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    if path and (lines or not table):
        lines.insert(0, f"[{'.'.join(_key(part) for part in path)}]")
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += [""] if lines else []
            lines += _lines(value, (*path, key))
    return lines


def _key(name: str) -> str:
    return name if _BARE.match(name) else _string(name)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items())
        return "{" + inner + "}"
    raise TypeError(f"TOML has no form for {type(value).__name__}")


def _float(value: float) -> str:
    text = repr(value)
    if text in ("inf", "-inf", "nan") or "." in text or "e" in text:
        return text
    return text + ".0"


def line_numbers(text: str) -> dict[str, int]:
    """Dotted path of each key -> its line, counted from 1. Keys of inline tables are not found."""
    found: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        if table := _TABLE.match(line):
            prefix = _clean(table[1])
            found.setdefault(prefix, number)
        elif key := _KEY.match(line):
            path = _clean(key[1])
            found.setdefault(f"{prefix}.{path}" if prefix else path, number)
    return found


def _clean(dotted: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in dotted.split("."))
