import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from agentrl.engine.torch.fused import FusedModel
from agentrl.engine.torch.model import (
    CausalLM,
    causal_rows,
    load_model,
    load_weights,
    read_config,
    read_weights,
    save_weights,
)
from agentrl.errors import ConfigError
from tests.engine.checkpoints import LINEAR_ROPE, LLAMA3_ROPE, full_logprobs, saved

KINDS: list[tuple[str, dict[str, Any]]] = [
    (family, {"tie_word_embeddings": tied, **more})
    for tied in (True, False)
    for family, more in (
        ("llama", {}),
        ("llama", {"rope_parameters": LLAMA3_ROPE}),
        ("llama", {"rope_parameters": LINEAR_ROPE}),
        ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 16}),
        ("qwen2", {}),
        ("qwen3", {"head_dim": 16}),
        ("qwen3", {"head_dim": 8, "num_key_value_heads": 1}),
    )
]


@pytest.mark.parametrize(("family", "changes"), KINDS)
def test_logits_equal_those_of_transformers(
    tmp_path: Path, family: str, changes: dict[str, Any]
) -> None:
    theirs = saved(tmp_path, family, **changes)
    tokens = torch.randint(0, 97, (150,)).tolist()
    want = full_logprobs(theirs, tokens)
    ours = load_model(tmp_path)
    c = ours.config
    attend = causal_rows(1, len(tokens), c.heads // c.kv_heads)
    hidden = ours(torch.tensor(tokens), torch.arange(len(tokens)), attend)
    got = torch.log_softmax(ours.logits(hidden).double(), -1)
    assert (got - want).abs().max() < 1e-4

    fused = FusedModel(c, torch.float32, "cpu")
    fused.fill(read_weights(tmp_path))
    groups, half = c.kv_heads, c.heads + c.kv_heads

    def paired(layer: int, qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = qkv[:, : c.heads], qkv[:, c.heads : half], qkv[:, half : half + groups]
        return attend(layer, q, k, v).reshape(len(tokens), -1)

    hidden = fused.forward(torch.tensor(tokens), torch.arange(len(tokens)), paired)
    got = torch.log_softmax(fused.logits(hidden).double(), -1)
    assert (got - want).abs().max() < 1e-4


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_saved_weights_load_in_transformers(tmp_path: Path, family: str, tied: bool) -> None:
    theirs = saved(tmp_path, family, tie_word_embeddings=tied)
    ours = load_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    save_weights(ours, tmp_path / "model.safetensors")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = list(range(40))
    assert torch.equal(full_logprobs(again, tokens), full_logprobs(theirs, tokens))


def test_a_foreign_family_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ConfigError, match="gpt2"):
        read_config(tmp_path)


def test_misfitting_weights_change_nothing(tmp_path: Path) -> None:
    saved(tmp_path)
    model = CausalLM(read_config(tmp_path))
    before = {name: p.clone() for name, p in model.named_parameters()}
    tensors = read_weights(tmp_path)
    tensors["model.norm.weight"] = torch.ones(7)
    with pytest.raises(ConfigError, match=r"model\.norm\.weight has shape \(7,\)"):
        load_weights(model, tensors)
    del tensors["model.norm.weight"]
    with pytest.raises(ConfigError, match="1 missing"):
        load_weights(model, tensors)
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
