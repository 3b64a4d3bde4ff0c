"""The token lens: every token of an episode with what was recorded of it, laid out in lines.

Values are what the sampler and the learner recorded, never computed again. A token the policy did
not sample has none: it is dim and outside every scale. What is not known is `·`, never 0.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import exp

from msgspec import Struct
from rich.cells import cell_len

from agentrl.trajectory.segments import versions_of
from agentrl.tui.lines import visible
from agentrl.tui.play import Play

SIGNALS = (
    "logprob",
    "advantage",
    "gap",
    "ratio",
    "trainer",
    "mask",
    "version",
    "segment",
)
"""What `V` walks through. `gap`: trainer minus sampler log-probability; `ratio`: exp of that."""

SHADES = ("░", "▒", "▓", "█")
BELOW, ABOVE = ("▃", "▂", "▁"), ("▅", "▆", "▇")
ABSENT = "·"
STEPS = {"logprob": (0.1, 1.0, 3.0), "trainer": (0.1, 1.0, 3.0)}
"""Borders between the four shades, in nats below certainty."""


class Tokens(Struct, frozen=True):
    """All tokens of an episode in the order sent; lists of one length T.

    `turn` is the turn that sent or sampled a token. `logprob`, `advantage`, `version` are None
    where the token was not sampled, `trainer` where the learner recorded nothing.
    """

    ids: list[int]
    sampled: list[bool]
    turn: list[int]
    segment: list[int]
    logprob: list[float | None]
    trainer: list[float | None]
    advantage: list[float | None]
    version: list[int | None]
    starts: list[int]  # of each turn: place of its first token

    def column(self, signal: str) -> list[float | None]:
        """One signal of every token; None where it was not recorded."""
        match signal:
            case "segment":
                return [float(segment) for segment in self.segment]
            case "mask":
                return [float(sampled) for sampled in self.sampled]
            case "version":
                return [None if version is None else float(version) for version in self.version]
            case "gap" | "ratio":
                gaps = [
                    None if trainer is None or sampler is None else trainer - sampler
                    for trainer, sampler in zip(self.trainer, self.logprob, strict=True)
                ]
                if signal == "gap":
                    return gaps
                return [None if gap is None else exp(min(gap, 50.0)) for gap in gaps]
        found: list[float | None] = getattr(self, signal)
        return found


def tokens_of(play: Play) -> Tokens:
    """Every recorded token of an episode; none where only words were recorded."""
    out = Tokens([], [], [], [], [], [], [], [], [])
    for number, turn in enumerate(play.turns):
        span = turn.step.tokens
        out.starts.append(len(out.ids))
        if span is None:
            continue
        sent, count = len(span.context), len(span.sampled)
        trainer: Sequence[float | None] = turn.scored
        if len(trainer) != count:
            trainer = [None] * count
        nothing = [None] * sent
        out.ids.extend(span.context)
        out.ids.extend(span.sampled)
        out.sampled.extend([False] * sent + [True] * count)
        out.turn.extend([number] * (sent + count))
        out.segment.extend([turn.step.segment] * (sent + count))
        out.logprob.extend([*nothing, *span.logprobs])
        out.trainer.extend([*nothing, *trainer])
        out.advantage.extend([*nothing, *([turn.advantage] * count)])
        versions = [version if version >= 0 else None for version in versions_of(span)]
        out.version.extend([*nothing, *versions])  # of a stranger's tokens nobody knows it
    return out


class Shading:
    """Which of the shades a value gets, on a scale that only sampled tokens make."""

    def __init__(self, tokens: Tokens, signal: str) -> None:
        self.signal = signal
        self.values = tokens.column(signal)
        self._sampled = tokens.sampled
        self._middle = 1.0 if signal == "ratio" else 0.0
        seen = zip(self.values, tokens.sampled, strict=True)
        known = [value for value, sampled in seen if sampled and value is not None]
        self.known = len(known)
        ends = (max(known), min(known)) if known else (self._middle, self._middle)
        self.reach = max(abs(end - self._middle) for end in ends)

    def level(self, at: int) -> int | None:
        """None: nothing recorded. Else -3..3 for signals that have two sides, 0..3 for others."""
        value = self.values[at]
        if value is None:
            return None
        if self.signal in STEPS:
            return bisect_right(STEPS[self.signal], -value)
        if self.signal in ("mask", "segment", "version"):
            return int(value) % 4
        value -= self._middle
        if self.reach == 0.0 or value == 0.0:
            return 0
        size = min(int(abs(value) / self.reach * 3) + 1, 3)
        return size if value > 0 else -size

    def glyph(self, at: int) -> str:
        """The level without colour."""
        level = self.level(at)
        if level is None:
            return ABSENT if self._sampled[at] else " "
        if self.signal in STEPS or self.signal in ("segment", "version", "mask"):
            return SHADES[level]
        if level == 0:
            return "▄"
        return ABOVE[level - 1] if level > 0 else BELOW[-level - 1]

    def legend(self) -> str:
        """What the glyphs mean, in one line."""
        if not self.known:
            return f"{self.signal}: nothing recorded ({ABSENT})"
        if self.signal in STEPS:
            return "░ > -0.1  ▒ -0.1…-1  ▓ -1…-3  █ < -3"
        if self.signal == "mask":
            return "▒ sampled, trained on   ░ sent, no loss"
        if self.signal in ("segment", "version"):
            return f"░▒▓█ take turns, one a {self.signal}"
        middle = 1 if self.signal == "ratio" else 0
        return f"▁▂▃ below {middle}  ▄ {middle}  ▅▆▇ above; reach {self.reach:.3g}"


class Layout(Struct, frozen=True):
    """Tokens broken into lines of at most `width` cells; one entry in `starts` a line."""

    pieces: list[str]
    widths: list[int]
    starts: list[int]
    width: int

    def line_of(self, token: int) -> int:
        return max(bisect_right(self.starts, token) - 1, 0)

    def span(self, line: int) -> range:
        """The tokens of a line."""
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.pieces)
        return range(self.starts[line], end)

    def column(self, token: int) -> int:
        """The cell its token begins at."""
        return sum(self.widths[self.starts[self.line_of(token)] : token])

    def at(self, line: int, column: int) -> int:
        """The token at a cell, the last of its line beyond its end."""
        edge = 0
        for token in self.span(line):
            edge += self.widths[token]
            if column < edge:
                return token
        return max(self.span(line).stop - 1, 0)


def layout(tokens: Tokens, text_of: Callable[[int], str], width: int) -> Layout:
    """Lines end where the text ends one, where a turn begins, and where they are full."""
    memo: dict[int, tuple[str, int, bool]] = {}
    pieces: list[str] = []
    widths: list[int] = []
    starts: list[int] = []
    begins = set(tokens.starts)
    used, broke = 0, True
    for at, token in enumerate(tokens.ids):
        known = memo.get(token)
        if known is None:
            known = memo[token] = _piece(text_of(token), width)
        text, cells, ends = known
        if broke or used + cells > width or at in begins:
            starts.append(at)
            used = 0
        pieces.append(text)
        widths.append(cells)
        used += cells
        broke = ends
    return Layout(pieces, widths, starts, width)


def _piece(text: str, width: int) -> tuple[str, int, bool]:
    ends = text.endswith("\n")
    shown = visible(text.replace("\n", "⏎").replace("\t", "→")) or "∅"
    while cell_len(shown) > width > 1:
        shown = shown[: max(width - 1, 1)] + "…" if len(shown) > width else shown[:-1]
    return shown, cell_len(shown), ends


def outliers(shading: Shading, tokens: Tokens) -> list[int]:
    """Places of the tokens in the strongest shade of a signal."""
    return [
        at
        for at in range(len(tokens.ids))
        if tokens.sampled[at] and abs(shading.level(at) or 0) == 3
    ]
