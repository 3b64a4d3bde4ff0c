"""What a run's verbs print at the end: one object, nested, fractions for success."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrl.run.evaluate import Evaluation
from agentrl.run.intervals import Estimate, paired

if TYPE_CHECKING:
    from agentrl.run.session import Session


def number(value: float) -> float | None:
    """JSON has no nan."""
    return None if math.isnan(value) else round(value, 6)


def interval(found: Estimate) -> list[float | None]:
    return [number(bound) for bound in found.ci95]


def trained(
    session: "Session", step: int, before: Evaluation | None, after: Evaluation | None
) -> dict[str, Any]:
    """A run that reached its last step. `heldout.ci95` is that of the paired difference."""
    out = stopped(session.folder, step, session.tokens, session.seconds, "done")
    out["engine"] = {key: number(value) for key, value in session.engine.counters().items()}
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
            "temperature": session.config.eval.temperature,
            "digest": session.world.digest,
            **breakdown(after),
        }
    short = session.folder.name[-4:]
    out["next"] = [f"agentrl replay {short}", f"agentrl eval {short}"]
    return out


def stopped(folder: Path, step: int, tokens: int, seconds: float, state: str) -> dict[str, Any]:
    """Any end of a training run."""
    short = folder.name[-4:]
    return {
        "run": folder.name,
        "folder": str(folder),
        "state": state,
        "steps": step,
        "wall_s": round(seconds, 3),
        "tokens_sampled": tokens,
        "next": [f"agentrl resume {short}", f"agentrl replay {short}"],
    }


def measured(session: "Session", found: Evaluation, model: Path) -> dict[str, Any]:
    """What `eval --json` prints."""
    return {
        "run": session.folder.name,
        "model": str(model),
        "success": number(found.success.mean),
        "ci95": interval(found.success),
        "tasks": found.success.n,
        "episodes": found.episodes,
        "masked": found.masked,
        "malformed": found.malformed,
        "tokens_sampled": found.tokens,
        "temperature": session.config.eval.temperature,
        "digest": session.world.digest,
        "wall_s": round(session.seconds, 3),
        **breakdown(found),
        "next": [f"agentrl replay {session.folder.name[-4:]}"],
    }


def breakdown(found: Evaluation) -> dict[str, Any]:
    return {
        "by_difficulty": {str(level): number(v) for level, v in found.by_difficulty.items()},
        "by_family": {family: number(v) for family, v in found.by_family.items()},
    }
