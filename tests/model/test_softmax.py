import numpy as np
import pytest
import torch

from elmo.model import softmax_chunked
from elmo.model.softmax import Negatives, Softmax, draw_negatives, log_expected_count

WORDS, DIM, TOKENS = 50, 7, 40


@pytest.fixture
def softmax():
    softmax = Softmax(WORDS, DIM).double()
    softmax.reset_parameters()
    torch.nn.init.normal_(softmax.bias)
    return softmax


@pytest.fixture
def hidden():
    return torch.randn(TOKENS, DIM, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def targets():
    return torch.randint(0, WORDS, (TOKENS,))


def test_the_full_loss_is_minus_log_of_a_share(softmax, hidden, targets):
    scores = (
        hidden.detach().numpy() @ softmax.weight.detach().numpy().T + softmax.bias.detach().numpy()
    )
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = -np.log(shares[np.arange(TOKENS), targets])
    np.testing.assert_allclose(softmax.full_loss(hidden, targets).detach(), expected)


@pytest.mark.parametrize("chunk", [7, 256])
def test_the_fast_sampled_loss_is_the_definition_and_so_are_its_gradients(
    softmax, hidden, targets, chunk, monkeypatch
):
    monkeypatch.setattr(softmax_chunked, "CHUNK_TOKENS", chunk)
    negatives = draw_negatives(WORDS, 12, np.random.default_rng(0))
    plain = softmax.sampled_loss(hidden, targets, negatives)
    fast = softmax.sampled_loss_fast(hidden, targets, negatives, torch.float64)
    torch.testing.assert_close(fast, plain, atol=1e-7, rtol=0)  # expected counts are float32
    inputs = [hidden, softmax.weight, softmax.bias]
    for ours, theirs in zip(
        torch.autograd.grad(fast.mean(), inputs),
        torch.autograd.grad(plain.mean(), inputs),
        strict=True,
    ):
        ours = ours.to_dense() if ours.is_sparse else ours
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-6)


def test_with_every_word_drawn_the_sampled_loss_is_the_full_one(softmax, hidden, targets):
    # Every word is certain to be drawn in so many tries: no correction is left, and the target
    # among the negatives does not count twice.
    negatives = Negatives(torch.arange(WORDS), 10**9)
    sampled = softmax.sampled_loss(hidden, targets, negatives)
    torch.testing.assert_close(sampled, softmax.full_loss(hidden, targets), atol=1e-6, rtol=0)


def test_a_negative_that_is_the_target_does_not_count_against_it(softmax, hidden):
    targets = torch.full((TOKENS,), 3)
    with_hit = softmax.sampled_loss(hidden, targets, Negatives(torch.tensor([3, 8]), 5))
    without = softmax.sampled_loss(hidden, targets, Negatives(torch.tensor([8]), 5))
    torch.testing.assert_close(with_hit, without)


def test_a_loss_weighted_by_token_is_refused_where_its_gradient_would_be_wrong(
    softmax, hidden, targets
):
    negatives = draw_negatives(WORDS, 12, np.random.default_rng(0))
    loss = softmax.sampled_loss_fast(hidden, targets, negatives)
    with pytest.raises(ValueError, match="not weighted by token"):
        (loss * torch.arange(TOKENS)).sum().backward()


def test_negatives_are_distinct_and_as_often_as_expected():
    rng = np.random.default_rng(1)
    n_draws, counts, n_tries = 3000, np.zeros(WORDS), 0
    for _ in range(n_draws):
        negatives = draw_negatives(WORDS, 12, rng)
        assert len(set(negatives.words.tolist())) == 12
        counts[negatives.words] += 1
        n_tries += negatives.n_tries
    expected = log_expected_count(torch.arange(WORDS), WORDS, round(n_tries / n_draws)).exp()
    np.testing.assert_allclose(counts / n_draws, expected, atol=0.04)
    assert (np.diff(expected.numpy()) < 0).all()  # frequent words come first


def test_more_negatives_than_words_are_refused():
    with pytest.raises(ValueError, match="51 negatives were asked for, but the vocabulary has 50"):
        draw_negatives(50, 51, np.random.default_rng(0))
