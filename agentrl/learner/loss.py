"""Policy losses, KL estimates and their aggregation: pure functions of tensors.

Legend. B rows (segments), T positions of a row, G rows of a step; L_i trained tokens of row i.

    logp        log pi_theta, the policy being trained                [B,T]
    old         log pi_old, the policy the ratio is taken against     [B,T]
    mu          what the tokens were sampled from
    advantages  A                                                     [B,T]
    mask        m, True where the policy sampled the token            [B,T]
    rho         exp(logp - old)

Losses are per token, zero where the mask is False, and are aggregated afterwards. Log-ratios are
clamped to ±20 before they are exponentiated, and read as 0 where the mask is False, so whatever
stands at padding has no effect.
"""

from typing import Literal

import torch
from torch import Tensor

from agentrl.errors import ConfigError

Kind = Literal["ppo", "gspo", "cispo", "reinforce"]
KL = Literal["k1", "k2", "k3"]
Aggregation = Literal[
    "token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
    "token-sum",
]

LOG_LIMIT = 20.0


def log_ratio(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """logp - old [B,T], 0 where masked out, clamped to ±20."""
    return (logp - old).masked_fill(~mask.bool(), 0.0).clamp(-LOG_LIMIT, LOG_LIMIT)


def ratios(logp: Tensor, old: Tensor, mask: Tensor, kind: Kind) -> Tensor:
    """What `kind` clips [B,T]: rho, or for GSPO the row's geometric mean in its token form.

    GSPO (arXiv 2507.18071): s_i = exp(mean_t log rho), s_it = sg[s_i] * pi / sg[pi]; the row is
    one segment.
    """
    delta = log_ratio(logp, old, mask)
    if kind != "gspo":
        return delta.exp()
    lengths = mask.sum(-1, keepdim=True).clamp(min=1)
    sequence = (delta.detach().sum(-1, keepdim=True) / lengths).clamp(-LOG_LIMIT, LOG_LIMIT)
    return (sequence + delta - delta.detach()).exp()


def policy_loss(
    logp: Tensor,
    old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = 3.0,
    kind: Kind = "ppo",
) -> Tensor:
    """Per-token loss [B,T].

    ppo        -min(rho A, clip(rho, 1 - low, 1 + high) A); where A < 0 never above -c A
               (dual clip c, arXiv 1912.09729; None switches it off)
    gspo       the same with the sequence ratio, without dual clip
    cispo      -sg[clip(rho, 1 - low, 1 + high)] A logp: clipped tokens still learn. Bounds are
               deltas from 1; an absolute maximum of 5 is `clip_high=4` (arXiv 2506.13585)
    reinforce  -A logp
    """
    kept = mask.bool()
    if kind == "reinforce":
        return (-advantages * logp).masked_fill(~kept, 0.0)
    rho = ratios(logp, old, mask, kind)
    clipped = rho.clamp(1.0 - clip_low, 1.0 + clip_high)
    if kind == "cispo":
        return (-clipped.detach() * advantages * logp).masked_fill(~kept, 0.0)
    loss = torch.maximum(-rho * advantages, -clipped * advantages)
    if kind == "ppo" and dual_clip is not None:
        loss = torch.where(advantages < 0, torch.minimum(loss, -dual_clip * advantages), loss)
    return loss.masked_fill(~kept, 0.0)


def clipped_tokens(
    logp: Tensor,
    old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    kind: Kind = "ppo",
) -> Tensor:
    """Where the clip decided the loss, bool [B,T]; CISPO: where the ratio is out of bounds."""
    kept = mask.bool()
    if kind == "reinforce":
        return torch.zeros_like(kept)
    rho = ratios(logp.detach(), old, mask, kind)
    clipped = rho.clamp(1.0 - clip_low, 1.0 + clip_high)
    if kind == "cispo":
        return (clipped != rho) & kept
    return (-clipped * advantages > -rho * advantages) & kept


def kl(logp: Tensor, reference: Tensor, mask: Tensor, kind: KL = "k3") -> Tensor:
    """Estimate of KL(pi_theta || reference) from tokens of pi_theta, per token [B,T].

    With k = logp - reference: k1 = k, k2 = k^2 / 2, k3 = exp(-k) + k - 1
    (joschu.net/blog/kl-approx.html).
    """
    delta = log_ratio(logp, reference, mask)
    if kind == "k1":
        return delta
    if kind == "k2":
        return 0.5 * delta.square()
    return (-delta).exp() + delta - 1.0


def aggregate(
    losses: Tensor, mask: Tensor, mode: Aggregation, max_length: int | None = None
) -> Tensor:
    """Per-token losses [B,T] -> scalar, for a step that is one tensor.

    Sequence means count only rows with at least one trained token. `max_length` is the constant
    L_max of `seq-mean-token-sum-norm`; without it the padded width T.
    """
    kept = mask.to(losses.dtype)
    total = (losses * kept).sum()
    if mode == "token-sum":
        return total
    if mode == "token-mean":
        return total / kept.sum().clamp(min=1.0)
    lengths = kept.sum(-1)
    rows = (lengths > 0).sum().clamp(min=1)
    if mode == "seq-mean-token-sum":
        return total / rows
    if mode == "seq-mean-token-sum-norm":
        return total / (losses.shape[0] * (max_length or losses.shape[1]))
    if mode == "seq-mean-token-mean":
        return ((losses * kept).sum(-1) / lengths.clamp(min=1.0)).sum() / rows
    raise ConfigError(f"no aggregation is named {mode!r}", where="learner.aggregate")
