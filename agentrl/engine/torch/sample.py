"""From logits to tokens: the whole batch at once, in float64, by inverse CDF.

Randomness comes in from outside as one uniform a row, drawn from Philox by (seed, position), so a
reply does not depend on its batch mates beyond the rounding of its logits.
"""

import numpy as np
import torch
from torch import Tensor

from agentrl.errors import EngineError

CHUNK = 64


class Uniforms:
    """Number i of the Philox4x64 stream keyed by (`seed`, `other`), for any i."""

    def __init__(self, seed: int, other: int = 0) -> None:
        word = 2**64 - 1
        self._key = (seed & word) | (other & word) << 64
        self._start = -CHUNK
        self._drawn: list[float] = []

    def __getitem__(self, position: int) -> float:
        if not self._start <= position < self._start + CHUNK:
            self._start = position // CHUNK * CHUNK
            # Philox gives four 64-bit words for one count, and a double uses one word.
            stream = np.random.Philox(key=self._key, counter=self._start // 4)
            self._drawn = np.random.Generator(stream).random(CHUNK).tolist()
        return self._drawn[position - self._start]


def truncate(scores: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """-inf outside the k likeliest (0: all) and outside the smallest set holding mass top_p.

    scores [B,V] float64, top_p [B], top_k [B] -> [B,V]. Top-k comes first and top-p looks at what
    is left, renormalised. Of equal scores the lower token id is likelier. One token always stays.
    """
    # Values are sorted without their places, which is several times faster; the places follow from
    # the value of the last one kept.
    ranked = torch.from_numpy(np.sort(scores.numpy(), axis=1)).flip(1)
    kept = (top_k[:, None] <= 0) | (torch.arange(scores.shape[1]) < top_k[:, None])
    mass = torch.softmax(ranked.masked_fill(~kept, -torch.inf), dim=1)
    before = mass.cumsum(1) - mass
    kept &= (before < top_p[:, None]) | (top_p[:, None] >= 1.0)
    count = kept.sum(1, keepdim=True).clamp_(min=1)
    last = ranked.gather(1, count - 1)
    above = scores > last
    equal = scores == last
    equal &= equal.cumsum(1) <= count - above.sum(1, keepdim=True)
    return scores.masked_fill(~(above | equal), -torch.inf)


def sample(
    logits: Tensor,
    uniforms: list[float],
    temperature: list[float],
    top_p: list[float],
    top_k: list[int],
) -> tuple[list[int], list[float]]:
    """One token a row and the log-probability it had when drawn; logits [B,V].

    The log-probability is of the distribution sampled from: after temperature, top-k and top-p,
    renormalised. Temperature 0 takes the likeliest token (the lowest id among equals) and reports
    its log-softmax at temperature 1, since the greedy distribution itself would always say 0.
    """
    scores = logits.to("cpu", torch.float64)
    if any(t != 1.0 for t in temperature):
        heat = torch.tensor([t if t > 0.0 else 1.0 for t in temperature], dtype=torch.float64)
        scores = scores / heat[:, None]
    cut = [
        row
        for row, (t, p, k) in enumerate(zip(temperature, top_p, top_k, strict=True))
        if t > 0.0 and (p < 1.0 or 0 < k < scores.shape[1])
    ]
    if cut:
        scores = scores if scores is not logits else scores.clone()
        scores[cut] = truncate(
            scores[cut],
            torch.tensor([top_p[row] for row in cut], dtype=torch.float64),
            torch.tensor([top_k[row] for row in cut]),
        )
    top = scores.amax(1, keepdim=True)
    mass = (scores - top).exp_().cumsum_(1)
    total = mass[:, -1:]
    if not bool(torch.isfinite(total).all()):
        raise EngineError(
            "the model's logits are not finite numbers",
            help="the weights are broken: look at the last optimizer steps, or lower the rate",
        )
    # Strictly below the total, so that the first sum above it exists and has mass of its own.
    wanted = torch.minimum(
        torch.tensor(uniforms, dtype=torch.float64)[:, None] * total,
        torch.nextafter(total, torch.zeros_like(total)),
    )
    picked = torch.searchsorted(mass, wanted, right=True)
    greedy = [row for row, t in enumerate(temperature) if t <= 0.0]
    if greedy:
        picked[greedy] = scores[greedy].argmax(1, keepdim=True)
    logprobs = scores.gather(1, picked) - top - total.log()
    return picked[:, 0].tolist(), logprobs[:, 0].tolist()
