"""Find text, and replace it where it stands exactly once."""

from collections.abc import Mapping
from typing import Any

from agentrl.envs.tools.files import Files, Refused, reason
from agentrl.envs.tools.words import TEXT, Unusable, clip, malformed, texts
from agentrl.tool import ToolOutput, ToolSpec

MATCHES = 40
LINE = 160


class Search:
    """`search(pattern)`: lines matching an extended regular expression, as `file:line:text`."""

    spec = ToolSpec("search", "Find lines matching a regex in all files.", {"pattern": TEXT})

    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            (pattern,) = texts(arguments, "pattern")
        except Unusable as error:
            return malformed(error)
        if not pattern:
            return ToolOutput("error: the pattern is empty")
        skip = ("--exclude-dir=.git", "--exclude-dir=__pycache__")
        result = await self._files.run("grep", "-rnIE", "-Z", *skip, "-e", pattern, ".")
        if result.code == 1:
            return ToolOutput("no match")
        if result.code != 0 and not result.out.data:
            return ToolOutput(f"error: cannot search: {reason(result)}")
        return ToolOutput(clip(matches(result.out.head, result.out.dropped > 0)))


def matches(found: bytes, more: bool = False) -> str:
    """`grep -nZ` output, sorted by file and line, since directories come in no fixed order."""
    hits = []
    for record in found.splitlines():
        name, nul, rest = record.partition(b"\0")
        number, colon, text = rest.partition(b":")
        if nul and colon and number.isdigit():
            shown = text.decode("utf-8", "replace").rstrip()
            hits.append((name.decode("utf-8", "replace").removeprefix("./"), int(number), shown))
    hits.sort()
    lines = [f"{name}:{number}:{text}"[:LINE] for name, number, text in hits[:MATCHES]]
    if more:
        lines.append("[... and more]")
    elif len(hits) > MATCHES:
        lines.append(f"[... and {len(hits) - MATCHES} more]")
    return "\n".join(lines) or "no match"


class EditFile:
    """`edit_file(path, old, new)`: replaces `old`, which must stand in the file exactly once."""

    spec = ToolSpec(
        "edit_file",
        "Replace old, which must occur exactly once, by new.",
        {"path": TEXT, "old": TEXT, "new": TEXT},
    )

    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            given, old, new = texts(arguments, "path", "old", "new")
            path = self._files.path(given)
            if not old:
                raise Refused("error: old is empty")
            data = await self._files.read(path)
            times = data.count(old.encode())
            if times == 0:
                raise Refused(f"error: old not found in {path}")
            if times > 1:
                raise Refused(f"error: old occurs {times} times in {path}; must be once")
            await self._files.write(path, data.replace(old.encode(), new.encode()))
        except Unusable as error:
            return malformed(error)
        except Refused as error:
            return ToolOutput(str(error))
        return ToolOutput(f"edited {path}")
