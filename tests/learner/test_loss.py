import pytest
import torch
from torch import tensor

from agentrl.errors import ConfigError
from agentrl.learner.loss import aggregate, clipped_tokens, kl, policy_loss

LOGP = [[-1.0, -0.5, -2.0, -0.1], [-0.7, -1.2, -0.3, -0.9]]
OLD = tensor([[-1.2, -0.5, -1.5, -0.1], [-0.9, -0.8, -0.3, -0.4]])
A = tensor([[1.0] * 4, [-0.5] * 4])
S1 = tensor([[1, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
S2 = tensor([[1, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)


def logp():
    return tensor(LOGP, requires_grad=True)


def close(got, want):
    torch.testing.assert_close(got, tensor(want), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("mask", "mode", "want"),
    [
        (S1, "token-mean", -0.236205),
        (S1, "seq-mean-token-mean", -0.236205),
        (S1, "seq-mean-token-sum", -0.708616),
        (S1, "seq-mean-token-sum-norm", -0.177154),
        (S1, "token-sum", -1.417232),
        (S2, "token-mean", -0.554308),
        (S2, "seq-mean-token-mean", -0.165972),
        (S2, "seq-mean-token-sum", -1.108616),
        (S2, "seq-mean-token-sum-norm", -0.277154),
        (S2, "token-sum", -2.217232),
    ],
)
def test_ppo_agrees_with_the_published_numbers_under_every_aggregation(mask, mode, want):
    close(aggregate(policy_loss(logp(), OLD, A, mask), mask, mode), want)


def test_ppo_gradient_and_clip_fraction_agree_with_the_published_numbers():
    x = logp()
    aggregate(policy_loss(x, OLD, A, S1), S1, "token-mean").backward()
    close(x.grad, [[-0.203567, -0.166667, -0.101088, 0.0], [0.101784, 0.0, 0.0, 0.0]])
    close(clipped_tokens(x, OLD, A, S1)[S1].float().mean(), 1 / 3)
    close((OLD - x)[S1].mean().detach(), 0.166667)


def test_gspo_agrees_with_the_published_numbers():
    x = logp()
    loss = aggregate(policy_loss(x, OLD, A, S1, kind="gspo"), S1, "seq-mean-token-mean")
    close(loss, -0.252419)
    close(clipped_tokens(x, OLD, A, S1, kind="gspo")[S1].float().mean(), 0.5)
    loss.backward()
    close(x.grad, [[-0.150806, -0.150806, -0.150806, 0.0], [0.0] * 4])


def test_gspo_sends_each_token_its_own_advantage():
    x = logp()
    advantages = tensor([[1.0, 2.0, 3.0, 0.0], [0.0] * 4])
    policy_loss(x, OLD, advantages, S1, kind="gspo").sum().backward()
    close(x.grad[0] / x.grad[0, 0], [1.0, 2.0, 3.0, 0.0])


def test_cispo_agrees_with_the_published_numbers_and_clipped_tokens_still_learn():
    x = logp()
    loss = aggregate(policy_loss(x, OLD, A, S1, kind="cispo"), S1, "token-mean")
    close(loss, 0.342319)
    loss.backward()
    close(x.grad, [[-0.203567, -0.166667, -0.133333, 0.0], [0.101784, 0.066667, 0.0, 0.066667]])


def test_reinforce_is_the_log_likelihood_weighed_by_advantage():
    x = logp()
    policy_loss(x, OLD, A, S1, kind="reinforce").sum().backward()
    torch.testing.assert_close(x.grad, -A * S1)


def test_dual_clip_bounds_the_loss_of_a_bad_token_and_can_be_off():
    one = torch.ones(1, 1, dtype=torch.bool)
    new, old, bad = tensor([[5.0]]).log(), torch.zeros(1, 1), tensor([[-1.0]])
    close(policy_loss(new, old, bad, one), [[3.0]])
    close(policy_loss(new, old, bad, one, dual_clip=None), [[5.0]])


def test_clip_higher_lets_a_good_token_rise_further():
    one = torch.ones(1, 1, dtype=torch.bool)
    new, old, good = tensor([[1.25]]).log(), torch.zeros(1, 1), tensor([[1.0]])
    close(policy_loss(new, old, good, one), [[-1.25]])
    close(policy_loss(new, old, good, one, clip_high=0.2), [[-1.2]])


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("k1", [[0.2, 0.0, -0.5, 0.0], [0.2, -0.4, 0.0, -0.5]]),
        ("k2", [[0.02, 0.0, 0.125, 0.0], [0.02, 0.08, 0.0, 0.125]]),
        ("k3", [[0.018731, 0.0, 0.148721, 0.0], [0.018731, 0.091825, 0.0, 0.148721]]),
    ],
)
def test_kl_estimates_agree_with_the_published_numbers(kind, want):
    close(kl(tensor(LOGP), OLD, torch.ones_like(S1), kind), want)


@pytest.mark.parametrize("kind", ["ppo", "gspo", "cispo", "reinforce"])
def test_what_stands_at_padding_has_no_effect(kind):
    clean, dirty = logp(), tensor(LOGP)
    dirty[~S1] = 1e4
    dirty.requires_grad_()
    a, b = policy_loss(clean, OLD, A, S1, kind=kind), policy_loss(dirty, OLD, A, S1, kind=kind)
    torch.testing.assert_close(a, b)
    a.sum().backward()
    b.sum().backward()
    torch.testing.assert_close(clean.grad, dirty.grad)


def test_losses_of_verl_sum_to_the_published_total():
    losses = tensor([[1.0, 2.0, 30.0], [4.0, 50.0, 6.0]])
    mask = tensor([[1, 1, 0], [1, 0, 1]])
    assert float(aggregate(losses, mask, "token-sum")) == 13.0


def test_sequence_means_count_only_rows_that_have_tokens():
    losses, mask = tensor([[2.0, 4.0], [9.0, 9.0]]), tensor([[1, 1], [0, 0]])
    assert float(aggregate(losses, mask, "seq-mean-token-mean")) == 3.0
    assert float(aggregate(losses, mask, "seq-mean-token-sum")) == 6.0


def test_an_unknown_aggregation_is_named():
    with pytest.raises(ConfigError, match="row-mean"):
        aggregate(A, S1, "row-mean")
