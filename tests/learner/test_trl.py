"""The learner's loss and gradient are TRL's, on the same batch, weights and settings.

A real `GRPOTrainer` and a real `GrpoLearner` hold the same random Llama in float64; both
architectures compute norms and rotations in float32, which is what bounds the agreement.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from agentrl.learner.config import LearnerConfig
from agentrl.learner.grpo import GrpoLearner
from agentrl.learner.model import spread, token_logprobs
from agentrl.trajectory.records import Segment
from tests.engine.checkpoints import CHATML, save_tokenizer, saved

LENGTH = 6  # the longest completion
PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
COMPLETIONS = [[20, 21, 22, 23], [30, 31, 32, 33, 34, 35], [40, 41]]
ADVANTAGES = [1.0, -0.7, 0.4]
DRIFT = [-0.4, 0.3, 0.05, -0.1, 0.6, -0.25]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trl") / "tiny"
    saved(path, "llama", tie_word_embeddings=True, vocab_size=400)
    save_tokenizer(path, "chatml")
    return path


@pytest.fixture(scope="module")
def trainer(folder: Path) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theirs, about each other
        import datasets
        import transformers
        from trl import GRPOConfig, GRPOTrainer

        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json"), pad_token="<|im_end|>",
            eos_token="<|im_end|>", chat_template=CHATML,
        )  # fmt: skip
        arguments = GRPOConfig(
            output_dir=str(folder / "out"), use_cpu=True, bf16=False, report_to=[],
            per_device_train_batch_size=3, num_generations=3, max_completion_length=LENGTH,
            gradient_checkpointing=False, beta=0.0,
        )  # fmt: skip
        model = transformers.AutoModelForCausalLM.from_pretrained(folder).double()
        made = GRPOTrainer(
            model=model, args=arguments, processing_class=tokenizer,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            train_dataset=datasets.Dataset.from_dict({"prompt": ["a"] * 3}),
        )  # fmt: skip
        made.model.train()
        made.current_gradient_accumulation_steps = 1
        yield made


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "grpo": ({"loss_type": "grpo"}, {}),
    "dapo": ({"loss_type": "dapo", "epsilon_high": 0.28}, {"reducer": "token", "clip_high": 0.28}),
    "dr_grpo": ({"loss_type": "dr_grpo"}, {"reducer": "constant", "max_length": LENGTH}),
    "luspo": (
        {"loss_type": "luspo", "importance_sampling_level": "token"},
        {"reducer": "sum"},
    ),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence"},
        {"loss": "gspo"},
    ),
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.3},
        {"loss": "cispo", "reducer": "token", "clip_low": 1.0, "clip_high": 0.3},
    ),
    "dual clip": ({"loss_type": "grpo", "delta": 1.5}, {"dual_clip": 1.5}),
    "kl": ({"loss_type": "grpo", "beta": 0.1}, {"kl": 0.1, "kl_weighted": True}),
    "plain kl": ({"loss_type": "grpo", "beta": 0.1, "use_bias_correction_kl": False}, {"kl": 0.1}),
    "off-policy mask": (
        {"loss_type": "grpo", "off_policy_mask_threshold": 0.01},
        {"off_policy_limit": 0.01},
    ),
    "entropy": (
        {"loss_type": "dapo", "entropy_coef": 0.05, "_entropy_bonus_enabled": True},
        {"reducer": "token", "entropy": 0.05},
    ),
}
TRL = {
    "loss_type": "grpo", "importance_sampling_level": "token", "epsilon_low": 0.2,
    "epsilon_high": 0.2, "beta": 0.0, "off_policy_mask_threshold": None, "entropy_coef": 0.0,
    "_entropy_bonus_enabled": False, "delta": None, "use_bias_correction_kl": True,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_trl(
    name: str, folder: Path, trainer: Any, tmp_path: Path
) -> None:
    theirs, ours = CASES[name]
    learner = GrpoLearner(
        folder, tmp_path, LearnerConfig(**({"clip_high": 0.2, "dual_clip": None} | ours))
    )
    learner.model.double()
    if learner.reference is not None:
        learner.reference.double()
        with torch.no_grad():
            for parameter in learner.reference.parameters():
                parameter.mul_(1.05)
    batch = segments(learner)
    inputs = as_trl_has_it(batch, learner)
    for key, value in {**TRL, **theirs}.items():
        setattr(trainer if hasattr(trainer, key) else trainer.args, key, value)
    trainer.model.zero_grad()
    their_loss = trainer._compute_loss(trainer.model, inputs)
    their_loss.backward()
    (micro,) = learner._pack(batch)
    our_loss = learner._loss(micro, micro.logprobs, None, 0.0, None)
    our_loss.backward()
    torch.testing.assert_close(our_loss, their_loss, atol=1e-6, rtol=0)
    wanted = dict(trainer.model.named_parameters())
    assert any(float(p.grad.abs().max()) > 1e-3 for p in wanted.values() if p.grad is not None)
    for key, parameter in learner.model.named_parameters():
        scale = max(1.0, float(wanted[key].grad.abs().max()))
        torch.testing.assert_close(parameter.grad, wanted[key].grad, atol=1e-6 * scale, rtol=0)


def segments(learner: GrpoLearner) -> list[Segment]:
    """The batch, sampled by a policy some way off this one."""
    made = []
    for row, (prompt, said) in enumerate(zip(PROMPTS, COMPLETIONS, strict=True)):
        tokens = torch.tensor([[*prompt, *said]])
        mask = torch.arange(tokens.shape[1])[None] >= len(prompt)
        with torch.no_grad():
            logp = token_logprobs(learner.model, tokens, mask).logprobs
        old = (logp + torch.tensor(DRIFT[: len(said)])).float().tolist()
        before = len(prompt)
        advantages = [0.0] * before + [ADVANTAGES[row]] * len(said)
        made.append(
            Segment(
                str(row),
                0,
                tokens[0].tolist(),
                mask[0].tolist(),
                [0.0] * before + old,
                advantages,
                [-1] * before + [0] * len(said),
            )
        )
    return made


def as_trl_has_it(batch: list[Segment], learner: GrpoLearner) -> dict[str, Tensor]:
    """Prompts padded on the left, completions on the right."""
    width = max(map(len, PROMPTS))
    prompts = torch.tensor([[0] * (width - len(p)) + p for p in PROMPTS])
    said = torch.tensor([c + [0] * (LENGTH - len(c)) for c in COMPLETIONS])
    inputs = {
        "prompt_ids": prompts,
        "prompt_mask": torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in PROMPTS]),
        "completion_ids": said,
        "completion_mask": torch.tensor(
            [[1] * len(c) + [0] * (LENGTH - len(c)) for c in COMPLETIONS]
        ),
        "advantages": torch.tensor(ADVANTAGES, dtype=torch.float64),
        "old_per_token_logps": padded([s.logprobs for s in batch], batch),
        "num_items_in_batch": torch.tensor(sum(map(len, COMPLETIONS))),
    }
    if learner.reference is not None:
        rows = []
        for segment in batch:
            tokens, mask = torch.tensor([segment.tokens]), torch.tensor([segment.mask])
            with torch.no_grad():
                found = token_logprobs(learner.reference, tokens, mask).logprobs
            rows.append(spread(found, mask)[0].tolist())
        inputs["ref_per_token_logps"] = padded(rows, batch)
    return inputs


def padded(rows: list[list[float]], batch: list[Segment]) -> Tensor:
    """The trained part of each row, zeros behind it: [B,LENGTH]."""
    out = torch.zeros(len(rows), LENGTH, dtype=torch.float64)
    for place, (row, segment) in enumerate(zip(rows, batch, strict=True)):
        kept = [value for value, m in zip(row, segment.mask, strict=True) if m]
        out[place, : len(kept)] = torch.tensor(kept, dtype=torch.float64)
    return out
