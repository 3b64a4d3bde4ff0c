import pytest
import torch
from transformers import AutoModelForCausalLM

from agentrl.engine.torch.model import load_model
from agentrl.learner.model import spread, token_logprobs


@pytest.fixture
def rows():
    torch.manual_seed(1)
    tokens = torch.randint(0, 40, (3, 17))
    select = torch.rand(3, 17) < 0.4
    select[:, 0] = False
    select[2, 9:] = False
    return tokens, select


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_and_entropy_agree_with_transformers(folder, rows, temperature):
    tokens, select = rows
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = theirs(tokens).logits[:, :-1] / temperature
        ours = token_logprobs(load_model(folder), tokens, select, temperature)
    scores = logits.log_softmax(-1)
    want = scores.gather(-1, tokens[:, 1:, None]).squeeze(-1)[select[:, 1:]]
    entropy = -(scores.exp() * scores).sum(-1)[select[:, 1:]]
    torch.testing.assert_close(ours.logprobs, want, atol=1e-4, rtol=0)
    torch.testing.assert_close(ours.entropy, entropy, atol=1e-4, rtol=0)


def test_gradients_agree_with_transformers(folder, rows):
    tokens, select = rows
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ours = load_model(folder)
    token_logprobs(ours, tokens, select).logprobs.sum().backward()
    scores = theirs(tokens).logits[:, :-1].log_softmax(-1)
    scores.gather(-1, tokens[:, 1:, None]).squeeze(-1)[select[:, 1:]].sum().backward()
    there = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, there[name].grad, atol=1e-3, rtol=1e-4)


def test_padding_behind_a_row_changes_nothing(folder, rows):
    tokens, select = rows
    model = load_model(folder)
    padded = torch.cat([tokens, torch.full((3, 5), 9)], 1)
    chosen = torch.cat([select, torch.zeros(3, 5, dtype=torch.bool)], 1)
    with torch.no_grad():
        short = token_logprobs(model, tokens, select).logprobs
        long = token_logprobs(model, padded, chosen).logprobs
    torch.testing.assert_close(short, long, atol=1e-5, rtol=0)


def test_spread_puts_values_back_in_their_places():
    select = torch.tensor([[False, True], [True, True]])
    assert spread(torch.tensor([1.0, 2.0, 3.0]), select).tolist() == [[0.0, 1.0], [2.0, 3.0]]
