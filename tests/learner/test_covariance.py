import pytest
import torch
from torch import tensor

from agentrl.learner.covariance import clip_cov, covariances, kl_cov


def test_covariances_agree_with_the_worked_numbers():
    got = covariances(tensor([-0.1, -2.0, -0.5, -3.0]), tensor([1.0, 1.0, -1.0, -1.0]))
    torch.testing.assert_close(got, tensor([1.3, -0.6, -0.9, 1.6]))


def test_kl_cov_takes_the_largest_and_never_none():
    cov = tensor([1.3, -0.6, -0.9, 1.6])
    assert kl_cov(cov, 2e-4).tolist() == [False, False, False, True]
    assert kl_cov(cov, 0.5).tolist() == [True, False, False, True]


def test_clip_cov_draws_only_within_its_bounds():
    cov = tensor([6.0, 2.0, 0.5, 3.0, 4.0, 0.0, 0.0, 0.0])
    draw = torch.Generator().manual_seed(0)
    seen = torch.stack([clip_cov(cov, 0.25, 1.0, 5.0, draw) for _ in range(40)])
    assert seen.sum(-1).tolist() == [2] * 40
    assert seen.any(0).tolist() == [False, True, False, True, True, False, False, False]


def test_the_same_draw_gives_the_same_tokens():
    cov = torch.linspace(0, 6, 50)
    one, other = (clip_cov(cov, 0.1, 1.0, 5.0, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, other)


def test_where_no_token_is_within_bounds_none_is_taken():
    draw = torch.Generator().manual_seed(0)
    assert not clip_cov(tensor([0.0, 9.0]), 0.5, 1.0, 5.0, draw).any()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_is_never_more_than_there_is(share):
    assert int(kl_cov(tensor([1.0, 2.0]), share).sum()) == max(1, int(share * 2))
