"""What is on disk is what happened, and what is trained on is exactly what the model saw.

A policy that says anything at all plays real tasks under every memory: prompts break, replies are
cut, calls are garbled, contexts overflow. Whatever happens, the promises of the record hold.
"""

import asyncio
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agentrl.agent.episode import Recipe, run_episode
from agentrl.engine.base import KV, Generation, Request, Weights
from agentrl.engine.policy import TokenPolicy
from agentrl.engine.render import Renderer
from agentrl.engine.tokens import Tokenizer
from agentrl.envs.terminal import TerminalEnv
from agentrl.generate.terminal import TerminalGenerator
from agentrl.memory.full import KeepAll
from agentrl.memory.truncate import Truncate
from agentrl.messages import Message, ToolCall
from agentrl.reward.state import StateVerifier
from agentrl.run.models import resolve
from agentrl.task import Task
from agentrl.trajectory.records import Trajectory
from agentrl.trajectory.segments import segments
from agentrl.trajectory.store import EpisodeLog, RunStore
from tests.directory_box import Opener

LINES = ["echo some words here", "cat *", "seq 40", "true", "ls -a", "false"]
MEMORIES = {"full": KeepAll, "truncate": Truncate}


class Listening:
    """An engine that says whatever the dice say, and remembers what it saw."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        self._dice = random.Random(seed)
        self.saw: list[list[int]] = []
        self.said: list[list[int]] = []

    async def generate(self, request: Request) -> Generation:
        said, finish = self._reply(request.max_tokens)
        self.saw.append([*request.tokens, *said])
        self.said.append(said)
        half = len(said) // 2
        versions = [(0, 3), (half, 4)] if half else [(0, 3)]
        return Generation(said, [-0.25] * len(said), versions, finish)  # type: ignore[arg-type]

    def _reply(self, limit: int) -> tuple[list[int], str]:
        kind = self._dice.choice(["call", "call", "garbled", "noise", "cut"])
        command = self._dice.choice(LINES)
        text = (
            f'<tool_call>{{"name": "shell", "arguments": {{"command": "{command}"}}}}</tool_call>'
        )
        tokens = self._tokenizer.encode(text)
        if kind == "garbled":
            del tokens[self._dice.randrange(len(tokens))]
        if kind == "noise":
            size = self._dice.randint(1, 12)
            tokens = [self._dice.randrange(2, self._tokenizer.size) for _ in range(size)]
        if kind == "cut":
            return tokens[: min(limit, 6)], "length"
        return [*tokens[: limit - 1], self._tokenizer.eos[0]], "stop"

    async def pause(self, kv: KV) -> None: ...
    async def load(self, weights: Weights) -> None: ...
    async def resume(self) -> None: ...


def task(room: int) -> Task:
    made = TerminalGenerator().make("count", 2, 5, "train")
    return replace(made, limits=replace(made.limits, steps=6, context_tokens=room, reply_tokens=60))


def live(
    store: RunStore, engine: Listening, renderer: Renderer, memory: str, room: int
) -> Trajectory:
    async def story() -> Trajectory:
        how = Recipe(
            open_sandbox=Opener(),
            envs={"terminal": TerminalEnv},
            verifiers={"state": StateVerifier()},
            policy=TokenPolicy(engine, renderer, reply_tokens=60),
            new_memory=MEMORIES[memory],
            boxes=asyncio.Semaphore(1),
            played=lambda episode: None,
        )
        return await run_episode(task(room), "g0", EpisodeLog(store, "g0.0"), how)

    return asyncio.run(story())


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(Tokenizer.load(resolve("tiny")))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 9_999),
    room=st.sampled_from([150, 220, 320, 2000]),
    memory=st.sampled_from(sorted(MEMORIES)),
)
def test_every_sampled_token_is_trained_once_in_what_the_model_saw(
    tmp_path: Path, renderer: Renderer, seed: int, room: int, memory: str
) -> None:
    engine = Listening(renderer.tokenizer, seed)
    with RunStore(Path(tempfile.mkdtemp(dir=tmp_path))) as store:
        lived = live(store, engine, renderer, memory, room)
        assert store.trajectories()["g0.0"] == lived
    assert lived.verdict is not None
    rows = segments(lived, [1.0] * len(lived.steps))
    for row in rows:
        assert row.tokens in engine.saw
        sizes = {len(row.mask), len(row.logprobs), len(row.advantages), len(row.versions)}
        assert sizes == {len(row.tokens)}
        assert all((v >= 0) == trained for v, trained in zip(row.versions, row.mask, strict=True))
        assert not row.mask[0]
    sampled = [t for step in lived.steps if step.tokens for t in step.tokens.sampled]
    trained = [t for row in rows for t, on in zip(row.tokens, row.mask, strict=True) if on]
    assert trained == sampled
    assert len(sampled) == sum(replied(lived))


def replied(lived: Trajectory) -> Sequence[int]:
    return [len(step.tokens.sampled) for step in lived.steps if step.tokens]


def test_a_truncated_context_starts_a_new_segment_that_is_measured(
    tmp_path: Path, renderer: Renderer
) -> None:
    for seed in range(40):
        engine = Listening(renderer.tokenizer, seed)
        with RunStore(tmp_path / str(seed)) as store:
            lived = live(store, engine, renderer, "truncate", 320)
        broken = [step for step in lived.steps if step.tokens and not step.tokens.continues]
        if len(broken) > 1:
            assert lived.segments == len(broken)
            return
    raise AssertionError("no seed led to a rewritten context: the test checks nothing")


def test_calls_of_an_oracle_are_read_back_as_they_were_written(renderer: Renderer) -> None:
    call = ToolCall("c0.0", "shell", {"command": "echo \"a\\b\" > 'x y'\n"})
    talk = [Message("system", "s"), Message("user", "u"), Message("assistant", "", (call,))]
    text = renderer.text(talk)
    said = text.rpartition("<|im_start|>assistant\n")[0].rpartition("<|im_start|>assistant\n")[2]
    read = renderer.parse(said.partition("<|im_end|>")[0])
    assert [(c.name, c.arguments, c.error) for c in read.calls] == [
        (call.name, call.arguments, None)
    ]
