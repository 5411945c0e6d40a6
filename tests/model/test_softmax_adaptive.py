import re

import numpy as np
import pytest
import torch

from elmo.config import AdaptiveSoftmaxConfig
from elmo.model import softmax_adaptive
from elmo.model.softmax_adaptive import AdaptiveSoftmax

WORDS, DIM, TOKENS = 23, 9, 40
CONFIG = AdaptiveSoftmaxConfig(cutoffs=(5, 12), shrink=2.0)


@pytest.fixture
def softmax():
    torch.manual_seed(0)
    softmax = AdaptiveSoftmax(WORDS, DIM, CONFIG).double()
    softmax.reset_parameters()
    torch.nn.init.normal_(softmax.words.head.bias)
    return softmax


@pytest.fixture
def hidden():
    return torch.randn(TOKENS, DIM, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def targets():
    return torch.randint(0, WORDS, (TOKENS,))


def shares(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def probabilities_of(softmax, hidden):
    """By the paper's formula, in NumPy: of frequent words, then of each cluster's."""
    x = hidden.detach().numpy()
    weights = {name: value.detach().numpy() for name, value in softmax.named_parameters()}
    head = shares(x @ weights["words.head.weight"].T + weights["words.head.bias"])
    parts = [head[:, :5]]
    for i in range(2):
        small = x @ weights[f"words.tail.{i}.0.weight"].T
        parts.append(head[:, [5 + i]] * shares(small @ weights[f"words.tail.{i}.1.weight"].T))
    return np.concatenate(parts, axis=1)


def test_probabilities_are_those_of_frequent_words_and_of_clusters_times_shares(softmax, hidden):
    expected = probabilities_of(softmax, hidden)
    ours = softmax.log_probabilities(hidden).detach().exp().numpy()
    assert ours.shape == (TOKENS, WORDS) and softmax.n_words == WORDS
    np.testing.assert_allclose(ours, expected, rtol=1e-12)
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("chunk", [7, 1024])
def test_the_loss_is_minus_the_log_probability_of_the_target(
    softmax, hidden, targets, chunk, monkeypatch
):
    monkeypatch.setattr(softmax_adaptive, "CHUNK_TOKENS", chunk)
    expected = -np.log(probabilities_of(softmax, hidden)[np.arange(TOKENS), targets])
    np.testing.assert_allclose(softmax.full_loss(hidden, targets).detach(), expected, rtol=1e-12)


def test_its_gradients_are_those_of_finite_differences(softmax, hidden, targets):
    names = [name for name, _ in softmax.named_parameters()]

    def loss(hidden, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(Loss(softmax), prefixed(given), (hidden, targets))

    assert torch.autograd.gradcheck(loss, (hidden, *softmax.parameters()))


class Loss(torch.nn.Module):
    def __init__(self, softmax):
        super().__init__()
        self.softmax = softmax

    def forward(self, hidden, targets):
        return self.softmax.full_loss(hidden, targets)


def prefixed(parameters):
    return {f"softmax.{name}": value for name, value in parameters.items()}


@pytest.mark.parametrize("target", [0, 7, WORDS - 1])
def test_every_parameter_has_a_gradient_whatever_cluster_the_targets_are_in(
    softmax, hidden, target
):
    softmax.full_loss(hidden, torch.full((TOKENS,), target)).mean().backward()
    assert all(parameter.grad is not None for parameter in softmax.parameters())
    own = softmax.words.tail[1][1].weight.grad
    assert bool(own.any()) == (target >= 12)


@pytest.mark.parametrize("n", [0, 1])
def test_no_token_and_a_single_one_have_losses_too(softmax, hidden, targets, n):
    losses = softmax.full_loss(hidden[:n], targets[:n])
    torch.testing.assert_close(losses, softmax.full_loss(hidden, targets)[:n])


def test_drawn_weights_give_scores_of_like_size_in_every_cluster():
    softmax = AdaptiveSoftmax(3000, 64, AdaptiveSoftmaxConfig((500, 1500), 4.0))
    softmax.reset_parameters()
    for name, parameter in softmax.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            expected = parameter.shape[1] ** -0.5
            assert parameter.std().item() == pytest.approx(expected, rel=0.1), name


@pytest.mark.parametrize(
    ("n_words", "dim", "cutoffs", "said"),
    [
        (12, 9, (5, 12), "cutoffs [5, 12], but the vocabulary only 12 words: give smaller cutoffs"),
        (13, 3, (5, 12), "2 clusters that shrink 2-fold each leave nothing of 3 dimensions"),
    ],
)
def test_a_vocabulary_or_dimension_too_small_for_the_clusters_is_refused(
    n_words, dim, cutoffs, said
):
    with pytest.raises(ValueError, match=re.escape(said)):
        AdaptiveSoftmax(n_words, dim, AdaptiveSoftmaxConfig(cutoffs, 2.0))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cutoffs": ()}, "cutoffs is (), but expected whole numbers above 0"),
        ({"cutoffs": (0, 5)}, "cutoffs is (0, 5)"),
        ({"cutoffs": (5, 5)}, "cutoffs is (5, 5)"),
        ({"shrink": 0.5}, "shrink is 0.5, but must be a finite number from 1 up"),
        ({"shrink": float("nan")}, "shrink is nan"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        AdaptiveSoftmaxConfig(**settings)
