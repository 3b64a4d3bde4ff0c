"""What a published algorithm is, as its paper has it, and as TRL and verl read it.

Every choice that differs between projects is fixed here by name, as configuration keys of the
learner and of outcome credit; any key a person sets wins over it. No torch in here: the
configuration is resolved before anything heavy is imported.

Versions read: TRL 1.16.0, verl 0.9.1. Coefficients that are not part of an algorithm (rates, batch
sizes) are left alone.
"""

from collections.abc import Mapping
from typing import Any, Literal

Algorithm = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "reinforce", "reinforce_pp"]
Reading = Literal["paper", "trl", "verl"]
Table = dict[str, dict[str, Any]]

PLAIN: dict[str, Any] = {
    "loss": "ppo",
    "clip_low": 0.2,
    "clip_high": 0.2,
    "dual_clip": 0.0,
    "weighting": "rollout",
    "proximal": "sampler",
    "correction": "none",
    "kl": 0.0,
    "kl_kind": "k3",
    "kl_in": "loss",
    "kl_weighted": False,
}
"""PPO's symmetric clip, mean over rollouts of token means, no penalty, no correction."""

ALGORITHMS: dict[Algorithm, Table] = {
    # The paper's own coefficient; it leaves the std's kind and epsilon open.
    "grpo": {"learner": {"kl": 0.04}, "credit": {"kind": "grpo"}},
    "dr_grpo": {"learner": {"weighting": "constant"}, "credit": {"kind": "dr_grpo"}},
    "dapo": {"learner": {"weighting": "token", "clip_high": 0.28}, "credit": {"kind": "grpo"}},
    "gspo": {
        "learner": {"loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4},
        "credit": {"kind": "grpo"},
    },
    # One-sided: the ratio may fall to 0 and rise to 5 (deltas from 1).
    "cispo": {
        "learner": {"loss": "cispo", "weighting": "token", "clip_low": 1.0, "clip_high": 4.0},
        "credit": {"kind": "grpo"},
    },
    "rloo": {"learner": {"loss": "reinforce", "weighting": "sum"}, "credit": {"kind": "rloo"}},
    "reinforce": {"learner": {"loss": "reinforce"}, "credit": {"kind": "dr_grpo"}},
    "reinforce_pp": {
        "learner": {"weighting": "token", "kl_in": "reward", "kl_kind": "k1"},
        "credit": {"kind": "reinforce_pp"},
    },
}

# Ratios are taken against the weights at the start of the step; whole rows whose sampler ratio is
# above 3 are dropped; a KL penalty is multiplied by the ratio.
TRL: dict[str, Any] = {
    "proximal": "recompute",
    "correction": "sequence_mask",
    "correction_low": 0.0,
    "correction_high": 3.0,
    "kl_weighted": True,
    "kl": 0.0,
}

# Token mean is the default for every loss, also for GSPO since 0.9; dual clip at 3 for PPO's.
VERL: dict[str, Any] = {
    "proximal": "recompute",
    "kl": 0.0,
    "weighting": "token",
}

EXCEPTIONS: dict[tuple[Reading, Algorithm], dict[str, Any]] = {
    # TRL clips the ratio of whole rows; where a batch is used for one update that ratio is 1.
    ("trl", "rloo"): {"correction": "none", "correction_low": 0.5, "correction_high": 2.0},
    ("verl", "dr_grpo"): {"weighting": "constant"},
    ("verl", "cispo"): {"clip_low": 0.2, "clip_high": 0.2},
    ("verl", "rloo"): {"loss": "ppo"},
}


def conventions(algorithm: Algorithm, reading: Reading) -> Table:
    """The keys of `[learner]` and `[credit]` that make `algorithm` what `reading` means by it.

    Example: ("dapo", "trl") has weighting "token", clip .2 / .28, and unbiased std + 1e-4.
    """
    own = ALGORITHMS[algorithm]
    learner = {**PLAIN, **own["learner"]}
    if reading != "paper":
        learner |= TRL if reading == "trl" else VERL
        learner |= EXCEPTIONS.get((reading, algorithm), {})
    if reading == "verl" and learner["loss"] == "ppo":
        learner["dual_clip"] = 3.0
    if not learner["kl"]:
        learner["kl_weighted"] = False  # with no penalty there is nothing to weigh
    return {
        "learner": {"algorithm": algorithm, "preset": reading, **learner},
        "credit": {**own["credit"], "preset": reading},
    }


def named(learner: Mapping[str, Any]) -> str:
    """What a person reads: `dapo as trl has it`, or `custom`."""
    if learner["algorithm"] == "custom":
        return "custom"
    whose = "the paper" if learner["preset"] == "paper" else learner["preset"]
    return f"{learner['algorithm']} as {whose} has it"
