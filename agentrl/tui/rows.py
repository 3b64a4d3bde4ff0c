"""Lines that are made only where they are seen: a list or a text of any length."""

from typing import ClassVar, Protocol

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip


class Lines(Protocol):
    """Something that has lines. `line` is asked for the visible ones alone."""

    def __len__(self) -> int: ...
    def line(self, row: int, width: int) -> Text: ...


class Fixed:
    """Lines that are there already."""

    def __init__(self, texts: list[Text]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def line(self, row: int, width: int) -> Text:
        return self._texts[row]


CURSOR = "▸ "


class Rows(ScrollView, can_focus=True):
    """A list with a cursor, or (with `cursor=False`) a text that scrolls.

    An entry may be `stride` lines high; the cursor is on the first of them.

    `head` stays above the lines. A click moves the cursor, a second one on it chooses.
    """

    DEFAULT_CSS = """
    Rows { overflow-x: hidden; scrollbar-size-vertical: 1; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False, id="rows.down"),
        Binding("up,k", "move(-1)", "up", show=False, id="rows.up"),
        Binding("g,home", "edge(-1)", "first", show=False, id="rows.first"),
        Binding("G,end", "edge(1)", "last", show=False, id="rows.last"),
        Binding("ctrl+d,pagedown", "page(1)", "page down", show=False, id="rows.page_down"),
        Binding("ctrl+u,pageup", "page(-1)", "page up", show=False, id="rows.page_up"),
        Binding("enter", "choose", "open", show=False, id="rows.choose"),
    ]

    row: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor is on another line."""

        def __init__(self, rows: "Rows", row: int) -> None:
            super().__init__()
            self.rows, self.row = rows, row

        @property
        def control(self) -> "Rows":
            return self.rows

    class Chosen(Moved):
        """Enter, or a click on the line under the cursor."""

    class HeadClicked(Message):
        def __init__(self, rows: "Rows", column: int) -> None:
            super().__init__()
            self.rows, self.column = rows, column

        @property
        def control(self) -> "Rows":
            return self.rows

    class Pointed(Moved):
        """A click, `column` cells into a line."""

        def __init__(self, rows: "Rows", row: int, column: int) -> None:
            super().__init__(rows, row)
            self.column = column

    def __init__(self, *, cursor: bool = True, stride: int = 1, id: str | None = None) -> None:
        super().__init__(id=id)
        self._cursor, self._stride = cursor, stride
        self._shown: Lines = Fixed([])
        self._head: Text | None = None
        self._base = Style()

    @property
    def lines(self) -> Lines:
        return self._shown

    @property
    def text_width(self) -> int:
        """Cells a line has."""
        return max(self.scrollable_content_region.width - (len(CURSOR) if self._cursor else 0), 1)

    def show(self, lines: Lines, row: int | None = None, head: Text | None = None) -> None:
        """Other lines; the cursor stays, or goes to `row`."""
        self._shown, self._head = lines, head
        self._measure()
        self.row = self._inside(self.row if row is None else row)
        self._follow()
        self.refresh()

    def go(self, row: int) -> None:
        """The cursor (or the top of the text) on a line."""
        if self._cursor:
            self.row = self._inside(row)
        else:
            self.scroll_to(y=row, animate=False)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style  # asked for once a frame: it walks up the whole tree
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        head = self._head is not None
        if y == 0 and self._head is not None:
            left = " " * len(CURSOR) if self._cursor else ""
            return self._strip(Text(left) + self._head, width, Style(bold=True, underline=True))
        row = y + self.scroll_offset.y - head
        if not 0 <= row < len(self._shown):
            return Strip.blank(width, self._base)
        line = self._shown.line(row, self.text_width)
        if not self._cursor:
            return self._strip(line, width, Style())
        here = row == self.row
        mark = Text(CURSOR if here else "  ")
        reverse = Style(reverse=True) if here and self.has_focus else Style(bold=here)
        return self._strip(mark + line, width, reverse)

    def _strip(self, text: Text, width: int, style: Style) -> Strip:
        text.no_wrap, text.end = True, ""
        text.truncate(width, pad=True)
        strip = Strip(text.render(self.app.console), None).apply_style(self._base + style)
        return strip.adjust_cell_length(width, self._base)

    def watch_row(self, old: int, new: int) -> None:
        if self.is_mounted and old != new:
            self._follow()
            self.refresh()
            self.post_message(self.Moved(self, new))

    def _inside(self, row: int) -> int:
        row = max(0, min(row, len(self._shown) - 1))
        return row - row % self._stride

    def _follow(self) -> None:
        """Scroll so that the cursor is seen."""
        if not self._cursor or not self.is_attached:
            return
        height = max(self.scrollable_content_region.height - (self._head is not None), 1)
        top = self.scroll_offset.y
        if self.row < top:
            self.scroll_to(y=self.row, animate=False, force=True)
        elif self.row + self._stride > top + height:
            self.scroll_to(y=self.row + self._stride - height, animate=False, force=True)

    def on_resize(self) -> None:
        self._measure()
        self._follow()

    def _measure(self) -> None:
        height = len(self._shown) + (self._head is not None)
        self.virtual_size = Size(max(self.scrollable_content_region.width, 1), height)

    def action_move(self, by: int) -> None:
        if self._cursor:
            self.row = self._inside(self.row + by * self._stride)
        else:
            self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def action_edge(self, side: int) -> None:
        self.go(0 if side < 0 else max(len(self._shown) - 1, 0))

    def action_page(self, side: int) -> None:
        self.action_move(side * max(self.size.height // 2, 1))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A text has nothing to choose, so that enter is left to its screen."""
        return self._cursor if action == "choose" else True

    def action_choose(self) -> None:
        if self._cursor and len(self._shown):
            self.post_message(self.Chosen(self, self.row))

    def on_click(self, event: events.Click) -> None:
        if event.y == 0 and self._head is not None:
            self.post_message(self.HeadClicked(self, event.x - len(CURSOR)))
            return
        row = event.y + self.scroll_offset.y - (self._head is not None)
        if not self._cursor or not 0 <= row < len(self._shown):
            return
        if self._inside(row) == self.row:
            self.action_choose()
        self.row = self._inside(row)
        self.post_message(self.Pointed(self, self.row, max(event.x - len(CURSOR), 0)))
