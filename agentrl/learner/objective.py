"""What a learner's configuration makes of one micro-batch: advantages, loss terms, weights.

Shapes and names are those of `loss.py`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from agentrl.learner.batch import MicroBatch
from agentrl.learner.config import LearnerConfig
from agentrl.learner.correction import correction_weights, off_policy_rows, veto
from agentrl.learner.covariance import clip_cov, covariances, kl_cov
from agentrl.learner.loss import kl, log_ratio, policy_loss, ratios


def policy_term(
    c: LearnerConfig,
    micro: MicroBatch,
    advantages: Tensor,
    logp: Tensor,
    old: Tensor,
    chosen: Tensor | None,
) -> Tensor:
    """The policy's loss per token, before any weight. `chosen` are Clip-Cov's or KL-Cov's."""
    mask = micro.mask
    lossy = policy_loss(
        logp,
        old,
        advantages,
        mask,
        clip_low=c.clip_low,
        clip_high=c.clip_high,
        dual_clip=c.dual_clip,
        kind=c.loss,
    )
    if chosen is not None and c.cov == "clip":
        return lossy.masked_fill(chosen, 0.0)
    if chosen is not None:
        return lossy + c.cov_coefficient * log_ratio(logp, old, mask).abs() * chosen
    return lossy


def importance(
    c: LearnerConfig, micro: MicroBatch, advantages: Tensor, logp: Tensor, old: Tensor
) -> Tensor | None:
    """What each token's policy loss is multiplied by; None where nothing is configured."""
    if c.correction == "none" and not c.veto and c.off_policy_limit is None:
        return None
    mask, mu = micro.mask, micro.logprobs
    bounds = {"low": c.correction_low, "high": c.correction_high}
    weights = correction_weights(old, mu, mask, c.correction, **bounds)
    if c.veto:
        weights = weights * veto(old, mu, mask, c.veto)
    if c.off_policy_limit is not None:
        weights = weights * off_policy_rows(advantages, logp, mu, mask, c.off_policy_limit)
    return weights


def kl_term(c: LearnerConfig, logp: Tensor, old: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """The KL penalty per token; with `kl_weighted` times the ratio the loss clips, unclipped.

    The ratio has a gradient, which makes the penalty's that of the reverse KL (DeepSeek-V3.2).
    """
    penalty = kl(logp, reference, mask, c.kl_kind)
    return penalty * ratios(logp, old, mask, c.loss) if c.kl_weighted else penalty


def charged(c: LearnerConfig, micro: MicroBatch, old: Tensor, reference: Tensor | None) -> Tensor:
    """Advantages, less each token's own KL penalty where that is part of the reward."""
    if reference is None or c.kl_in != "reward":
        return micro.advantages
    penalty = kl(old.detach(), reference, micro.mask, c.kl_kind)
    return (micro.advantages - c.kl * penalty).masked_fill(~micro.mask, 0.0)


def chosen_tokens(
    c: LearnerConfig, micros: Sequence[MicroBatch], olds: Sequence[Tensor | None], seed: int
) -> list[Tensor | None]:
    """Clip-Cov's or KL-Cov's tokens of each micro-batch, bool [B,T]; None where neither is on.

    Chosen over all trained tokens of the update together, by the log-probabilities the ratio is
    taken against, or the sampler's where those are not known before the pass.
    """
    if c.cov == "none" or not micros:
        return [None] * len(micros)
    known = [
        micro.logprobs if old is None else old for micro, old in zip(micros, olds, strict=True)
    ]
    logp = torch.cat([one[micro.mask] for one, micro in zip(known, micros, strict=True)])
    advantages = torch.cat([micro.advantages[micro.mask] for micro in micros])
    cov = covariances(logp, advantages)
    if c.cov == "clip":
        draw = torch.Generator().manual_seed(seed)
        picked = clip_cov(cov, c.cov_share, c.cov_low, c.cov_high, draw)
    else:
        picked = kl_cov(cov, c.cov_share)
    parts = torch.split(picked, [int(micro.mask.sum()) for micro in micros])
    return [
        torch.zeros_like(micro.mask).masked_scatter(micro.mask, part)
        for micro, part in zip(micros, parts, strict=True)
    ]
