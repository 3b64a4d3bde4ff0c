"""Groups to credit, said in one line each."""

from collections.abc import Sequence
from typing import Any

from agentrl.messages import Message
from agentrl.task import Task
from agentrl.trajectory.records import Group, Step, TokenSpan, Trajectory

TASK = Task("t", "s", "do it")
OPENING = (Message("user", "do it"),)


def step(index: int, *, tokens: int = 0, saw: str = "", by: str = "agent", **more: Any) -> Step:
    """One step that sampled `tokens` tokens and then saw a line of output."""
    span = TokenSpan([1], [2] * tokens, [-1.0] * tokens, [(0, 0)]) if tokens else None
    seen = (Message("tool", saw),) if saw else ()
    segment = more.pop("segment", 0)
    return Step(index, segment, by, Message("assistant", "ok"), span, seen, **more)


def member(name: str, reward: float | None, steps: Sequence[Step], **more: Any) -> Trajectory:
    opening = more.pop("opening", OPENING)
    return Trajectory(name, "g", TASK, opening, tuple(steps), reward=reward, **more)


def group(*members: Trajectory) -> Group:
    return Group("g", TASK, members)


def plain(*rewards: float | None, steps: int = 1, tokens: Sequence[int] = ()) -> Group:
    """Tries of equal length; `tokens` sampled in each step of each."""
    counts = tokens or [0] * len(rewards)
    return group(
        *(
            member(str(i), reward, [step(n, tokens=count) for n in range(steps)])
            for i, (reward, count) in enumerate(zip(rewards, counts, strict=True))
        )
    )


def walk(name: str, states: Sequence[str], reward: float | None, **more: Any) -> Trajectory:
    """A try through named states; the first is what the opening says."""
    opening = (Message("user", states[0]),)
    steps = [step(n, saw=saw, tokens=1) for n, saw in enumerate([*states[1:], "the end"])]
    return member(name, reward, steps, opening=opening, **more)
