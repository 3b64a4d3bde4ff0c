import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrl.engine.base import KV, Generation, Request, Weights
from agentrl.engine.policy import Forgets, TokenPolicy, reply_seed
from agentrl.engine.render import Renderer
from agentrl.engine.tokens import Tokenizer
from agentrl.engine.torch.engine import TorchEngine
from agentrl.errors import EngineError
from agentrl.messages import Message
from agentrl.tool import ToolSpec
from agentrl.trajectory.records import TokenSpan
from tests.engine.checkpoints import save_tokenizer, saved

TOOLS = [ToolSpec("shell", "runs a command", {"command": {"type": "string"}})]
OPENING = [Message("system", "Be brief."), Message("user", "List the files.")]


@pytest.fixture(scope="module", params=["chatml", "llama3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    saved(path, "qwen2", vocab_size=360, max_position_embeddings=4096)
    save_tokenizer(path, request.param)
    return path


@pytest.fixture
def engine(folder: Path) -> Iterator[TorchEngine]:
    engine = TorchEngine(folder)
    yield engine
    engine.close()


def test_each_turn_starts_with_everything_sent_and_sampled(
    folder: Path, engine: TorchEngine
) -> None:
    policy = TokenPolicy(engine, Renderer(Tokenizer.load(folder)), reply_tokens=12)
    sent: list[int] = []
    context = list(OPENING)

    async def play() -> None:
        nonlocal context, sent
        for turn in range(5):
            expected = policy.count(context, TOOLS)
            reply = await policy.respond(context, TOOLS, "e")
            assert reply.tokens is not None
            span = reply.tokens
            assert span.continues == (turn > 0)
            prompt = sent + span.context if span.continues else span.context
            assert len(prompt) == expected
            assert prompt[: len(sent)] == sent
            if turn:
                assert span.cached == len(sent) - 1
            assert len(span.sampled) == len(span.logprobs) <= 12
            sent = prompt + span.sampled
            seen = Message("tool", f"result {turn}", call_id="c0.0")
            context = [*context, reply.message, seen]

    asyncio.run(play())


def test_a_rewritten_context_breaks_the_prefix_and_is_sent_whole(
    folder: Path, engine: TorchEngine
) -> None:
    renderer = Renderer(Tokenizer.load(folder))
    policy = TokenPolicy(engine, renderer, reply_tokens=6)

    async def play() -> None:
        first = await policy.respond(OPENING, TOOLS, "e")
        rewritten = [OPENING[0], Message("user", "Start again."), first.message]
        rewritten.append(Message("user", "Go on."))
        assert policy.count(rewritten, TOOLS) == len(renderer.prompt(rewritten, TOOLS))
        second = await policy.respond(rewritten, TOOLS, "e")
        assert second.tokens is not None
        assert not second.tokens.continues
        assert second.tokens.context == renderer.prompt(rewritten, TOOLS)

    asyncio.run(play())


def test_replies_depend_on_seed_session_and_turn_alone(folder: Path, engine: TorchEngine) -> None:
    def policy(seed: int) -> TokenPolicy:
        return TokenPolicy(engine, Renderer(Tokenizer.load(folder)), reply_tokens=8, seed=seed)

    async def sampled(seed: int, *sessions: str) -> list[list[int]]:
        one = policy(seed)
        replies = await asyncio.gather(*(one.respond(OPENING, (), s) for s in sessions))
        return [reply.tokens.sampled for reply in replies if reply.tokens is not None]

    async def play() -> None:
        a, b = await sampled(1, "a", "b")
        assert a != b
        assert await sampled(1, "b") == [b]
        assert await sampled(2, "a") != [a]

    asyncio.run(play())
    assert len({reply_seed(*key) for key in ((0, "a", 0), (0, "a", 1), (1, "a", 0), (0, "b", 0))})
    assert reply_seed(0, "a", 0) == 0 + reply_seed(0, "a", 0) < 2**64


class Fixed:
    """An engine that says what it is given: for what no random model would say."""

    def __init__(self, text: list[int], finish: str) -> None:
        self.text, self.finish = text, finish
        self.asked: list[Request] = []

    async def generate(self, request: Request) -> Generation:
        self.asked.append(request)
        finish = "stop" if self.finish == "stop" else "length"
        return Generation(self.text, [0.0] * len(self.text), [(0, 0)], finish)  # type: ignore[arg-type]

    async def pause(self, kv: KV) -> None: ...
    async def load(self, weights: Weights) -> None: ...
    async def resume(self) -> None: ...


def test_calls_are_read_without_the_stop_token_and_cut_ones_say_so(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder)
    text = '<tool_call>{"name": "shell", "arguments": {}}</tool_call>'
    whole = [*tokenizer.encode(text), *tokenizer.eos]

    async def play() -> None:
        ended = TokenPolicy(Fixed(whole, "stop"), Renderer(tokenizer), reply_tokens=99)
        message = (await ended.respond(OPENING, TOOLS, "e")).message
        assert (message.content, message.calls[0].name) == ("", "shell")
        cut = TokenPolicy(Fixed(whole[:-5], "length"), Renderer(tokenizer), reply_tokens=99)
        reply = await cut.respond(OPENING, TOOLS, "e")
        assert reply.finish == "length"
        assert "cut at the token limit" in (reply.message.calls[0].error or "")

    asyncio.run(play())


def test_no_more_is_asked_for_than_the_context_holds(folder: Path) -> None:
    renderer = Renderer(Tokenizer.load(folder))
    length = len(renderer.prompt(OPENING))
    fixed = Fixed([5], "length")

    async def play() -> None:
        for room, want in ((100, 40), (7, 7)):
            policy = TokenPolicy(fixed, renderer, reply_tokens=40, context_tokens=length + room)
            await policy.respond(OPENING, (), "e")
            assert fixed.asked[-1].max_tokens == want
        policy = TokenPolicy(fixed, renderer, reply_tokens=40, context_tokens=length)
        with pytest.raises(EngineError, match=f"takes {length} tokens"):
            await policy.respond(OPENING, (), "e")

    asyncio.run(play())


def test_forgetting_frees_policy_and_engine(folder: Path, engine: TorchEngine) -> None:
    assert isinstance(engine, Forgets)
    policy = TokenPolicy(engine, Renderer(Tokenizer.load(folder)), reply_tokens=4)

    async def play() -> None:
        await policy.respond(OPENING, (), "e")
        policy.forget("e")
        engine.flush()
        await engine.pause("drain")
        assert engine._batch.pool.held == 0
        await engine.resume()
        again = await policy.respond(OPENING, (), "e")
        assert again.tokens is not None
        assert not again.tokens.continues
        policy.forget("never seen")

    asyncio.run(play())
    assert len(policy._talks) == len(policy._by_reply) == 1


def test_a_fork_goes_on_from_the_same_tokens_and_their_cache(
    folder: Path, engine: TorchEngine
) -> None:
    policy = TokenPolicy(engine, Renderer(Tokenizer.load(folder)), reply_tokens=24)
    context = list(OPENING)
    sent: list[int] = []

    async def play() -> None:
        nonlocal context, sent
        policy.fork("silent", "child of the silent")
        for turn in range(3):
            if turn == 2:
                for child in ("x", "y"):
                    policy.fork("e", child)
                forked, so_far = list(context), list(sent)
            span, message = await said("e", context)
            assert span.continues == (turn > 0)
            sent = (sent if span.continues else []) + span.context + span.sampled
            context += [message, Message("tool", f"result {turn}", call_id="c0.0")]
        for child in ("x", "y"):  # the parent has moved on meanwhile
            expected = policy.count(forked, TOOLS)
            span, message = await said(child, forked)
            assert not span.continues
            assert len(span.context) == expected
            assert span.context[: len(so_far)] == so_far
            assert len(so_far) - span.cached <= 32
            after = [*forked, message, Message("tool", "more", call_id="c0.0")]
            assert (await said(child, after))[0].continues
        assert policy._talks["x"].tokens != policy._talks["y"].tokens  # each has its own seed

    async def said(session: str, context: list[Message]) -> tuple[TokenSpan, Message]:
        reply = await policy.respond(context, TOOLS, session)
        assert reply.tokens is not None
        return reply.tokens, reply.message

    asyncio.run(play())
    for session in ("e", "x", "y"):
        policy.forget(session)
    assert policy._talks == policy._by_reply == {}
