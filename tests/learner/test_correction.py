import pytest
import torch
from torch import tensor

from agentrl.errors import ConfigError
from agentrl.learner.correction import correction_weights, effective_sample_size, mismatch

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
    assert mismatch(same, same) == {
        "mismatch_mean": 0.0,
        "mismatch_max": 0.0,
        "mismatch_k3": 0.0,
        "ess": 1.0,
    }


def test_weights_that_are_all_zero_are_an_empty_sample():
    assert effective_sample_size(torch.zeros(3)) == 0.0


def test_an_unknown_correction_is_named():
    with pytest.raises(ConfigError, match="token_clip"):
        weights(K, "token_clip")
