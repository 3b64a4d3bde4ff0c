"""Which tokens drive the entropy down, and what to do about them (arXiv 2505.22617).

Entropy falls with the covariance of log-probability and advantage, and few tokens carry most of
it. With cov_i = (A_i - mean A)(logp_i - mean logp) over the N trained tokens of an update:

    Clip-Cov   a random share of all tokens, taken from those with cov in (low, high), is not
               trained in this update
    KL-Cov     the share with the largest cov pays |log ratio| on top

Both choose before the update's passes begin, from the log-probabilities the ratio is taken
against, so that the choice does not depend on how rows fall into micro-batches.
"""

from typing import Literal

import torch
from torch import Tensor

Cov = Literal["none", "clip", "kl"]


def covariances(logp: Tensor, advantages: Tensor) -> Tensor:
    """cov_i of N trained tokens: [N], [N] -> [N].

    Example: logp [-.1, -2, -.5, -3], A [1, 1, -1, -1] give [1.3, -.6, -.9, 1.6].
    """
    return (advantages - advantages.mean()) * (logp - logp.mean())


def clip_cov(
    cov: Tensor, share: float, low: float, high: float, generator: torch.Generator
) -> Tensor:
    """Clip-Cov's choice, bool [N]: at most share * N tokens (one at least), drawn at random."""
    inside = ((cov > low) & (cov < high)).nonzero().squeeze(-1)
    drawn = torch.randperm(len(inside), generator=generator)[: quota(share, cov)]
    return torch.zeros_like(cov, dtype=torch.bool).index_fill_(0, inside[drawn], True)


def kl_cov(cov: Tensor, share: float) -> Tensor:
    """KL-Cov's choice, bool [N]: the share * N largest (one at least)."""
    count = min(quota(share, cov), len(cov))
    top = cov.topk(count).indices
    return torch.zeros_like(cov, dtype=torch.bool).index_fill_(0, top, True)


def quota(share: float, cov: Tensor) -> int:
    return max(1, int(share * len(cov)))
