import pytest
import torch
from torch import tensor

from agentrl.errors import ConfigError
from agentrl.learner.correction import (
    correction_weights,
    effective_sample_size,
    loglinear,
    mismatch,
    off_policy_rows,
    veto,
)

K = tensor([[1.0, 0.0, -1.0]])
MU = torch.zeros(1, 3)
ALL = torch.ones(1, 3, dtype=torch.bool)


def weights(k, kind, **bounds):
    return correction_weights(k, torch.zeros_like(k), torch.ones_like(k).bool(), kind, **bounds)


@pytest.mark.parametrize(
    ("kind", "low", "high", "want"),
    [
        ("token_truncate", 0.0, 2.0, [2.0, 1.0, 0.367879]),
        ("token_mask", 0.5, 5.0, [2.718282, 1.0, 0.0]),
        ("sequence_truncate", 0.5, 2.0, [1.0, 1.0, 1.0]),
        ("sequence_mask", 0.5, 2.0, [1.0, 1.0, 1.0]),
        ("geometric_mask", 0.99, 1.01, [1.0, 1.0, 1.0]),
        ("none", 0.0, 0.0, [1.0, 1.0, 1.0]),
    ],
)
def test_weights_agree_with_the_published_numbers(kind, low, high, want):
    torch.testing.assert_close(
        weights(K, kind, low=low, high=high), tensor([want]), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(
    ("k", "kind", "low", "high", "kept"),
    [
        ([0.1, -0.1, 0.0], "geometric_mask", 0.9, 1.1, True),
        ([0.5, 0.5, 0.5], "geometric_mask", 0.9, 1.1, False),
        ([0.1, 0.1, 0.1], "sequence_mask", 0.5, 2.0, True),
        ([1.0, 1.0, 1.0], "sequence_mask", 0.5, 2.0, False),
    ],
)
def test_a_row_is_kept_or_rejected_as_a_whole(k, kind, low, high, kept):
    got = weights(tensor([k]), kind, low=low, high=high)
    assert bool((got > 0).all()) is kept
    assert bool((got > 0).any()) is kept


def test_a_truncated_sequence_weight_is_the_product():
    got = weights(tensor([[0.2, 0.1, 0.0]]), "sequence_truncate", high=2.0)
    torch.testing.assert_close(got, tensor([[0.3, 0.3, 0.3]]).exp())
    assert weights(tensor([[1.0, 1.0, 1.0]]), "sequence_truncate", high=2.0).tolist() == [[2.0] * 3]


def test_masked_positions_neither_count_nor_get_weight():
    mask = tensor([[True, False, True]])
    got = correction_weights(tensor([[0.1, 1e4, 0.2]]), MU, mask, "sequence_truncate", high=9.0)
    torch.testing.assert_close(got, tensor([[0.3, 0.0, 0.3]]).exp() * mask)


def test_no_gradient_flows_through_a_weight():
    k = K.clone().requires_grad_()
    assert not correction_weights(k, MU, ALL, "token_truncate").requires_grad


def test_mismatch_agrees_with_the_worked_example():
    got = mismatch(tensor([-1.2, -1.0, -2.0]), tensor([-1.0, -2.0, -0.5]))
    assert got["mismatch_k3"] == pytest.approx(0.7903, abs=1e-3)
    assert got["ess"] == pytest.approx(0.5658, abs=1e-3)
    assert got["mismatch_max"] == pytest.approx(1.5, abs=1e-6)
    assert got["mismatch_mean"] == pytest.approx(0.9, abs=1e-6)


def test_the_same_policy_has_no_mismatch():
    same = tensor([-1.0, -2.0])
    names = ("mean", "max", "k1", "k3", "m2", "chi2")
    nothing = {f"mismatch_{name}": 0.0 for name in names} | {"ppl_ratio": 1.0, "ess": 1.0}
    assert mismatch(same, same) == nothing
    assert mismatch(same[:0], same[:0]) == nothing


def test_weights_that_are_all_zero_are_an_empty_sample():
    assert effective_sample_size(torch.zeros(3)) == 0.0


def test_an_unknown_correction_is_named():
    with pytest.raises(ConfigError, match="token_clip"):
        weights(K, "token_clip")


def test_the_worked_example_is_measured_in_every_way():
    got = mismatch(tensor([-1.2, -1.0, -2.0]), tensor([-1.0, -2.0, -0.5]))
    assert got["mismatch_k1"] == pytest.approx(-0.2333, abs=1e-4)
    assert got["mismatch_m2"] == pytest.approx(1.0967, abs=1e-3)
    assert got["mismatch_chi2"] == pytest.approx(6.2376, abs=1e-3)
    assert got["ppl_ratio"] == pytest.approx(0.7919, abs=1e-4)


def test_weights_agree_with_the_worked_example():
    k = tensor([[0.2, -1.0, 1.5]])
    close = {"atol": 1e-4, "rtol": 0}
    same = torch.testing.assert_close
    same(weights(k, "token_truncate", high=2.0), tensor([[1.2214, 0.3679, 2.0]]), **close)
    same(weights(k, "token_mask", low=0.5, high=5.0), tensor([[1.2214, 0, 4.4817]]), **close)
    same(weights(k, "token_mask", low=0.5, high=2.0), tensor([[1.2214, 0, 0]]), **close)
    same(weights(k, "sequence_truncate", high=9.0), tensor([[2.0138] * 3]), **close)
    same(weights(k, "geometric_truncate", high=9.0), tensor([[1.2628] * 3]), **close)


@pytest.mark.parametrize(
    ("kind", "high", "kept"),
    [
        ("k3_mask", 0.8, True),
        ("k3_mask", 0.7, False),
        ("k2_mask", 0.55, True),
        ("k2_mask", 0.5, False),
    ],
)
def test_a_row_too_far_off_is_rejected(kind, high, kept):
    got = weights(tensor([[0.2, -1.0, 1.5]]), kind, high=high)
    assert got.tolist() == [[float(kept)] * 3]


def test_one_impossible_token_vetoes_its_row():
    k = tensor([[5.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, -10.0, 0.0]])
    mask = torch.ones_like(k).bool()
    zero = torch.zeros_like(k)
    assert veto(k, zero, mask, 1e-4, 100.0).tolist() == [[0.0], [1.0], [0.0]]
    assert veto(k, zero, mask, 1e-4).tolist() == [[1.0], [1.0], [0.0]]
    mask[2, 1] = False
    assert veto(k, zero, mask, 1e-4).tolist() == [[1.0], [1.0], [1.0]]


def test_off_policy_rows_agree_with_trl():
    advantages = tensor([[1.0], [-1.0], [-1.0]]).expand(3, 3)
    mu = tensor([[2.0, 2.0, 9e3], [0.5, 0.5, -9e3], [2.0, 2.0, 9e3]])
    mask = tensor([[True, True, False]] * 3)
    kept = off_policy_rows(advantages, torch.zeros(3, 3), mu, mask, 1.0)
    assert kept[:, 0].tolist() == [1.0, 1.0, 0.0]


def test_only_bad_tokens_of_a_drifted_row_are_left_out():
    advantages = tensor([[1.0, -1.0, 0.0]])
    mu = torch.full((1, 3), 2.0)
    kept = off_policy_rows(advantages, torch.zeros(1, 3), mu, ALL, 1.0)
    assert kept.tolist() == [[1.0, 0.0, 1.0]]


def test_the_loglinear_proximal_policy_agrees_with_areal():
    mu, logp = tensor([[-2.0, -2.0, -2.0]]), tensor([[-1.4, -1.4, -1.4]])
    versions = tensor([[3, 5, 6]])
    got = loglinear(mu, logp, versions, 5.0, 6.0)
    torch.testing.assert_close(got, tensor([[-1.6, -2.0, -1.4]]))
    assert loglinear(mu, logp, tensor([[5, 5, 5]]), 5.0, 5.0).tolist() == logp.tolist()
