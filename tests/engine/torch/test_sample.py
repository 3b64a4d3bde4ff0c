import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.engine.torch.sample import Uniforms, sample, truncate
from agentrl.errors import EngineError


def test_uniforms_depend_on_seed_and_position_alone() -> None:
    forwards = Uniforms(7)
    backwards = Uniforms(7)
    there = [forwards[i] for i in range(200)]
    back = [backwards[i] for i in reversed(range(200))]
    assert there == back[::-1]
    stream = np.random.Generator(np.random.Philox(key=7)).random(200)
    assert there == stream.tolist()
    assert there != [Uniforms(8)[i] for i in range(200)]
    assert there != [Uniforms(7, 1)[i] for i in range(200)]
    assert 0.0 <= Uniforms(-1)[3] < 1.0


def by_hand(scores: list[float], top_p: float, top_k: int) -> dict[int, float]:
    """Token -> probability, one token at a time."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    order = order[:top_k] if top_k > 0 else order
    weights = {i: math.exp(scores[i]) for i in order}
    total = sum(weights.values())
    kept: dict[int, float] = {}
    for i in order:
        if kept and top_p < 1.0 and sum(kept.values()) / total >= top_p:
            break
        kept[i] = weights[i]
    mass = sum(kept.values())
    return {i: weight / mass for i, weight in kept.items()}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-12, 12).map(lambda n: n / 4), min_size=2, max_size=12),
    st.floats(0.05, 0.99),
    st.integers(0, 13),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([1.0, 0.7]),
)
def test_sampling_is_the_inverse_of_the_renormalised_cdf(
    scores: list[float], top_p: float, top_k: int, uniform: float, temperature: float
) -> None:
    want = by_hand([s / temperature for s in scores], top_p, top_k)
    row = torch.tensor([scores], dtype=torch.float64)
    kept = truncate(
        row / temperature, torch.tensor([top_p], dtype=torch.float64), torch.tensor([top_k])
    )
    slack = {sum(list(want.values())[:n]) for n in range(len(want))}
    if all(abs(mass - top_p) > 1e-9 for mass in slack):
        assert {i for i, s in enumerate(kept[0].tolist()) if s > -math.inf} == set(want)
    token, logprob = sample(row, [uniform], [temperature], [top_p], [top_k])
    if set(want) == {i for i, s in enumerate(kept[0].tolist()) if s > -math.inf}:
        assert logprob[0] == pytest.approx(math.log(want[token[0]]), abs=1e-9)
        below = sum(p for i, p in want.items() if i < token[0])
        assert below - 1e-9 <= uniform <= below + want[token[0]] + 1e-9


def test_rows_of_every_kind_mix_without_touching_each_other() -> None:
    torch.manual_seed(0)
    logits = torch.randn(4, 50)
    before = logits.clone()
    kinds = [(0.0, 1.0, 0), (1.0, 1.0, 0), (0.7, 0.5, 0), (1.3, 1.0, 3)]
    mixed = sample(logits, [0.3] * 4, *(list(column) for column in zip(*kinds, strict=True)))
    for row, kind in enumerate(kinds):
        alone = sample(logits[row : row + 1], [0.3], *([value] for value in kind))
        assert (alone[0][0], alone[1][0]) == (mixed[0][row], mixed[1][row])
    assert torch.equal(logits, before)


def test_greedy_reports_the_log_softmax_at_temperature_one() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    token, logprob = sample(logits, [0.99], [0.0], [1.0], [0])
    assert token == [1]
    assert logprob[0] == pytest.approx(torch.log_softmax(logits.double(), -1)[0, 1].item())


def test_the_largest_uniform_never_picks_a_token_without_mass() -> None:
    logits = torch.full((1, 9), -torch.inf)
    logits[0, 3] = 0.1
    logits[0, 5] = 0.2
    token, _ = sample(logits, [1 - 2**-53], [1.0], [1.0], [0])
    assert token == [5]
    token, _ = sample(logits, [0.0], [1.0], [1.0], [0])
    assert token == [3]


def test_logits_that_are_not_numbers_are_named() -> None:
    with pytest.raises(EngineError, match="not finite"):
        sample(torch.tensor([[0.0, float("nan")]]), [0.5], [1.0], [1.0], [0])
