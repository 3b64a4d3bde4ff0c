"""A report's blocks, and the same blocks as one HTML page or as Markdown.

The page stands alone: no script, no network, light and dark by the reader's setting.
"""

from collections.abc import Sequence
from html import escape

from msgspec import Struct


class Heading(Struct, frozen=True):
    text: str
    level: int = 2


class Text(Struct, frozen=True):
    """A paragraph, or a list where there are several lines."""

    lines: tuple[str, ...]


class Table(Struct, frozen=True):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Figure(Struct, frozen=True):
    """`svg` where it could be drawn, `text` always."""

    title: str
    text: str
    svg: str = ""


class Transcript(Struct, frozen=True):
    """An episode in full; `anchor` is its address within the run."""

    anchor: str
    title: str
    lines: tuple[str, ...]


Block = Heading | Text | Table | Figure | Transcript

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
pre { overflow-x: auto; padding: .7rem; background: #8881; font-size: 13px; line-height: 1.35; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; background: #fff; }
summary { cursor: pointer; } code { font-size: 90%; }
"""


def html(title: str, blocks: Sequence[Block]) -> str:
    body = "\n".join(map(_html, blocks))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
        case Text():
            if len(block.lines) == 1:
                return f"<p>{_coded(block.lines[0])}</p>"
            return "<ul>" + "".join(f"<li>{_coded(line)}</li>" for line in block.lines) + "</ul>"
        case Table():
            head = "".join(f"<th>{escape(cell)}</th>" for cell in block.head)
            rows = "\n".join(
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                for row in block.rows
            )
            return f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>"
        case Figure():
            drawn = block.svg or f"<pre>{escape(block.text)}</pre>"
            return f"<figure>{drawn}<figcaption>{escape(block.title)}</figcaption></figure>"
        case Transcript():
            told = escape("\n".join(block.lines))
            return (
                f'<details id="{escape(block.anchor, quote=True)}"><summary>'
                f"{escape(block.title)}</summary><pre>{told}</pre></details>"
            )


def _coded(text: str) -> str:
    """Escaped, with what stands between backticks as code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def markdown(title: str, blocks: Sequence[Block]) -> str:
    return f"# {title}\n\n" + "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {block.text}"
        case Text():
            many = len(block.lines) > 1
            return "\n".join(f"- {line}" if many else line for line in block.lines)
        case Table():
            rows = [block.head, ("---", *["---:"] * (len(block.head) - 1)), *block.rows]
            return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in rows)
        case Figure():
            return f"{block.title}\n\n{fenced(block.text)}"
        case Transcript():
            return f"**{block.title}**\n\n{fenced(chr(10).join(block.lines))}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def fenced(text: str) -> str:
    """A code block whose fence is longer than any within."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
