"""View 6: branches and siblings as a tree, and the segments of the episode shown."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.widgets import Static

from agentrl.tui.facts import DIM, MARK, reward_mark, seconds, signed
from agentrl.tui.lines import visible
from agentrl.tui.play import Play
from agentrl.tui.rows import Rows
from agentrl.tui.tree import Node, tree
from agentrl.tui.where import Columns


class TreeView(Container):
    """Enter opens the episode under the cursor: posts `Open`."""

    DEFAULT_CSS = """
    TreeView { layout: vertical; }
    TreeView #path { height: 2; background: $panel; }
    TreeView #nodes { height: 1fr; }
    """

    class Open(Message):
        def __init__(self, episode: str) -> None:
            super().__init__()
            self.episode = episode

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._drawn: list[Node] = []

    def compose(self) -> ComposeResult:
        yield Static(id="path")
        yield Rows(id="nodes")

    def show(self, play: Play, columns: Columns, turn: int) -> None:
        self._drawn = tree(columns, play.trajectory.id)
        names = [node.episode for node in self._drawn]
        here = play.trajectory.id
        row = names.index(here) if here in names else 0
        self.query_one("#nodes", Rows).show(_Nodes(self._drawn, columns, here), row)
        branches = {step for node in self._drawn if node.episode == here
                    for step, _, _ in node.forks}  # fmt: skip
        self.query_one("#path", Static).update(path(play, branches, turn), layout=False)

    def focus_inside(self) -> None:
        self.query_one("#nodes", Rows).focus()

    def on_rows_chosen(self, event: Rows.Chosen) -> None:
        if event.row < len(self._drawn):
            event.stop()
            self.post_message(self.Open(self._drawn[event.row].episode))


def path(play: Play, branches: set[int | None], turn: int) -> Text:
    """`●0─●1─◆2┬●3`: turns, rewrites, and where branches left."""
    out = Text(no_wrap=True, overflow="ellipsis")
    parent = play.trajectory.parent
    if parent is not None:
        out.append(f" forked from {visible(parent)} at step {play.trajectory.fork_step}", MARK)
    out.append(" ● turn  ◆ context rewritten  ┬ branches leave here\n ", DIM)
    segment = 0
    for number, one in enumerate(play.turns):
        if one.step.segment != segment:
            segment = one.step.segment
            out.append(" seg ", DIM)
        out.append("◆" if one.rewrite else "●", "reverse" if number == turn else "")
        out.append(f"{number}", "")
        out.append("┬" if number in branches else "─" if number < len(play.turns) - 1 else "", DIM)
    return out


class _Nodes:
    def __init__(self, nodes: list[Node], columns: Columns, here: str) -> None:
        self._drawn, self._columns, self._here = nodes, columns, here

    def __len__(self) -> int:
        return len(self._drawn)

    def line(self, row: int, width: int) -> Text:
        node = self._drawn[row]
        columns, place = self._columns, node.place
        out = Text(node.rails, DIM)
        style = "bold" if node.episode == self._here else ""
        out.append(f" {visible(node.episode):<14} ", style)
        stop, ended = columns["stop"][place], columns["stopped_at"][place]
        out.append_text(
            reward_mark(
                columns["reward"][place],
                columns["success"][place],
                columns["outcome"][place],
                stop,
            )
        )
        time = seconds(ended - columns["opened_at"][place] if ended > 0 else None)
        out.append(
            f"  adv {signed(columns['advantage'][place])} · {columns['steps'][place]} turns"
            f" · {stop or '—'} · {time}"
        )
        for step, value, tries in node.forks:
            at = "—" if step is None else step
            known = "—" if value is None else f"{value:.2f}"
            out.append(f"  value at {at} = {known} ({tries} tries)", MARK)
        return out
