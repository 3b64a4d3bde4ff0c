"""Two tries at one task, aligned: what they share, and where they part."""

from difflib import SequenceMatcher
from typing import Literal

from msgspec import Struct

from agentrl.messages import Message
from agentrl.tui.play import Play

Kind = Literal["=", "~", "<", ">"]


class Pair(Struct, frozen=True):
    """Turns that stand side by side; None where one try has nothing there.

    `=` the same calls and words, `~` others, `<` and `>` only in the left or the right one.
    `outcome` says whether also the same came back.
    """

    kind: Kind
    left: int | None
    right: int | None
    outcome: bool = True


def aligned(left: Play, right: Play) -> list[Pair]:
    """Turns in order, matched where the same was done."""
    ours = [_signature(turn.step.reply) for turn in left.turns]
    theirs = [_signature(turn.step.reply) for turn in right.turns]
    out: list[Pair] = []
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            out += [
                Pair("=", i, j, _came(left, i) == _came(right, j))
                for i, j in zip(range(a, b), range(c, d), strict=True)
            ]
            continue
        both = min(b - a, d - c)
        out += [Pair("~", a + i, c + i, False) for i in range(both)]
        out += [Pair("<", i, None, False) for i in range(a + both, b)]
        out += [Pair(">", None, j, False) for j in range(c + both, d)]
    return out


def parting(pairs: list[Pair]) -> int | None:
    """The first place at which another thing was done; None where none was."""
    return next((i for i, pair in enumerate(pairs) if pair.kind != "="), None)


def _signature(reply: Message) -> tuple[str, ...]:
    """What was done; of a turn without a call, what was said. Ids of calls differ by chance."""
    if not reply.calls:
        return ("", reply.content.strip())
    return tuple(f"{call.name} {sorted(call.arguments.items())}" for call in reply.calls)


def _came(play: Play, turn: int) -> list[str]:
    return [message.content for message in play.turns[turn].step.seen]
