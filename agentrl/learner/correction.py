"""What to do when tokens were sampled by another policy than the one the ratio is taken against.

Two causes, one remedy: the sampler's weights were older, or its arithmetic differs. With
k = log pi_old - log mu per token, the importance weight is exp(k); its variants bound it. Weights
are constants of the loss (no gradient flows through them), and shapes are those of `loss.py`.
"""

from typing import Literal

import torch
from torch import Tensor

from agentrl.errors import ConfigError
from agentrl.learner.loss import LOG_LIMIT, log_ratio

Correction = Literal[
    "none",
    "token_truncate",
    "token_mask",
    "sequence_truncate",
    "sequence_mask",
    "geometric_truncate",
    "geometric_mask",
]


def correction_weights(
    old: Tensor,
    mu: Tensor,
    mask: Tensor,
    kind: Correction = "token_truncate",
    *,
    low: float = 0.5,
    high: float = 2.0,
) -> Tensor:
    """Loss weights [B,T], 0 where the mask is False.

    token_*      rho = exp(k) of each token
    sequence_*   the product over the row; grows with its length, so bound it with care
    geometric_*  the geometric mean over the row
    *_truncate   min(rho, high): TIS
    *_mask       rho where low <= rho <= high, else 0: MIS, IcePop. The weight is zeroed and the
                 mask stays, so denominators still count the token. `geometric_mask` only
                 accepts or rejects: 1 inside, 0 outside.

    Example: k = [1, 0, -1] gives [2, 1, .3679] for token_truncate at 2, and [2.7183, 1, 0] for
    token_mask in [.5, 5].
    """
    delta = log_ratio(old.detach(), mu, mask)
    kept = mask.to(delta.dtype)
    if kind == "none":
        return kept
    level, bound = kind.split("_")
    if level != "token":
        delta = delta.sum(-1, keepdim=True)
        if level == "geometric":
            delta = delta / kept.sum(-1, keepdim=True).clamp(min=1.0)
        delta = delta.clamp(-LOG_LIMIT, LOG_LIMIT).expand_as(kept)
    rho = delta.exp()
    if bound == "truncate":
        return rho.clamp(max=high) * kept
    if bound == "mask":
        inside = ((rho >= low) & (rho <= high)).to(rho.dtype)
        return inside * kept * (torch.ones_like(rho) if level == "geometric" else rho)
    raise ConfigError(f"no correction is named {kind!r}", where="learner.correction")


def effective_sample_size(weights: Tensor) -> float:
    """Share of the sample that still counts, 1 / mean((w / mean w)^2), of weights [N]; 0..1."""
    mean = weights.mean()
    if weights.numel() == 0 or float(mean) == 0.0:
        return 0.0
    return float(1.0 / (weights / mean).square().mean())


def mismatch(mu: Tensor, logp: Tensor) -> dict[str, float]:
    """How far the sampler's log-probabilities are from the learner's, over trained tokens [N].

    `mismatch_mean` and `mismatch_max` are of |logp - mu| in nats; `mismatch_k3` estimates
    KL(mu || pi) as mean(rho - 1 - log rho); `ess` is of the untruncated ratios.
    """
    if mu.numel() == 0:
        return {"mismatch_mean": 0.0, "mismatch_max": 0.0, "mismatch_k3": 0.0, "ess": 1.0}
    delta = (logp - mu).double()
    rho = delta.clamp(-LOG_LIMIT, LOG_LIMIT).exp()
    return {
        "mismatch_mean": float(delta.abs().mean()),
        "mismatch_max": float(delta.abs().max()),
        "mismatch_k3": float((rho - 1.0 - delta).mean()),
        "ess": effective_sample_size(rho),
    }
