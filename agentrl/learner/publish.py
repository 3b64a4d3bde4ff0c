"""A version of the weights as a folder that an engine, or transformers, loads as it is."""

import os
import shutil
from pathlib import Path

from agentrl.engine.base import Weights
from agentrl.engine.torch.model import CausalLM
from agentrl.learner.checkpoint import prune, tensor_bytes, write_file, write_folder

LIVE = "LIVE"
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.gguf", "*.pt", "*.onnx")


def publish(model: CausalLM, version: int, source: Path, root: Path, keep: int = 2) -> Weights:
    """Writes `root/v000012` with `model.safetensors`, and the files beside `source`'s weights.

    Configuration and tokenizer are hard-linked from `source` where the file system allows it, else
    copied. `LIVE` is written last and the folder appears at once, so a folder without it is none.
    Only the newest `keep` versions stay. Raises RunError where the disk is full.
    """
    path = root / f"v{version:06d}"

    def fill(folder: Path) -> None:
        for file in sorted(source.iterdir()):
            if file.is_file() and file.name != LIVE and not weighs(file):
                link(file, folder / file.name)
        write_file(folder / "model.safetensors", tensor_bytes(dict(model.named_parameters())))

    write_folder(path, fill, LIVE)
    prune(root, keep, LIVE)
    return Weights(version, path)


def weighs(file: Path) -> bool:
    """Whether a file of a model folder holds weights."""
    return any(file.match(pattern) for pattern in WEIGHTS)


def link(file: Path, target: Path) -> None:
    """Hard-links, or copies where that is not possible (another disk, no permission)."""
    try:
        os.link(file.resolve(), target)
    except OSError:
        shutil.copyfile(file, target)
