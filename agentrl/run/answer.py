"""What a run's verbs print at the end: one object, nested, fractions for success."""

import math
from pathlib import Path
from typing import Any

from msgspec import Struct

from agentrl.run.evaluate import Evaluation
from agentrl.run.intervals import Estimate, paired


class Ending(Struct, frozen=True):
    """Where a session stands when it is asked for its answer."""

    folder: Path
    step: int
    tokens: int  # sampled for training
    seconds: float  # wall time of all attempts
    counters: dict[str, float]  # the engine's
    temperature: float  # of evaluation
    digest: str  # of the held-out set


def number(value: float) -> float | None:
    """JSON has no nan."""
    return None if math.isnan(value) else round(value, 6)


def interval(found: Estimate) -> list[float | None]:
    return [number(bound) for bound in found.ci95]


def trained(end: Ending, before: Evaluation | None, after: Evaluation | None) -> dict[str, Any]:
    """A run that reached its last step. `heldout.ci95` is that of the paired difference."""
    out = stopped(end, "done")
    if before is not None and after is not None:
        gain = paired(before.results, after.results)
        out["heldout"] = {
            "before": number(before.success.mean),
            "after": number(after.success.mean),
            "difference": number(gain.mean),
            "ci95": interval(gain),
            "tasks": gain.n,
            "before_ci95": interval(before.success),
            "after_ci95": interval(after.success),
            "temperature": end.temperature,
            "digest": end.digest,
            **breakdown(after),
        }
    short = end.folder.name[-4:]
    out["next"] = [f"agentrl replay {short}", f"agentrl eval {short}"]
    return out


def stopped(end: Ending, state: str) -> dict[str, Any]:
    """Any end of a training run."""
    short = end.folder.name[-4:]
    return {
        "run": end.folder.name,
        "folder": str(end.folder),
        "state": state,
        "steps": end.step,
        "wall_s": round(end.seconds, 3),
        "tokens_sampled": end.tokens,
        "engine": {key: number(value) for key, value in end.counters.items()},
        "next": [f"agentrl resume {short}", f"agentrl replay {short}"],
    }


def measured(end: Ending, found: Evaluation, model: Path) -> dict[str, Any]:
    """What `eval --json` prints."""
    return {
        "run": end.folder.name,
        "model": str(model),
        "success": number(found.success.mean),
        "ci95": interval(found.success),
        "tasks": found.success.n,
        "episodes": found.episodes,
        "masked": found.masked,
        "malformed": found.malformed,
        "tokens_sampled": found.tokens,
        "temperature": end.temperature,
        "digest": end.digest,
        "wall_s": round(end.seconds, 3),
        **breakdown(found),
        "next": [f"agentrl replay {end.folder.name[-4:]}"],
    }


def breakdown(found: Evaluation) -> dict[str, Any]:
    return {
        "by_difficulty": {str(level): number(v) for level, v in found.by_difficulty.items()},
        "by_family": {family: number(v) for family, v in found.by_family.items()},
    }
