"""View 3: the tokens, coloured by what was recorded of them."""

from math import exp
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static

from agentrl.tui.desk import Decoder
from agentrl.tui.lens import (
    ABSENT,
    SIGNALS,
    Layout,
    Shading,
    Tokens,
    layout,
    outliers,
    tokens_of,
)
from agentrl.tui.lines import visible
from agentrl.tui.play import Play
from agentrl.tui.rows import Rows
from agentrl.tui.text_screen import TextScreen

ONE_SIDED = ("", "on dark_green", "on dark_goldenrod", "on dark_red")
BELOW = ("on #5c1f1f", "on #8c2626", "on #c23030")
ABOVE = ("on #1f3f5c", "on #265f8c", "on #3080c2")
CLASSES = ("on grey23", "on dark_blue", "on dark_green", "on purple4")


class LensView(Container):
    """All tokens of the episode; below them what is known of the one under the cursor."""

    DEFAULT_CSS = """
    LensView { layout: vertical; }
    LensView #legend { height: 1; background: $panel; }
    LensView #lines { height: 1fr; }
    LensView #token { height: 3; border-top: solid $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("V", "signal(1)", "signal", id="lens.signal"),
        Binding("left", "token(-1)", "token", key_display="← →", id="lens.left", priority=True),
        Binding("right", "token(1)", "next token", show=False, id="lens.right", priority=True),
        Binding("n", "outlier(1)", "outlier", key_display="n N", id="lens.next_outlier"),
        Binding("N", "outlier(-1)", "outlier back", show=False, id="lens.last_outlier"),
        Binding("r", "rendered", "rendered", show=False, id="lens.rendered"),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._play: Play | None = None
        self._decode: Decoder = str
        self._tokens = Tokens([], [], [], [], [], [], [], [], [])
        self._laid = Layout([], [], [], 0)
        self._signal = SIGNALS[0]
        self._shading = Shading(self._tokens, self._signal)
        self.token = 0

    def compose(self) -> ComposeResult:
        yield Static(id="legend")
        yield Rows(stride=2, id="lines")
        yield Static(id="token")

    def show(self, play: Play, turn: int, decode: Decoder) -> None:
        """The episode's tokens, with the cursor on the first that this turn sampled."""
        if play is not self._play:
            self._play, self._decode = play, decode
            self._tokens = tokens_of(play)
            self._shading = Shading(self._tokens, self._signal)
            self._arrange()
        if turn < len(self._tokens.starts):
            start = self._tokens.starts[turn]
            span = play.turns[turn].step.tokens
            self.move_to(start + (len(span.context) if span is not None else 0))

    def focus_inside(self) -> None:
        self.query_one("#lines", Rows).focus()

    @property
    def signal(self) -> str:
        return self._signal

    @property
    def turn(self) -> int:
        """The turn whose token is under the cursor."""
        return self._tokens.turn[self.token] if self._tokens.turn else 0

    def move_to(self, token: int) -> None:
        """The cursor on a token."""
        self.token = max(0, min(token, len(self._tokens.ids) - 1))
        rows = self.query_one("#lines", Rows)
        if self._laid.starts:
            rows.go(2 * self._laid.line_of(self.token))
        rows.refresh()
        self._tell()

    def on_resize(self) -> None:
        if self._play is not None and self._laid.width != self._room():
            self._arrange()

    def _room(self) -> int:
        return max(self.query_one("#lines", Rows).text_width - 1, 8)

    def _arrange(self) -> None:
        """Lay the tokens out anew; while the width is not known yet, on_resize will."""
        if not self.query_one("#lines", Rows).size.width:
            return
        self._laid = layout(self._tokens, self._decode, self._room())
        row = self._laid.line_of(self.token)
        self.query_one("#lines", Rows).show(_TokenLines(self, self._laid), 2 * row)
        self._tell()

    def _tell(self) -> None:
        legend = f" [{self._signal}] {self._shading.legend()}"
        if not self._tokens.ids:
            legend = " no tokens were recorded: this episode was played in words alone"
        self.query_one("#legend", Static).update(Text(legend, no_wrap=True), layout=False)
        self.query_one("#token", Static).update(self._told(), layout=False)

    def _told(self) -> Text:
        at, tokens = self.token, self._tokens
        if not tokens.ids:
            return Text("")

        def number(value: float | None) -> str:
            return ABSENT if value is None else f"{value:.3f}"

        sampler, trainer = tokens.logprob[at], tokens.trainer[at]
        gap = None if sampler is None or trainer is None else trainer - sampler
        ratio = None if gap is None else exp(min(gap, 50.0))
        kind = "sampled" if tokens.sampled[at] else "sent, no loss"
        version = tokens.version[at]
        out = Text(no_wrap=True, overflow="ellipsis")
        out.append(f' "{visible(self._decode(tokens.ids[at]))}"', "bold")
        out.append(f"  id {tokens.ids[at]} · place {at} of {len(tokens.ids)} · turn ")
        out.append(f"{tokens.turn[at]} · segment {tokens.segment[at]} · {kind}\n")
        out.append(f" logprob {number(sampler)} · trainer {number(trainer)} · gap ")
        out.append(f"{number(gap)} · ratio {number(ratio)} · adv {number(tokens.advantage[at])} · ")
        out.append(f"policy {ABSENT if version is None else f'v{version}'}")
        return out

    def glyph_of(self, token: int) -> str:
        return self._shading.glyph(token)

    def style_of(self, token: int) -> str:
        """The colour of a token under the signal shown."""
        if not self._tokens.sampled[token] and self._signal not in ("mask", "segment"):
            return "dim"
        level = self._shading.level(token)
        if level is None:
            return ""
        if self._signal in ("mask", "segment", "version"):
            return CLASSES[level]
        if self._signal in ("logprob", "trainer"):
            return ONE_SIDED[level]
        return "" if level == 0 else ABOVE[level - 1] if level > 0 else BELOW[-level - 1]

    def on_rows_moved(self, event: Rows.Moved) -> None:
        """Up and down: the token in the same column of another line."""
        line = event.row // 2
        if self._tokens.ids and line != self._laid.line_of(self.token):
            self.token = self._laid.at(line, self._laid.column(self.token))
            self._tell()

    def on_rows_pointed(self, event: Rows.Pointed) -> None:
        if self._tokens.ids:
            self.move_to(self._laid.at(event.row // 2, event.column))

    def action_signal(self, by: int) -> None:
        self._signal = SIGNALS[(SIGNALS.index(self._signal) + by) % len(SIGNALS)]
        self._shading = Shading(self._tokens, self._signal)
        self.query_one("#lines", Rows).refresh()
        self._tell()

    def action_token(self, by: int) -> None:
        self.move_to(self.token + by)

    def action_outlier(self, by: int) -> None:
        found = outliers(self._shading, self._tokens)
        ahead = [at for at in found if (at > self.token if by > 0 else at < self.token)]
        if ahead:
            self.move_to(ahead[0] if by > 0 else ahead[-1])
        else:
            self.notify(f"no further token in the strongest shade of {self._signal}")

    def action_rendered(self) -> None:
        """The recorded prompt of this turn as text, special tokens shown."""
        turn = self.turn
        end = self._tokens.starts[turn] if self._tokens.starts else 0
        span = self._play.turns[turn].step.tokens if self._play and self._play.turns else None
        end += len(span.context) if span is not None else 0
        begin = next(
            (i for i in range(end) if self._tokens.segment[i] == self._tokens.segment[self.token]),
            0,
        )
        text = "".join(self._decode(token) for token in self._tokens.ids[begin:end])
        title = f" the prompt of turn {turn}, {end - begin} tokens"
        self.app.push_screen(TextScreen(title, text))


class _TokenLines:
    """Two rows a line: the tokens, and under each its glyph, for eyes and terminals without colour.

    A token is a style and a glyph wherever it stands, so `line` asks for those of its own only.
    """

    def __init__(self, view: LensView, laid: Layout) -> None:
        self._view, self._laid = view, laid

    def __len__(self) -> int:
        return 2 * len(self._laid.starts)

    def line(self, row: int, width: int) -> Text:
        out = Text()
        for token in self._laid.span(row // 2):
            style = Style.parse(self._view.style_of(token))
            if row % 2:
                out.append(self._view.glyph_of(token).ljust(self._laid.widths[token]), style)
                continue
            if token == self._view.token:
                style += Style(reverse=True, bold=True)
            out.append(self._laid.pieces[token], style)
        return out
