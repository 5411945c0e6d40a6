import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.model import softmax_chunked
from elmo.model.softmax_chunked import chunked_cross_entropy, probabilities

DIM = 3


def losses_of(hidden, weight, bias, targets, everywhere):
    """Token by token: log of the sum over the words that count there, minus the target's score."""
    losses = []
    for h, target in zip(hidden, targets.tolist(), strict=True):
        counts = everywhere.clone()
        counts[target] = True
        scores = weight @ h + bias
        losses.append(scores[counts].exp().sum().log() - scores[target])
    return torch.stack(losses)


@st.composite
def problems(draw):
    n_words, n_tokens = draw(st.integers(2, 6)), draw(st.integers(1, 7))
    everywhere = draw(st.lists(st.booleans(), min_size=n_words, max_size=n_words))
    if not any(everywhere):
        everywhere[draw(st.integers(0, n_words - 1))] = True
    targets = draw(st.lists(st.integers(0, n_words - 1), min_size=n_tokens, max_size=n_tokens))
    return everywhere, targets


@settings(max_examples=50)
@given(problem=problems(), chunk=st.integers(1, 8), mean=st.booleans())
def test_losses_and_gradients_are_those_of_the_definition(problem, chunk, mean):
    everywhere, targets = map(torch.tensor, problem)
    shapes = (len(targets), DIM), (len(everywhere), DIM), (len(everywhere),)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_chunked, "CPU_CHUNKS", (chunk, 2))
        ours = chunked_cross_entropy(*inputs, targets, everywhere, torch.float64)
    wanted = losses_of(*inputs, targets, everywhere)
    torch.testing.assert_close(ours, wanted, atol=1e-12, rtol=0)
    reduce = torch.mean if mean else torch.sum
    for gradient, expected in zip(
        torch.autograd.grad(reduce(ours) * 3, inputs),
        torch.autograd.grad(reduce(wanted) * 3, inputs),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=0)


def test_large_scores_do_not_overflow():
    hidden, weight = torch.full((2, DIM), 100.0), torch.randn(4, DIM).sign() * 100
    targets = torch.tensor([0, 3])
    losses = chunked_cross_entropy(
        hidden, weight, torch.zeros(4), targets, torch.ones(4, dtype=torch.bool)
    )
    wanted = torch.nn.functional.cross_entropy(hidden @ weight.T, targets, reduction="none")
    torch.testing.assert_close(losses, wanted)


def test_probabilities_are_a_softmax_and_the_log_of_its_sum():
    scores, bias = torch.randn(5, 4).double(), torch.randn(4).double()
    true, alone = torch.randn(5, 1).double(), torch.tensor([[True], [False]]).repeat(3, 1)[:5]
    p = torch.empty_like(scores)
    log_sum = probabilities(scores, bias, true, alone, p)
    powers = np.exp((scores + bias).numpy())
    total = powers.sum(axis=1, keepdims=True) + np.where(alone, np.exp(true.numpy()), 0)
    np.testing.assert_allclose(log_sum, np.log(total))
    np.testing.assert_allclose(p, powers / total)


def test_tokens_may_not_be_weighted_one_by_one():
    hidden = torch.randn(3, DIM, requires_grad=True)
    losses = chunked_cross_entropy(
        hidden, torch.randn(4, DIM), torch.zeros(4), torch.tensor([0, 1, 1]), torch.ones(4).bool()
    )
    with pytest.raises(ValueError, match="averaged or summed, not weighted by token"):
        losses[0].backward()
