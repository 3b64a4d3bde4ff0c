"""What the settings do to a step of the learner itself."""

import pytest
import torch

from agentrl.errors import ConfigError
from agentrl.learner.batch import token_weights
from agentrl.learner.config import LearnerConfig
from agentrl.learner.grpo import GrpoLearner
from tests.learner.test_grpo import gradient, scored, varied


def drifted(folder, path, segment, *, by=0.0):
    """A batch as this policy would have sampled it, its log-probabilities moved by `by`."""
    batch = scored(GrpoLearner(folder, path), varied(segment))
    for one in batch:
        one.logprobs[:] = [p + by * m for p, m in zip(one.logprobs, one.mask, strict=True)]
    return batch


def test_an_entropy_bonus_keeps_the_policy_undecided(folder, tmp_path, segment):
    entropies = {}
    for bonus in (0.0, 2.0):
        learner = GrpoLearner(folder, tmp_path, LearnerConfig(lr=2e-2, entropy=bonus))
        for _ in range(15):
            stats = learner.step([segment("a", advantage=1.0), segment("b", advantage=0.5)])
        entropies[bonus] = stats["entropy"]
        assert stats["entropy_coefficient"] == bonus
    assert entropies[2.0] > entropies[0.0] + 0.1


def test_an_adaptive_bonus_survives_a_checkpoint(folder, tmp_path, segment):
    config = LearnerConfig(entropy_target=50.0, entropy_delta=0.25)
    learner = GrpoLearner(folder, tmp_path, config)
    for _ in range(2):
        learner.step([segment()])
    learner.save(tmp_path / "state")
    other = GrpoLearner(folder, tmp_path, config)
    other.load(tmp_path / "state")
    for one in (learner, other):
        assert one.step([segment()])["entropy_coefficient"] == 0.5


def test_clip_cov_leaves_its_tokens_out_and_kl_cov_charges_them(folder, tmp_path, segment):
    batch = drifted(folder, tmp_path, segment, by=0.1)
    plain, _ = gradient(folder, tmp_path, batch)
    share = {"cov_share": 1.0}
    clipped, still = gradient(
        folder, tmp_path, batch, cov="clip", cov_low=-99.0, cov_high=99.0, **share
    )
    assert not still.any()
    charged, _ = gradient(folder, tmp_path, batch, cov="kl", cov_coefficient=2.0, **share)
    assert clipped["loss"] == 0.0
    assert charged["loss"] - plain["loss"] == pytest.approx(2.0 * 0.1, abs=1e-4)


@pytest.mark.parametrize("cov", ["clip", "kl"])
def test_the_choice_by_covariance_does_not_depend_on_the_split(folder, tmp_path, segment, cov):
    batch = drifted(folder, tmp_path, segment, by=0.05)
    settings = {"cov": cov, "cov_share": 0.2, "cov_low": 0.0}
    _, whole = gradient(folder, tmp_path, batch, **settings)
    _, cut = gradient(folder, tmp_path, batch, token_budget=18, **settings)
    torch.testing.assert_close(whole, cut, atol=1e-6, rtol=0)


def test_a_penalty_in_the_reward_has_no_gradient_of_its_own(folder, tmp_path, segment):
    learner = GrpoLearner(folder, tmp_path, LearnerConfig(kl=0.5, kl_in="reward", kl_kind="k1"))
    for parameter in learner.model.parameters():
        parameter.data.add_(0.02)
    batch = scored(learner, [segment("a", advantage=0.0)])
    (micro,) = learner._pack(batch)
    loss = learner._loss(micro, micro.logprobs, None, 0.0, None)
    reference = learner._reference(micro)
    k = (micro.logprobs - reference)[micro.mask]
    assert float(loss.detach()) == pytest.approx(float(0.5 * k.mean()), abs=1e-5)


def test_loglinear_is_the_sampler_for_what_this_version_sampled(folder, tmp_path, segment):
    """With one update the policy is the proximal one itself; later updates look back."""
    batch = drifted(folder, tmp_path, segment)
    settings = {"proximal": "loglinear", "epochs": 2, "lr": 1e-3}
    _, first = gradient(folder, tmp_path, batch, **settings)
    _, second = gradient(folder, tmp_path, batch, proximal="sampler", epochs=2, lr=1e-3)
    torch.testing.assert_close(first, second, atol=1e-4, rtol=0)


def test_a_veto_leaves_a_row_out(folder, tmp_path, segment):
    batch = drifted(folder, tmp_path, segment)
    last = len(batch[0].mask) - 1
    batch[0].logprobs[last] = 0.0
    settings = {"proximal": "recompute"}
    _, kept = gradient(folder, tmp_path, batch, veto=1e-9, **settings)
    stats, left = gradient(folder, tmp_path, batch, veto=0.5, **settings)
    assert stats["correction_mean"] < 1.0
    assert float((kept - left).abs().max()) > 1e-6


def test_the_sum_reducer_weighs_every_token_alike_whatever_the_length(segment):
    batch = [segment("a", sampled=[1] * 4), segment("b", sampled=[1])]
    assert token_weights(batch, "sum") == [0.5, 0.5]


@pytest.mark.parametrize(
    ("settings", "says"), [({"veto": 1e-4}, "veto has no effect"), ({"kl_weighted": True}, "KL")]
)
def test_what_would_do_nothing_is_refused(folder, tmp_path, settings, says):
    with pytest.raises(ConfigError, match=says):
        GrpoLearner(folder, tmp_path, LearnerConfig(**settings))
