"""A tiny model folder and segments to train it on."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from agentrl.engine.torch.model import CausalLM, read_config, save_weights
from agentrl.trajectory.records import Segment

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "intermediate_size": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "max_position_embeddings": 256,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def make_folder(path: Path) -> Path:
    """A random-weights Llama, as a checkpoint folder."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(LLAMA))
    (path / "tokenizer.json").write_text('{"kept": "as it is"}')
    torch.manual_seed(0)
    model = CausalLM(read_config(path))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    save_weights(model, path / "model.safetensors")
    return path


def make_segment(
    trajectory: str = "a",
    context: Sequence[int] = (1, 5, 6),
    sampled: Sequence[int] = (7, 8),
    advantage: float = 1.0,
    logprob: float = -3.6,
    version: int = 0,
    index: int = 0,
    after: Sequence[int] = (),
) -> Segment:
    """`context`, then `sampled` tokens to train on, then `after`."""
    before, trained, rest = len(context), len(sampled), len(after)
    return Segment(
        trajectory,
        index,
        [*context, *sampled, *after],
        [False] * before + [True] * trained + [False] * rest,
        [0.0] * before + [logprob] * trained + [0.0] * rest,
        [0.0] * before + [advantage] * trained + [0.0] * rest,
        [-1] * before + [version] * trained + [-1] * rest,
    )
