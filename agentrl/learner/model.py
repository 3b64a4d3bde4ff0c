"""Log-probabilities of a batch, with gradients, at the positions that are trained and no others.

Shape legend: B rows, T positions, N trained tokens of all rows, D hidden size, V vocabulary,
H query heads, G key/value heads, K head size.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from agentrl.engine.torch.model import Attend, CausalLM, Layer


class Scored(NamedTuple):
    """What the model says about the N chosen tokens, row by row.

    `entropy` has no gradient unless that was asked for.
    """

    logprobs: Tensor  # [N]
    entropy: Tensor  # [N], nats, of the distribution the token was drawn from


def token_logprobs(
    model: CausalLM,
    tokens: Tensor,
    select: Tensor,
    temperature: float = 1.0,
    *,
    entropy_gradient: bool = False,
) -> Scored:
    """Log-probabilities of `tokens` [B,T] where `select` [B,T] is True, given what precedes them.

    Logits are divided by `temperature`, as the sampler did. Rows are right-padded. The head, and
    in the last layer all that follows attention, are computed only where a chosen token is
    predicted. `select` must be False at position 0, which nothing predicts.
    """
    predicts = select[:, 1:]
    hidden = selected_hidden(model, tokens[:, :-1], predicts)
    logits = model.logits(hidden)
    if temperature != 1.0:
        logits = logits / temperature
    scores = F.log_softmax(logits, dim=-1)
    chosen = scores.gather(-1, tokens[:, 1:][predicts].unsqueeze(-1)).squeeze(-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropy = -(scores.exp() * scores).sum(-1)
    return Scored(chosen, entropy)


def selected_hidden(model: CausalLM, tokens: Tensor, select: Tensor) -> Tensor:
    """Final hidden states [N,D] at the positions of `tokens` [B,T] where `select` is True."""
    rows, length = tokens.shape
    body = model.model
    flat = torch.arange(length, dtype=torch.float32, device=tokens.device).repeat(rows)
    angles = flat[:, None, None] * model.frequencies
    x: Tensor = body.embed_tokens(tokens.reshape(-1))
    rotation = (angles.cos().to(x.dtype), angles.sin().to(x.dtype))
    attend = attend_rows(rows, length)
    for index, layer in enumerate(body.layers[:-1]):
        x = layer(x, rotation, index, attend)
    last = cast(Layer, body.layers[-1])
    x = x + last.self_attn(last.input_layernorm(x), rotation, len(body.layers) - 1, attend)
    x = x[select.reshape(-1).nonzero().squeeze(-1)]
    x = x + last.mlp(last.post_attention_layernorm(x))
    out: Tensor = body.norm(x)
    return out


def attend_rows(rows: int, length: int) -> Attend:
    """Causal attention within right-padded rows.

    Key and value heads are expanded by hand: with `enable_gqa` the CPU kernel's backward pass is
    slower, and the result is the same.
    """

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = q.shape[1]

        def shaped(x: Tensor) -> Tensor:
            x = x.view(rows, length, x.shape[1], 1, x.shape[2])
            x = x.expand(-1, -1, -1, heads // x.shape[2], -1).flatten(2, 3)
            return x.transpose(1, 2)

        out = F.scaled_dot_product_attention(shaped(q), shaped(k), shaped(v), is_causal=True)
        return out.transpose(1, 2).reshape(rows * length, heads, q.shape[2])

    return attend


def spread(values: Tensor, select: Tensor) -> Tensor:
    """values [N] -> [B,T], at the True places of `select`, 0 elsewhere; differentiable."""
    out = torch.zeros(select.shape, dtype=values.dtype, device=values.device)
    return out.masked_scatter(select, values)
