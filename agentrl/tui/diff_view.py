"""View 5: two siblings side by side from where they part."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static

from agentrl.tui.diff import Pair, aligned, parting
from agentrl.tui.facts import DIM, MARK, status
from agentrl.tui.lines import visible
from agentrl.tui.play import Play, call_line
from agentrl.tui.rows import Fixed, Rows
from agentrl.tui.turns_view import turn_texts, wrapped


class DiffView(Container):
    """Above the aligned turns of both, below the two under the cursor in full."""

    DEFAULT_CSS = """
    DiffView { layout: vertical; }
    DiffView #both { height: 2; background: $panel; }
    DiffView #pairs { height: 1fr; }
    DiffView #sides { height: 40%; layout: horizontal; border-top: solid $panel; }
    DiffView #left { width: 50%; border-right: solid $panel; }
    DiffView #right { width: 50%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "next(-1)", "difference", key_display="[ ]",
                id="diff.previous"),
        Binding("right_square_bracket", "next(1)", "next", show=False, id="diff.next"),
        Binding("equals_sign", "fold", "fold equal", key_display="=", id="diff.fold"),
    ]  # fmt: skip

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._plays: tuple[Play, Play] | None = None
        self._pairs: list[Pair] = []
        self._fold = True

    def compose(self) -> ComposeResult:
        yield Static(id="both")
        yield Rows(id="pairs")
        with Container(id="sides"):
            yield Rows(cursor=False, id="left")
            yield Rows(cursor=False, id="right")

    def show(self, play: Play, other: Play | None) -> None:
        """This try beside another; None: there is nobody to compare with."""
        if other is None:
            self._plays, self._pairs = None, []
            alone = "this episode has no sibling: mark two in the list and press v"
            self.query_one("#both", Static).update(Text(f" {alone}"), layout=False)
            self.query_one("#pairs", Rows).show(Fixed([]))
            return
        self._plays, self._pairs = (play, other), aligned(play, other)
        out = Text(no_wrap=True, overflow="ellipsis")
        for side in (play, other):
            out.append_text(Text(f" {visible(side.trajectory.id)}  ", "bold"))
            out.append_text(status(side))
            out.append("\n")
        self.query_one("#both", Static).update(out, layout=False)
        self._arrange()

    def focus_inside(self) -> None:
        self.query_one("#pairs", Rows).focus()

    @property
    def parted_at(self) -> int | None:
        """The pair at which the two part."""
        return parting(self._pairs)

    def _arrange(self) -> None:
        """Equal turns at the beginning are one line while they are folded."""
        assert self._plays is not None
        first = self.parted_at
        same = len(self._pairs) if first is None else first
        self._hidden = same if self._fold and same > 1 else 0
        lines = _PairLines(self._plays, self._pairs, self._hidden)
        self.query_one("#pairs", Rows).show(lines, min(1, same) if self._hidden else same)
        self._tell()

    def _pair(self) -> Pair | None:
        row = self.query_one("#pairs", Rows).row
        at = row + self._hidden - 1 if self._hidden else row
        if self._hidden and row == 0:
            return self._pairs[0] if self._pairs else None
        return self._pairs[at] if at < len(self._pairs) else None

    def _tell(self) -> None:
        pair = self._pair()
        if pair is None or self._plays is None:
            return
        for name, play, turn in zip(
            ("#left", "#right"), self._plays, (pair.left, pair.right), strict=True
        ):
            texts = [] if turn is None else turn_texts(play, turn, whole=False, think=True)
            rows = self.query_one(name, Rows)
            width = max(rows.text_width - 1, 10)
            rows.show(Fixed([piece for text in texts for piece in wrapped(text, width)]))

    def on_rows_moved(self, event: Rows.Moved) -> None:
        if event.rows.id == "pairs":
            self._tell()

    def action_next(self, by: int) -> None:
        rows = self.query_one("#pairs", Rows)
        shift = self._hidden - 1 if self._hidden else 0
        places = [i - shift for i, pair in enumerate(self._pairs) if pair.kind != "="]
        ahead = [at for at in places if (at > rows.row if by > 0 else at < rows.row)]
        if ahead:
            rows.go(ahead[0] if by > 0 else ahead[-1])

    def action_fold(self) -> None:
        self._fold = not self._fold
        if self._plays is not None:
            self._arrange()


class _PairLines:
    def __init__(self, plays: tuple[Play, Play], pairs: list[Pair], hidden: int) -> None:
        self._plays, self._pairs, self._hidden = plays, pairs, hidden

    def __len__(self) -> int:
        return len(self._pairs) - (self._hidden - 1 if self._hidden else 0)

    def line(self, row: int, width: int) -> Text:
        if self._hidden and row == 0:
            return Text(f"= the same {self._hidden} turns at the beginning", DIM)
        pair = self._pairs[row + (self._hidden - 1 if self._hidden else 0)]
        half = max((width - 5) // 2, 8)
        style = DIM if pair.kind == "=" and pair.outcome else ""
        out = Text()
        out.append(self._side(0, pair.left, half), style)
        mark = "≠" if pair.kind == "=" and not pair.outcome else pair.kind
        out.append(f"  {mark}  ", MARK if mark != "=" else DIM)
        out.append(self._side(1, pair.right, half), style)
        return out

    def _side(self, which: int, turn: int | None, width: int) -> str:
        if turn is None:
            return " " * width
        step = self._plays[which].turns[turn].step
        text = f"{turn:>3} {visible(call_line(step))}"
        return f"{text[: width - 1]}…" if len(text) > width else f"{text:<{width}}"
