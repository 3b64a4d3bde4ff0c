"""New weights into a running engine, without losing what is in flight."""

import time

from agentrl.engine.base import KV, Engine, Weights
from agentrl.trajectory.events import WeightsLive, WeightsPublished
from agentrl.trajectory.store import RunStore


async def hand_over(engine: Engine, weights: Weights, kv: KV, store: RunStore) -> float:
    """Pause, load, resume. Returns seconds; the engine samples from `weights` afterwards."""
    began = time.monotonic()
    name = weights.path.name
    store.append(WeightsPublished(version=weights.version, path=f"weights/{name}"))
    await engine.pause(kv)
    try:
        await engine.load(weights)
    finally:
        await engine.resume()
    seconds = time.monotonic() - began
    store.append(WeightsLive(version=weights.version, seconds=seconds))
    return seconds
