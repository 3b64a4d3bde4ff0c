"""How the last episodes of a run ended, by class of failure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

LAST = 256
CLASSES = ("solved", "wrong", "steps", "context", "reply", "time", "malformed", "masked", "broken")
"""In the order shown. `wrong`: it said done and was not; `malformed`: it failed, and most of its
replies held a call that could not be read; `masked`: the host's fault; `broken`: stopped by an
error and still scored. The others are the limit it ran into."""


def classes(columns: Mapping[str, Any], last: int = LAST) -> dict[str, int]:
    """Of the last episodes that ended: class -> count, every class named."""
    ended = np.flatnonzero(columns["stopped_at"] > 0)
    recent = ended[np.argsort(columns["stopped_at"][ended], kind="stable")][-last:]
    found = Counter(_class(columns, place) for place in recent)
    return {name: found[name] for name in CLASSES}


def _class(columns: Mapping[str, Any], place: int) -> str:
    outcome, stop = columns["outcome"][place], columns["stop"][place]
    if outcome is not None and outcome != "reward":
        return "masked"
    if columns["success"][place]:
        return "solved"
    if stop == "error":
        return "broken"
    steps = columns["steps"][place]
    if steps and columns["malformed"][place] > 0.5 * steps:
        return "malformed"
    return "wrong" if stop == "done" else str(stop)
