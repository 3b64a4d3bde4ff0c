"""What to do when tokens were sampled by another policy than the one the ratio is taken against.

Two causes, one remedy: the sampler's weights were older, or its arithmetic differs. With
k = log pi_old - log mu per token, the importance weight is exp(k); its variants bound it. Weights
are constants of the loss (no gradient flows through them), and shapes are those of `loss.py`.
"""

import math
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
    "k2_mask",
    "k3_mask",
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
    k2_mask      1 for rows whose mean k^2 / 2 is at most high, else 0; k3_mask the same with the
                 mean of rho - 1 - k, the estimate of KL(mu || pi_old)

    Example: k = [1, 0, -1] gives [2, 1, .3679] for token_truncate at 2, and [2.7183, 1, 0] for
    token_mask in [.5, 5].
    """
    delta = log_ratio(old.detach(), mu, mask)
    kept = mask.to(delta.dtype)
    if kind == "none":
        return kept
    level, _, bound = kind.partition("_")
    if level in ("k2", "k3"):
        distance = 0.5 * delta.square() if level == "k2" else delta.exp() - 1.0 - delta
        return (row_mean(distance, mask) <= high).to(kept.dtype) * kept
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


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the trained tokens of each row: [B,T] -> [B,1]; 0 for a row without any."""
    kept = mask.to(values.dtype)
    return (values * kept).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1.0)


def veto(old: Tensor, mu: Tensor, mask: Tensor, low: float, high: float = math.inf) -> Tensor:
    """1.0 for rows in which every trained token has low <= rho <= high, else 0.0: [B,1].

    One token that the learner finds all but impossible says that a row is broken (a wrong cache, a
    wrong template), whatever its mean says. Usual bounds: 1e-4 to 100.
    """
    delta = log_ratio(old.detach(), mu, mask)
    floor = math.log(low) if low > 0 else -math.inf
    ceiling = math.log(high)
    inside = (delta >= floor) & (delta <= ceiling) | ~mask.bool()
    return inside.all(-1, keepdim=True).to(delta.dtype)


def off_policy_rows(
    advantages: Tensor, logp: Tensor, mu: Tensor, mask: Tensor, limit: float
) -> Tensor:
    """0.0 where a token is to be left out, else 1.0: [B,T] (DeepSeek-V3.2, arXiv 2512.02556).

    Left out are tokens with A < 0 in rows whose mean log mu - log pi_theta is above `limit`: what
    is already unlikely is not pushed further down on old evidence. With one advantage a row this
    drops whole rows.
    """
    drift = row_mean(-log_ratio(logp.detach(), mu, mask), mask)
    return ((advantages >= 0) | (drift <= limit)).to(logp.dtype)


def loglinear(
    mu: Tensor, logp: Tensor, sampled_at: Tensor, proximal: float, current: float
) -> Tensor:
    """log pi_prox without a pass of its own: between the sampler and the policy by version.

    log mu + alpha (log pi_theta - log mu), alpha = (proximal - v) / (current - v) for a token
    sampled at version v [B,T], within 0..1; where all three versions agree alpha is 1. As AReaL
    has it. Example: v 3, proximal 5, current 6, logs -2 and -1.4 give -1.6.
    """
    span = current - sampled_at.to(mu.dtype)
    alpha = torch.where(span > 0, (proximal - sampled_at) / span.clamp(min=1e-6), 1.0)
    return mu + alpha.clamp(0.0, 1.0) * (logp.detach() - mu)


def effective_sample_size(weights: Tensor) -> float:
    """Share of the sample that still counts, 1 / mean((w / mean w)^2), of weights [N]; 0..1."""
    mean = weights.mean()
    if weights.numel() == 0 or float(mean) == 0.0:
        return 0.0
    return float(1.0 / (weights / mean).square().mean())


def mismatch(mu: Tensor, logp: Tensor) -> dict[str, float]:
    """How far the sampler's log-probabilities are from the learner's, over trained tokens [N].

    `mismatch_mean` and `mismatch_max` are of |logp - mu| in nats; `mismatch_k1` is the mean of
    log mu - log pi and `mismatch_k3` the mean of rho - 1 - log rho, both estimates of
    KL(mu || pi); `mismatch_m2` the mean of (log rho)^2; `mismatch_chi2` the mean of rho^2, less 1;
    `ppl_ratio` the learner's perplexity over the sampler's; `ess` is of the untruncated ratios.
    """
    names = ("mean", "max", "k1", "k3", "m2", "chi2")
    if mu.numel() == 0:
        return {f"mismatch_{name}": 0.0 for name in names} | {"ppl_ratio": 1.0, "ess": 1.0}
    delta = (logp - mu).double()
    rho = delta.clamp(-LOG_LIMIT, LOG_LIMIT).exp()
    return {
        "mismatch_mean": float(delta.abs().mean()),
        "mismatch_max": float(delta.abs().max()),
        "mismatch_k1": float(-delta.mean()),
        "mismatch_k3": float((rho - 1.0 - delta).mean()),
        "mismatch_m2": float(delta.square().mean()),
        "mismatch_chi2": float(rho.square().mean() - 1.0),
        "ppl_ratio": float((-delta.mean()).exp()),
        "ess": effective_sample_size(rho),
    }
