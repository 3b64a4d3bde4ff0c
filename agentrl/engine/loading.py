"""Weights from a folder on disk, checked against what the running model expects."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from agentrl.errors import ConfigError


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a checkpoint folder, sharded or not. Raises ConfigError if there is none."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        files = [folder / name for name in names]
    else:
        files = [folder / "model.safetensors"]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ConfigError(
            f"this model folder has no weights: {', '.join(missing)} missing",
            where=str(folder),
            help="the embedded engine reads safetensors; convert other formats first",
        )
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= load_file(file)
    return tensors


def check_weights(
    tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], where: str = ""
) -> None:
    """Raises ConfigError unless `tensors` has exactly the names and shapes wanted.

    A spare `lm_head.weight` (tied models) and rotary buffers of old checkpoints are let pass.
    """
    lacking = sorted(set(shapes) - set(tensors))
    extra = [
        name
        for name in sorted(set(tensors) - set(shapes) - {"lm_head.weight"})
        if not name.endswith("rotary_emb.inv_freq")
    ]
    if lacking or extra:
        raise ConfigError(
            f"weights do not fit the model: {len(lacking)} missing, {len(extra)} unknown "
            f"(first: {(lacking + extra)[0]})",
            where=where,
            help="publish a checkpoint of the model this engine was started with",
        )
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ConfigError(
                f"{name} has shape {tuple(tensors[name].shape)}, the configuration says {shape}",
                where=where,
            )
