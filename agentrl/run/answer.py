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
