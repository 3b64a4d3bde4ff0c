"""Five sessions of different length in lock-step, arriving in an order that `shuffle` decides.

Run as a program it prints what they were answered, bit by bit.
"""

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

from agentrl.engine.base import Request
from agentrl.engine.torch.engine import TorchEngine


async def session(engine: TorchEngine, name: str, turns: int, replies: list[Any]) -> None:
    tokens = [*range(20), len(name), turns]
    for turn in range(turns):
        await asyncio.sleep(random.random() / 100)
        got = await engine.generate(Request(name, tokens, 9 + turns, seed=turn, stop=(3,)))
        bits = [value.hex() for value in got.logprobs]
        replies.append([name, turn, got.tokens, bits, got.cached])
        tokens = [*tokens, *got.tokens, turn, 1]
    engine.forget(name)
    engine.leave()


async def rounds(folder: Path, shuffle: int) -> list[Any]:
    random.seed(shuffle)
    engine = TorchEngine(folder, lockstep=True, kv_tokens=256, block=4)
    replies: list[Any] = []
    engine.expect(5)
    jobs = [session(engine, f"s{'x' * i}", 2 + i % 3, replies) for i in range(5)]
    random.shuffle(jobs)
    try:
        await asyncio.gather(*jobs)
    finally:
        engine.close()
    return sorted(replies)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(rounds(Path(sys.argv[1]), int(sys.argv[2])))))
