"""View 4: what the model saw at a turn, message by message."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Static

from agentrl.messages import Message
from agentrl.tui.facts import BAD, DIM, GOOD, MARK, bar, count, spark
from agentrl.tui.lines import call_lines, indented, visible
from agentrl.tui.play import Play
from agentrl.tui.rows import Fixed, Rows


class ContextView(Container):
    """The context over the episode, and its messages at the turn under the cursor."""

    DEFAULT_CSS = """
    ContextView { layout: vertical; }
    ContextView #use { height: 3; background: $panel; }
    ContextView #saw { height: 1fr; }
    """

    def compose(self) -> ComposeResult:
        yield Static(id="use")
        yield Rows(cursor=False, id="saw")

    def show(self, play: Play, turn: int) -> None:
        self.query_one("#use", Static).update(_use(play, turn), layout=False)
        self.query_one("#saw", Rows).show(Fixed(context_texts(play, turn)))
        self.query_one("#saw", Rows).go(0)

    def focus_inside(self) -> None:
        self.query_one("#saw", Rows).focus()


def _use(play: Play, turn: int) -> Text:
    limit = max(play.trajectory.task.limits.context_tokens, 1)
    known = play.turns[turn].context if turn < len(play.turns) else None
    out = Text(no_wrap=True, overflow="ellipsis")
    out.append(f" what the model saw at turn {turn}", "bold")
    segment = play.turns[turn].step.segment if turn < len(play.turns) else 0
    out.append(f" (segment {segment})\n {count(known)} of {count(limit)} tokens ")
    out.append(bar((known or 0) / limit, 16))
    cached = play.turns[turn].step.tokens if turn < len(play.turns) else None
    if cached is not None:
        out.append(f"  {count(cached.cached)} of them reused from the cache")
    contexts = spark([t.context for t in play.turns[-60:]], 0)
    rewrites = "".join("◆" if t.rewrite else " " for t in play.turns[-60:]).rstrip()
    out.append(f"\n {contexts}  ◆ rewritten {rewrites.count('◆')} times")
    return out


def context_texts(play: Play, turn: int) -> list[Text]:
    """The messages, then what a rewrite before this turn left out."""
    saw = play.saw(turn)
    out: list[Text] = []
    for came, message in saw:
        out += _message(came, message)
    lost = [pair for pair in _before(play, turn) if pair not in saw]
    if lost:
        out += [Text(""), Text("no longer seen since the last rewrite", f"bold {MARK}")]
        for came, message in lost:
            first = (message.content or " ".join(call.name for call in message.calls)).split("\n")
            size = f"{len(message.content)} characters"
            line = f"  - turn {came:>3}  {message.role}: {first[0][:60]}   {size}"
            out.append(Text(visible(line), BAD))
    return out


def _before(play: Play, turn: int) -> list[tuple[int, Message]]:
    """All that was said up to here, had nothing been rewritten."""
    out = [(-1, message) for message in play.trajectory.opening]
    for number in range(turn):
        step = play.turns[number].step
        out += [(number, step.reply), *((number, message) for message in step.seen)]
    return out


def _message(came: int, message: Message) -> list[Text]:
    where = "before" if came < 0 else f"turn {came}"
    style = {"assistant": GOOD, "tool": DIM}.get(message.role, "bold")
    out = [Text(f"{message.role}  ({where})", style)]
    if message.content:
        out += [Text(line) for line in indented(message.content, 4)]
    for call in message.calls:
        out += [Text(line) for line in call_lines(call)]
    return out
