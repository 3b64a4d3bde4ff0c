"""The algorithm is said in words, with every convention filled in."""

from pathlib import Path

import pytest

from agentrl.config import load
from agentrl.run.algorithm import in_words
from agentrl.run.build import learner_settings


def words(*flags: tuple[str, str], path: Path | None = None) -> dict[str, str]:
    told = in_words(load("terminal", flags=list(flags)).config)
    return {line[:12].strip(): line[12:] for line in told}


def test_every_line_names_its_part() -> None:
    found = words()
    assert found["algorithm"] == "custom"
    assert found["loss"] == "-min(ratio A, clip(ratio, 0.8, 1.28) A), at most 3 |A| where A < 0"
    assert "penalty" not in found
    assert "correction" not in found


@pytest.mark.parametrize(
    ("flags", "part", "says"),
    [
        ([("learner.algorithm", "dapo")], "average", "all trained tokens"),
        ([("learner.preset", "trl")], "credit", "(n - 1) + 0.0001"),
        ([("learner.preset", "trl")], "correction", "0 outside 0 to 3"),
        ([("learner.preset", "verl")], "correction", "nothing corrects for older samplers"),
        ([("learner.algorithm", "grpo")], "penalty", "0.04 x KL to the first weights (k3)"),
        ([("learner.algorithm", "cispo")], "loss", "-sg[clip(ratio, 0, 5)] A log pi"),
        ([("learner.algorithm", "gspo")], "loss", "geometric mean over the row"),
        ([("learner.algorithm", "reinforce")], "loss", "-A log pi"),
        ([("learner.entropy", "0.01")], "entropy", "0.01 x entropy"),
        ([("learner.entropy-target", "0.2")], "entropy", "towards 0.2 nats"),
        ([("learner.cov", "kl")], "covariance", "KL-Cov"),
        ([("learner.kl", "0.1"), ("learner.kl-in", "reward")], "penalty", "off each token's"),
        ([("credit", "anchor")], "credit", "gigpo: "),
        ([("learner.proximal", "loglinear"), ("learner.veto", "1e-4")], "correction", "0.0001"),
    ],
)
def test_a_choice_is_told(flags: list[tuple[str, str]], part: str, says: str) -> None:
    assert says in words(*flags)[part]


def test_0_in_a_section_is_off_in_the_learner() -> None:
    off = learner_settings(load("terminal").config)
    assert (off.max_length, off.off_policy_limit, off.entropy_target) == (None, None, None)
    assert off.dual_clip == 3.0
    none = learner_settings(load("terminal", flags=[("learner.dual-clip", "0")]).config)
    assert none.dual_clip is None
