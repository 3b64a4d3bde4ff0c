"""How much an update is paid for staying undecided: a fixed coefficient, or one that seeks a level.

Adaptive (Skywork-OR1, arXiv 2505.22312): after each step the coefficient moves by `delta` towards
holding the entropy at `target`, never below 0, and it is only applied while the entropy last
measured is at or below the target.
"""

from msgspec import Struct


class EntropyControl(Struct, frozen=True):
    """The coefficient, where it may go, and what was last measured (nats a token)."""

    coefficient: float
    target: float | None = None
    delta: float = 0.005
    last: float | None = None

    @property
    def applied(self) -> float:
        """The coefficient of the next update."""
        if self.target is None:
            return self.coefficient
        return self.coefficient if self.last is not None and self.last <= self.target else 0.0

    def after(self, entropy: float) -> "EntropyControl":
        """The control once a step has measured `entropy`; a fixed one stays as it is.

        Example: from 0 at delta .005, three steps below the target lead to .015.
        """
        if self.target is None:
            return self
        direction = (entropy < self.target) - (entropy > self.target)
        moved = max(0.0, self.coefficient + self.delta * direction)
        return EntropyControl(moved, self.target, self.delta, entropy)
