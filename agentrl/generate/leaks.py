"""What in an agent's world gives the answer away: history, caches, the tests themselves."""

import base64
import re
import zlib
from collections.abc import Iterator

from agentrl.task import Task

HISTORY = re.compile(
    r"(^|/)\.git/(objects/pack/.*\.pack|packed-refs|logs/|refs/(tags|remotes|stash)|ORIG_HEAD"
    r"|FETCH_HEAD)"
)
LOOSE = re.compile(r"(^|/)\.git/objects/[0-9a-f]{2}/[0-9a-f]{38}$")
CACHE = re.compile(r"(^|/)(__pycache__|\.pytest_cache|\.cache|\.mypy_cache|pip-cache)/|\.py[co]$")
LEFTOVER = (".orig", ".rej", ".bak", ".patch", ".diff", "~")
TELLING = 32
"""Bytes below which a text is found anywhere by chance."""


def leaks(task: Task) -> list[str]:
    """One sentence for each thing found; empty for a clean world."""
    found = [*_history(task), *_caches(task), *_tests(task), *_fixes(task)]
    return list(dict.fromkeys(found))


def _history(task: Task) -> Iterator[str]:
    commits = 0
    for path, data in task.files.items():
        if HISTORY.search(path):
            yield f"git history reaches the agent: {path}"
        elif LOOSE.search(path):
            try:
                commits += zlib.decompressobj().decompress(data, 64).startswith(b"commit ")
            except zlib.error:
                continue
    if commits > 1:
        yield f"git history reaches the agent: {commits} commits instead of one"


def _caches(task: Task) -> Iterator[str]:
    for path in task.files:
        if CACHE.search(path):
            yield f"a cache reaches the agent: {path}"


def _tests(task: Task) -> Iterator[str]:
    for name, secret in task.tests.items():
        text = secret.strip()
        if len(text) < TELLING:
            continue
        coded = base64.b64encode(text)[:-4]
        for path, data in task.files.items():
            if text in data or coded in data:
                yield f"tests/{name} is in the agent's world: {path}"


def _fixes(task: Task) -> Iterator[str]:
    """Lines the oracle writes that lie ready in a patch or a backup."""
    written = [
        line.strip()
        for call in task.oracle
        for value in call.arguments.values()
        if isinstance(value, str)
        for line in value.splitlines()
        if len(line.strip()) >= TELLING
    ]
    for path, data in task.files.items():
        if path.endswith(LEFTOVER) and any(line.encode() in data for line in written):
            yield f"what the oracle writes lies ready: {path}"
