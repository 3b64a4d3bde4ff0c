"""Process credit: what was measured on the way, made into credit that cannot be farmed for ever.

    mt_grpo           non-final turns: A^T_t + weight * A^O, the final turn: A^O   arXiv 2505.11821
                      (A^T: the turn's reward against the siblings' at that turn, A^O: the outcome)
    potential         F_t = discount * Phi_{t+1} - Phi_t with Phi = 0 at the end, so that no detour
                      pays; the return of F and the outcome against the siblings at that step
                      (Ng, Harada and Russell 1999)
    information_gain  r_t = p_{t+1} - p_t, p the chance the policy gives the known answer; the last
                      step earns the outcome                                       arXiv 2510.14967

Readings come from `Step.signals`. A raw bonus for a signal is not offered: what can be had again
and again is had again and again.
"""

import math
from itertools import pairwise
from typing import Literal

from agentrl.credit.arithmetic import Std, carried_by, centred, discounted, earned
from agentrl.credit.returns import checked_discount, columns_of
from agentrl.errors import ConfigError
from agentrl.trajectory.records import Group, Trajectory

Kind = Literal["mt_grpo", "potential", "information_gain"]


class ProcessCredit:
    """Credit from the signals named in `signals`; without any, mt_grpo is the outcome alone.

    mt_grpo: the sum of the signals is the turn's reward. potential: their sum after a step is Phi
    of the state it led to (a step that carries none leaves it as it was), `start` is Phi of the
    opening. information_gain: the one signal is the mean log-probability of the known answer,
    teacher-forced on what the policy saw before the step; the gains of all steps are normalised
    together, and a step's gain reaches back discounted. `std` and `eps` are those of every
    normalisation, as in GRPO. Members that were not judged get zeros and enter no baseline.
    Raises ConfigError on a signal list that the kind cannot use, or a discount outside 0..1.

    Example (mt_grpo, unbiased std, weight 1): turn rewards [1, 1, 0, 0], outcomes [1, 0, 1, 0]:
    first turn [1.7321, 0, 0, -1.7321], final turn [.866, -.866, .866, -.866].
    """

    def __init__(
        self,
        kind: Kind = "mt_grpo",
        *,
        signals: tuple[str, ...] = (),
        weight: float = 1.0,
        discount: float = 1.0,
        start: float = 0.0,
        std: Std = "unbiased",
        eps: float = 1e-6,
    ) -> None:
        needed = {"potential": "at least one", "information_gain": "exactly one"}.get(kind, "")
        fits = len(signals) == 1 if kind == "information_gain" else bool(signals)
        if needed and not fits:
            raise ConfigError(
                f"{kind} needs {needed} signal, and {len(signals)} are named",
                where="credit.signals",
                help='name what the env measures at each step, e.g. signals = ["tests_ok"]',
            )
        self.kind, self.signals, self.weight, self.start = kind, signals, weight, start
        self.discount = checked_discount(discount)
        self.std, self.eps = std, eps if std != "none" else 0.0

    def assign(self, group: Group) -> list[list[float]]:
        """One number for each step of each member."""
        known = [member for member in group.members if member.reward is not None]
        rows = {
            "mt_grpo": self.turns,
            "potential": self.shaped,
            "information_gain": self.gained,
        }[self.kind](known)
        found = iter(rows)
        return [
            [0.0] * len(member.steps) if member.reward is None else next(found)
            for member in group.members
        ]

    def report(self, group: Group) -> dict[str, float]:
        """Share of steps that carry each named signal."""
        return {f"carried.{name}": carried_by(group.members, name) for name in self.signals}

    def describe(self) -> str:
        """The formula in words."""
        named = " + ".join(self.signals) or "no signal"
        if self.kind == "mt_grpo":
            return (
                f"mt_grpo: non-final turns earn {named} against the siblings at that turn plus "
                f"{self.weight:g} times the outcome, the final turn the outcome; {self.std} std"
            )
        if self.kind == "potential":
            return (
                f"potential-based shaping by {named}, {self.discount:g} a step, zero at the end, "
                f"with the outcome, against the siblings at the same step; {self.std} std"
            )
        return (
            f"information gain by {named}, normalised over the group and discounted by "
            f"{self.discount:g} a step, with the outcome at the last step; {self.std} std"
        )

    def outcomes(self, known: list[Trajectory]) -> list[float]:
        return self.centred([member.reward for member in known if member.reward is not None])

    def turns(self, known: list[Trajectory]) -> list[list[float]]:
        """MT-GRPO."""
        earning = [[earned(step, self.signals) for step in member.steps[:-1]] for member in known]
        columns = [iter(self.centred(column)) for column in columns_of(earning)]
        out = []
        for row, outcome in zip(earning, self.outcomes(known), strict=True):
            out.append([next(columns[turn]) + self.weight * outcome for turn in range(len(row))])
            out[-1].append(outcome)
        return [row[: len(member.steps)] for row, member in zip(out, known, strict=True)]

    def shaped(self, known: list[Trajectory]) -> list[list[float]]:
        """Returns of the shaped reward, against the siblings at the same step."""
        rows = []
        for member in known:
            levels = self.potentials(member)
            row = [self.discount * after - before for before, after in pairwise(levels)]
            if row and member.reward is not None:
                row[-1] += member.reward
            rows.append(discounted(row, self.discount))
        columns = [iter(self.centred(column)) for column in columns_of(rows)]
        return [[next(columns[index]) for index in range(len(row))] for row in rows]

    def potentials(self, member: Trajectory) -> list[float]:
        """Phi before each step and after the last one, where it is 0: [K] -> [K + 1]."""
        levels = [self.start]
        for step in member.steps[:-1]:
            carried = any(name in step.signals for name in self.signals)
            levels.append(earned(step, self.signals) if carried else levels[-1])
        return [*levels[: len(member.steps)], 0.0]

    def gained(self, known: list[Trajectory]) -> list[list[float]]:
        """Information gains, normalised together, and the outcome, carried back."""
        gains = [information_gains(member, self.signals[0]) for member in known]
        level = iter(self.centred([gain for row in gains for gain in row]))
        rows = [[next(level) for _ in row] for row in gains]
        out = []
        for row, member, outcome in zip(rows, known, self.outcomes(known), strict=True):
            out.append(discounted([*row, outcome][: len(member.steps)], self.discount))
        return out

    def centred(self, values: list[float]) -> list[float]:
        return centred(values, self.std, self.eps)


def information_gains(member: Trajectory, signal: str) -> list[float]:
    """How much likelier the answer got by each step but the last: [K] -> [K - 1].

    A step without a reading takes over the one before it; before the first one the gain is 0.
    Example: mean log-probabilities -2, -1, -.5 give [.2325, .2387].
    """
    chances: list[float | None] = []
    for step in member.steps:
        before = chances[-1] if chances else None
        chances.append(math.exp(step.signals[signal]) if signal in step.signals else before)
    return [0.0 if a is None or b is None else b - a for a, b in pairwise(chances)]
