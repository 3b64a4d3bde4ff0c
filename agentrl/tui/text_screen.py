"""Any text, to read: a configuration, a log."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Static

from agentrl.tui.lines import visible
from agentrl.tui.rows import Fixed, Rows


class TextScreen(Screen[None]):
    """A title and lines that scroll."""

    CSS = "TextScreen #top { height: 1; background: $panel; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "app.back", "back", id="text.back")
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        yield Static(Text(self._title, no_wrap=True), id="top")
        yield Rows(cursor=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        lines = [Text(visible(line, keep="")) for line in self._text.split("\n")]
        self.query_one(Rows).show(Fixed(lines))
