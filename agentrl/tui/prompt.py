"""One line to type into, at the bottom of whatever is shown."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Label


class Prompt(ModalScreen[str | None]):
    """Asks for a line; answers it, or None where it was left with escape."""

    CSS = """
    Prompt { align: left bottom; background: transparent; }
    Prompt Horizontal { height: 1; background: $panel; }
    Prompt Label { width: auto; padding: 0 1; text-style: bold; }
    Prompt Input { border: none; height: 1; width: 1fr; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", id="prompt.leave")]

    def __init__(self, label: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._label, self._value, self._hint = label, value, hint

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Label(self._label, markup=False)
            yield Input(self._value, placeholder=self._hint)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)
