import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from agentrl.engine.base import Generation, Request, Weights
from agentrl.engine.torch.engine import TorchEngine
from agentrl.errors import ConfigError, EngineError
from tests.engine.checkpoints import full_logprobs, reference, saved
from tests.engine.torch.lockstep import rounds
from tests.engine.torch.test_sample import by_hand


@contextmanager
def engine_of(folder: Path, **options: Any) -> Iterator[TorchEngine]:
    engine = TorchEngine(folder, **options)
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    saved(path, "qwen2")
    return path


@pytest.fixture(scope="module")
def model() -> Any:
    return reference("qwen2")


def prompt(length: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 97, (length,), generator=generator).tolist()


def check(model: Any, request: Request, got: Generation) -> None:
    """Every log-probability is that of a plain full forward pass over prompt and reply."""
    start = len(request.tokens)
    rows = full_logprobs(model, [*request.tokens, *got.tokens])[start - 1 : -1]
    heat = request.temperature or 1.0
    top_p, top_k = (request.top_p, request.top_k) if request.temperature else (1.0, 0)
    for row, token, logprob in zip(rows, got.tokens, got.logprobs, strict=True):
        want = by_hand((row / heat).tolist(), top_p, top_k)
        assert abs(torch.tensor(want[token]).double().log().item() - logprob) < 1e-4


async def together(engine: TorchEngine, requests: list[Request]) -> list[Generation]:
    return list(await asyncio.gather(*(engine.generate(request) for request in requests)))


async def until(engine: TorchEngine, decoded: int) -> None:
    """Waits for the engine to have sampled so many tokens."""
    for _ in range(10_000):
        if engine.counters()["decoded"] >= decoded:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the engine does not sample")


def mixed(turn: int = 0) -> list[Request]:
    shared = prompt(37)
    kinds = [(1.0, 1.0, 0), (0.7, 0.9, 0), (1.0, 1.0, 5), (0.0, 1.0, 0), (0.7, 0.8, 20)]
    return [
        Request(
            f"s{index}",
            shared + prompt(index * 7, seed=index),
            max_tokens=11 + index,
            temperature=heat,
            top_p=top_p,
            top_k=top_k,
            stop=(3, 4),
            seed=100 * turn + index,
        )
        for index, (heat, top_p, top_k) in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("qwen2", {}),
        ("qwen3", {"head_dim": 16, "num_key_value_heads": 1}),
        ("llama", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    ],
)
def test_logprobs_of_shared_mixed_multi_turn_batches_are_exact(
    tmp_path: Path, family: str, changes: dict[str, Any]
) -> None:
    model = saved(tmp_path, family, **changes)

    async def play(engine: TorchEngine) -> None:
        requests = mixed()
        for turn in range(1, 4):
            replies = await together(engine, requests)
            for request, reply in zip(requests, replies, strict=True):
                check(model, request, reply)
                if turn > 1:  # only the last sampled token and what is new were computed
                    assert reply.cached == len(request.tokens) - 4 - 1
            grown = zip(mixed(turn), requests, replies, strict=True)
            requests = [
                Request(
                    new.session,
                    [*old.tokens, *reply.tokens, *prompt(4, seed=turn)],
                    max_tokens=new.max_tokens,
                    temperature=new.temperature,
                    top_p=new.top_p,
                    top_k=new.top_k,
                    stop=new.stop,
                    seed=new.seed,
                )
                for new, old, reply in grown
            ]

    with engine_of(tmp_path, chunk=24, block=8) as engine:
        asyncio.run(play(engine))
        totals = engine.counters()
        assert totals["cached_prefix"] == 4 * 32  # the siblings waited for the first one's blocks
        assert totals["hits_session"] == 10
        assert totals["cached"] == totals["cached_prefix"] + totals["cached_session"]


def test_a_reply_does_not_depend_on_its_batch_mates(folder: Path) -> None:
    requests = mixed()

    async def alone(engine: TorchEngine) -> list[Generation]:
        return [await engine.generate(request) for request in requests]

    with engine_of(folder) as one, engine_of(folder, chunk=5) as two:
        for a, b in zip(asyncio.run(alone(one)), asyncio.run(together(two, requests)), strict=True):
            assert a.tokens == b.tokens
            assert a.finish == b.finish
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
        assert all(g.finish == "length" or g.tokens[-1] in (3, 4) for g in asyncio.run(alone(one)))


def test_a_cache_too_small_for_all_evicts_preempts_and_stays_exact(
    folder: Path, model: Any
) -> None:
    requests = [Request(f"s{i}", prompt(20, seed=i), 40, seed=i) for i in range(6)]
    with engine_of(folder, kv_tokens=160, block=4) as engine:
        for request, reply in zip(requests, asyncio.run(together(engine, requests)), strict=True):
            assert len(reply.tokens) == 40
            check(model, request, reply)
        assert engine.counters()["preemptions"] > 0
        assert engine.counters()["evictions"] > 0
        asyncio.run(engine.generate(Request("last", prompt(100, seed=9), 60)))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("s", prompt(150), 20), "KV cache holds 160"),
        (Request("s", prompt(150), 500), "knows 512 positions"),
        (Request("s", [], 5), "needs a prompt"),
        (Request("s", [97], 5), "outside the vocabulary"),
        (Request("s", [1], 5, temperature=-1.0), "temperature"),
    ],
)
def test_what_can_never_be_served_fails_at_once(
    folder: Path, request_: Request, message: str
) -> None:
    with engine_of(folder, kv_tokens=160) as engine, pytest.raises(EngineError, match=message):
        asyncio.run(engine.generate(request_))


def other_weights(path: Path) -> Any:
    path.mkdir()
    return saved(path, "qwen2", seed=5)


@pytest.mark.parametrize("kv", ["reuse", "recompute"])
def test_a_reply_goes_on_under_new_weights_and_says_from_where(
    folder: Path, tmp_path: Path, model: Any, kv: Any
) -> None:
    newer = other_weights(tmp_path / "v7")
    request = Request("s", prompt(30), 300, seed=1)

    async def play(engine: TorchEngine) -> tuple[Generation, Generation, Generation]:
        first = asyncio.create_task(engine.generate(request))
        await until(engine, 5)
        await engine.pause(kv)
        decoded = engine.counters()["decoded"]
        queued = asyncio.create_task(engine.generate(Request("t", prompt(30), 5)))
        await asyncio.sleep(0.02)
        assert engine.counters()["decoded"] == decoded
        await engine.load(Weights(7, tmp_path / "v7"))
        assert engine.version == 7
        await engine.resume()
        again = Request("s", [*request.tokens], 5)
        return await first, await queued, await engine.generate(again)

    with engine_of(folder) as engine:
        split, queued, later = asyncio.run(play(engine))
    (zero, old), (offset, new) = split.versions
    assert (zero, old, new) == (0, 0, 7)
    assert 5 <= offset < 300
    assert queued.versions == later.versions == [(0, 7)]
    assert later.cached in (16, 29)  # from the request queued meanwhile, under version 7
    check(newer, Request("t", prompt(30), 5), queued)
    check(newer, request, later)
    rows = full_logprobs(model, [*request.tokens, *split.tokens])[29:-1]
    start = [rows[i, t].item() for i, t in enumerate(split.tokens[:offset])]
    assert split.logprobs[:offset] == pytest.approx(start, abs=1e-4)
    rows = full_logprobs(newer, [*request.tokens, *split.tokens])[29:-1]
    rest = [rows[i, t].item() for i, t in enumerate(split.tokens)][offset:]
    exact = split.logprobs[offset:] == pytest.approx(rest, abs=1e-4)
    assert exact == (kv == "recompute")


def test_drain_answers_what_was_asked_before_it_pauses(folder: Path, tmp_path: Path) -> None:
    other_weights(tmp_path / "v2")

    async def play(engine: TorchEngine) -> None:
        asked = [asyncio.create_task(engine.generate(r)) for r in mixed()]
        await asyncio.sleep(0)
        draining = asyncio.create_task(engine.pause("drain"))
        await asyncio.sleep(0)
        late = asyncio.create_task(engine.generate(Request("late", prompt(9), 4)))
        await draining
        await asyncio.sleep(0.01)
        assert all(task.done() for task in asked)
        assert not late.done()
        await engine.load(Weights(2, tmp_path / "v2"))
        await engine.resume()
        assert (await late).versions == [(0, 2)]

    with engine_of(folder) as engine:
        asyncio.run(play(engine))


def test_new_weights_never_meet_an_old_cache(folder: Path, tmp_path: Path) -> None:
    newer = other_weights(tmp_path / "v1")
    request = Request("s", prompt(64), 4)

    async def play(engine: TorchEngine) -> Generation:
        await engine.generate(request)
        assert (await engine.generate(request)).cached > 0
        await engine.load(Weights(1, tmp_path / "v1"))
        return await engine.generate(request)

    with engine_of(folder) as engine:
        reply = asyncio.run(play(engine))
    assert reply.cached == 0
    check(newer, request, reply)


def test_weights_that_do_not_fit_leave_the_old_ones_in_place(
    folder: Path, tmp_path: Path, model: Any
) -> None:
    (tmp_path / "bad").mkdir()
    saved(tmp_path / "bad", "qwen2", hidden_size=16)

    async def play(engine: TorchEngine) -> Generation:
        with pytest.raises(ConfigError, match="has shape"):
            await engine.load(Weights(3, tmp_path / "bad"))
        with pytest.raises(ConfigError, match=r"model\.safetensors missing"):
            await engine.load(Weights(3, tmp_path / "nowhere"))
        return await engine.generate(Request("s", prompt(20), 4))

    with engine_of(folder) as engine:
        reply = asyncio.run(play(engine))
        assert engine.version == 0
    check(model, Request("s", prompt(20), 4), reply)


def test_salts_do_not_share_and_forgotten_sessions_leave_only_whole_blocks(folder: Path) -> None:
    async def play(engine: TorchEngine) -> list[int]:
        tokens = prompt(40)
        replies = [
            await engine.generate(Request("a", tokens, 2)),
            await engine.generate(Request("b", tokens, 2, salt="x")),
            await engine.generate(Request("c", tokens, 2, salt="x")),
        ]
        engine.forget("a")
        longer = [*tokens, *replies[0].tokens, 5]
        replies.append(await engine.generate(Request("a", longer, 2)))
        engine.flush()
        replies.append(await engine.generate(Request("d", tokens, 2)))
        return [reply.cached for reply in replies]

    with engine_of(folder) as engine:
        assert asyncio.run(play(engine)) == [0, 0, 32, 32, 0]


def test_cancelling_frees_everything(folder: Path) -> None:
    async def play(engine: TorchEngine) -> None:
        tasks = [
            asyncio.create_task(engine.generate(Request(f"s{i}", prompt(30, i), 400)))
            for i in range(4)
        ]
        await until(engine, 8)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
        await engine.pause("drain")
        assert not engine._batch.busy
        engine.flush()
        await engine.resume()
        assert engine._batch.pool.held == 0

    with engine_of(folder) as engine:
        asyncio.run(play(engine))


def test_a_broken_worker_fails_every_call_and_never_hangs(folder: Path) -> None:
    async def play(engine: TorchEngine) -> None:
        tasks = [
            asyncio.create_task(engine.generate(Request(f"s{i}", prompt(30), 400)))
            for i in range(3)
        ]
        await until(engine, 3)
        engine._post(lambda: engine._batch.pool.release([0, 0, 0, 0, 0]))
        for task in tasks:
            with pytest.raises(EngineError, match="worker broke"):
                await task
        with pytest.raises(EngineError, match="worker broke"):
            await engine.generate(Request("s", prompt(30), 4))
        with pytest.raises(EngineError, match="worker broke"):
            await engine.pause("drain")

    with engine_of(folder) as engine:
        asyncio.run(play(engine))


def test_closing_fails_what_still_waits(folder: Path) -> None:
    async def play(engine: TorchEngine) -> None:
        task = asyncio.create_task(engine.generate(Request("s", prompt(30), 400)))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(engine.close)
        with pytest.raises(EngineError, match="closed"):
            await task

    with engine_of(folder) as engine:
        asyncio.run(play(engine))


def test_lockstep_gives_the_same_bits_in_two_processes(folder: Path) -> None:
    there = subprocess.run(
        [sys.executable, "-m", "tests.engine.torch.lockstep", str(folder), "1"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    here = asyncio.run(rounds(folder, 2))
    assert len(here) == 2 + 3 + 4 + 2 + 3
    assert here == json.loads(there.stdout)


def test_a_lockstep_round_waits_for_all_and_answers_all_at_once(folder: Path) -> None:
    async def play(engine: TorchEngine) -> None:
        engine.expect(3)
        short = asyncio.create_task(engine.generate(Request("a", prompt(9), 2)))
        long = asyncio.create_task(engine.generate(Request("b", prompt(9), 60)))
        await asyncio.sleep(0.02)
        assert engine.counters()["iterations"] == 0
        engine.leave()
        await short
        await asyncio.sleep(0)
        assert long.done()

    with engine_of(folder, lockstep=True) as engine:
        asyncio.run(play(engine))
