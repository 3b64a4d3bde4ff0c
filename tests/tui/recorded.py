"""A run on disk as the screens meet them: solved, failed, masked, rewritten, branched, open."""

from pathlib import Path

from agentrl.config import load
from agentrl.messages import Message, ToolCall
from agentrl.run.metrics import MetricsFile, StepRow
from agentrl.run.runs import create_run, update_run
from agentrl.task import Limits, Task
from agentrl.trajectory.events import (
    ContextSet,
    Credited,
    EpisodeOpened,
    EpisodeStopped,
    Observed,
    Replied,
    TokensScored,
    Verified,
)
from agentrl.trajectory.records import TokenSpan, Verdict, masked, scored
from agentrl.trajectory.store import RunStore

BORN = 1_800_000_000.0


def task(number: int) -> Task:
    """Asks for the words of one file to be counted."""
    return Task(
        f"terminal/count/1/{number:06d}",
        "terminal",
        f"Count the words of file{number}.txt.",
        limits=Limits(context_tokens=200),
        meta={"family": "count", "difficulty": 1},
    )


def shell(command: str) -> Message:
    return Message("assistant", "", (ToolCall("1", "shell", {"command": command}),))


class Pen:
    """Writes one episode with a clock of its own: a second a reply, a quarter for its tools."""

    def __init__(self, store: RunStore, episode: str, group: str, at: float = BORN) -> None:
        self.store, self.episode, self.at = store, episode, at
        self.sent = 0
        self._group = group

    def open(self, number: int, parent: str | None = None, fork: int | None = None) -> None:
        asked = task(number)
        self.store.append(
            EpisodeOpened(
                episode=self.episode, group=self._group, task=asked, at=self.at,
                parent=parent, fork_step=fork,
            )
        )  # fmt: skip
        opening = (Message("system", "You use a shell."), Message("user", asked.instruction))
        self.set_context("env", opening)

    def set_context(self, by: str, context: tuple[Message, ...]) -> None:
        self.store.append(ContextSet(episode=self.episode, by=by, context=context, at=self.at))

    def turn(
        self,
        reply: Message,
        seen: str = "ok",
        *,
        logprobs: tuple[float, ...] = (-0.05, -0.5, -2.0, -4.0),
        version: int = 1,
        continues: bool = True,
        malformed: int = 0,
    ) -> None:
        self.at += 1.0
        context = list(range(10, 20)) if continues and self.sent else list(range(40, 70))
        span = TokenSpan(
            context, list(range(100, 100 + len(logprobs))), list(logprobs), [(0, version)],
            continues and self.sent > 0,
        )  # fmt: skip
        self.sent += 1
        self.store.append(
            Replied(episode=self.episode, by="agent", reply=reply, tokens=span, at=self.at)
        )
        self.at += 0.25
        message = Message("tool", seen, call_id="1")
        self.store.append(
            Observed(episode=self.episode, seen=(message,), malformed=malformed, at=self.at)
        )

    def stop(self, verdict: Verdict | None, why: str = "done", error: str | None = None) -> None:
        self.at += 0.5
        stopped = EpisodeStopped(episode=self.episode, why=why, error=error, at=self.at)  # type: ignore[arg-type]
        self.store.append(stopped)
        if verdict is not None:
            self.store.append(
                Verified(episode=self.episode, verdict=verdict, reward=verdict.score, at=self.at)
            )

    def credit(self, advantages: tuple[float, ...], step: int) -> None:
        self.store.append(
            Credited(episode=self.episode, by="outcome", advantages=advantages, step=step,
                     at=self.at + 1)
        )  # fmt: skip


def record(runs: Path) -> Path:
    """The run; returns its folder."""
    folder = create_run(load("terminal"), ["agentrl", "train"], runs)
    named = folder.with_name("terminal-tiny-7f3a")
    folder.rename(named)
    (named / "config.toml").write_text('model = "tiny"\nseed = 0\n')
    update_run(named, id=named.name, state="done", step=12, of=20, created=BORN)
    with RunStore(named) as store:
        _solved(store)
        _failed(store)
        _masked(store)
        _rewritten(store)
        _branch(store, "g1.0/f0", 1.0)
        _branch(store, "g1.0/f1", 0.0)
        playing = Pen(store, "g2.0", "g2", BORN + 60)
        playing.open(2)
        playing.turn(shell("ls"), "file2.txt")
    rows = MetricsFile(named / "metrics.jsonl")
    for step in range(1, 13):
        rows.append(metric_row(step))
    with rows.path.open("ab") as file:
        file.write(b'{"step":13,"of":2')  # a crash in the middle of a line
    return named


def metric_row(step: int) -> StepRow:
    return StepRow(
        step=step, of=20, reward=step / 20, reward_ci=(step / 20 - 0.05, step / 20 + 0.05),
        heldout=0.25 + step / 40 if step % 4 == 0 else None,
        heldout_ci=(0.2, 0.7) if step % 4 == 0 else None,
        groups=8, flat=2, malformed=12 - step, tokens=2_000, rollout_s=3.0, learn_s=2.0,
        handover_s=0.1, version=step,
        stats={"entropy": 1.5 - step / 20, "mismatch_mean": 0.0004, "mismatch_max": 0.02,
               "clip_fraction": 0.012, "grad_norm": 0.4, "staleness_mean": 0.5,
               "staleness_max": 1.0, "loss": 0.01},
    )  # fmt: skip


def _solved(store: RunStore) -> None:
    pen = Pen(store, "g0.0", "g0")
    pen.open(0)
    pen.turn(shell("cat file0.txt"), "one two three\n")
    pen.turn(shell("wc -w file0.txt"), "3 file0.txt\n")
    pen.turn(shell("echo 3 > n.txt"), "", version=2)
    pen.stop(scored(1.0, {"answer": 1.0}))
    pen.credit((0.9, 0.9, 0.9), 4)
    for segment, numbers in [(0, (-0.05, -0.6, -2.0, -4.5) * 3)]:
        store.append(
            TokensScored(episode="g0.0", step=4, segment=segment, logprobs=numbers, at=BORN + 20)
        )


def _failed(store: RunStore) -> None:
    pen = Pen(store, "g0.1", "g0", BORN + 10)
    pen.open(0)
    pen.turn(shell("cat file0.txt"), "one two three\n")
    pen.turn(Message("assistant", "", (ToolCall("1", "", error="no closing brace"),)), "unreadable",
             malformed=1)  # fmt: skip
    pen.turn(shell("echo 4 > n.txt"), "".join(f"line {n}\n" for n in range(40)))
    pen.stop(Verdict("reward", 0.0, {"answer": 0.0}, "n.txt holds 4, not 3", ("tests.edited",)))
    pen.credit((-0.9, -0.9, -0.9), 4)


def _masked(store: RunStore) -> None:
    pen = Pen(store, "g0.2", "g0", BORN + 20)
    pen.open(0)
    pen.stop(masked("the box did not start"), "error", "the box did not start\x1b[2J")


def _rewritten(store: RunStore) -> None:
    pen = Pen(store, "g1.0", "g1", BORN + 30)
    pen.open(1)
    pen.turn(shell("ls -R /"), "a long list of files")
    pen.turn(shell("cat file1.txt"), "one two")
    kept = (Message("user", task(1).instruction), Message("user", "Notes: file1.txt is here."))
    pen.set_context("Summarize", kept)
    pen.turn(shell("echo 2 > n.txt"), "", continues=False, version=2)
    pen.stop(scored(0.5))
    pen.credit((0.1, 0.2, -0.3), 5)


def _branch(store: RunStore, episode: str, score: float) -> None:
    pen = Pen(store, episode, "g1", BORN + 45)
    pen.open(1, parent="g1.0", fork=1)
    pen.turn(shell(f"echo {score:.0f} > n.txt"), "")
    pen.stop(scored(score))
