"""The keys that work here, from the bindings themselves."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from agentrl.tui.rows import Fixed, Rows


class HelpScreen(ModalScreen[None]):
    """A list of `key  what it does`; any of `?`, `q`, escape closes it."""

    CSS = """
    HelpScreen { align: center middle; }
    HelpScreen Rows { width: 80%; max-width: 70; height: 80%; background: $panel; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,q,escape", "dismiss", "close", id="help.close")
    ]

    def __init__(self, keys: list[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        yield Rows(cursor=False)

    def on_mount(self) -> None:
        width = max((len(key) for key, _ in self._keys), default=0)
        lines = [Text(f" {key:<{width}}  {what}") for key, what in self._keys]
        self.query_one(Rows).show(Fixed(lines), head=Text("keys that work here"))
