import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.model import softmax as softmax_module
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


def scores_of(softmax, hidden):
    """W h + b in NumPy."""
    weight, bias = (parameter.detach().numpy() for parameter in softmax.parameters())
    return hidden.detach().numpy() @ weight.T + bias


def word_probability(k):
    """Of one draw, log-uniform over ranks."""
    return np.log((k + 2) / (k + 1)) / np.log(WORDS + 1)


def test_probabilities_of_words_make_one():
    assert word_probability(np.arange(WORDS)).sum() == pytest.approx(1)


@pytest.mark.parametrize("chunk", [7, 1024])
def test_the_full_loss_is_minus_log_of_a_share(softmax, hidden, targets, chunk, monkeypatch):
    monkeypatch.setattr(softmax_module, "CHUNK_TOKENS", chunk)
    scores = scores_of(softmax, hidden)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = -np.log(shares[np.arange(TOKENS), targets])
    losses = softmax.full_loss(hidden, targets)
    np.testing.assert_allclose(losses.detach(), expected, rtol=1e-12)
    # Its gradient: shares minus the target, times what the scores are made of.
    (ours,) = torch.autograd.grad(losses.sum(), softmax.bias)
    wanted = shares.sum(axis=0) - np.bincount(targets, minlength=WORDS)
    np.testing.assert_allclose(ours, wanted, atol=1e-12)


def test_log_probabilities_are_the_scores_less_the_log_of_their_sum(softmax, hidden, targets):
    scores = scores_of(softmax, hidden)
    expected = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    ours = softmax.log_probabilities(hidden)
    np.testing.assert_allclose(ours.detach(), expected, rtol=1e-12)
    of_targets = -ours.gather(1, targets.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(of_targets, softmax.full_loss(hidden, targets))
    assert softmax.n_words == WORDS


def test_no_tokens_lose_nothing(softmax):
    assert softmax.full_loss(torch.zeros(0, DIM).double(), torch.zeros(0).long()).shape == (0,)


def test_the_sampled_loss_is_that_of_tensorflow(softmax, hidden, targets):
    # Scores lowered by the log of the expected count; the target against all others drawn.
    words, n_tries = np.array([0, 3, 4, 10, 25, 44, 49]), 17
    targets[:5] = torch.tensor([3, 3, 25, 44, 1])
    scores = scores_of(softmax, hidden)
    expected_count = 1 - (1 - word_probability(np.arange(WORDS))) ** n_tries
    corrected = scores - np.log(expected_count)
    losses = []
    for row, target in zip(corrected, targets.tolist(), strict=True):
        others = [row[word] for word in words if word != target]
        losses.append(np.log(np.sum(np.exp([row[target], *others]))) - row[target])
    negatives = Negatives(torch.from_numpy(words), n_tries)
    ours = softmax.sampled_loss(hidden, targets, negatives)
    np.testing.assert_allclose(ours.detach(), losses, atol=1e-6)  # counts are float32


@pytest.mark.parametrize("chunk", [7, 256])
@pytest.mark.parametrize("n_negatives", [1, 12, WORDS])
def test_the_fast_sampled_loss_is_the_definition_and_so_are_its_gradients(
    softmax, hidden, targets, chunk, n_negatives, monkeypatch
):
    monkeypatch.setattr(softmax_chunked, "CPU_CHUNKS", (chunk, 2))
    negatives = draw_negatives(WORDS, n_negatives, np.random.default_rng(0))
    plain = softmax.sampled_loss(hidden, targets, negatives)
    fast = softmax.sampled_loss_fast(hidden, targets, negatives, torch.float64)
    torch.testing.assert_close(fast, plain, atol=1e-6, rtol=0)  # expected counts are float32
    inputs = [hidden, softmax.weight, softmax.bias]
    for ours, theirs in zip(
        torch.autograd.grad(fast.mean(), inputs),
        torch.autograd.grad(plain.mean(), inputs),
        strict=True,
    ):
        ours = ours.to_dense() if ours.is_sparse else ours
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-6)


def test_words_that_took_no_part_get_no_gradient(softmax, hidden):
    targets = torch.full((TOKENS,), 3)
    negatives = Negatives(torch.tensor([20, 7]), 5)
    softmax.sampled_loss_fast(hidden, targets, negatives, torch.float64).mean().backward()
    for parameter in softmax.parameters():
        assert parameter.grad.is_sparse
        assert parameter.grad.coalesce().indices().tolist() == [[3, 7, 20]]


def test_with_every_word_drawn_the_sampled_loss_is_the_full_one(softmax, hidden, targets):
    # Every word is certain to be drawn in so many tries: no correction is left, and the target
    # among the negatives does not count twice.
    negatives, full = Negatives(torch.arange(WORDS), 10**9), softmax.full_loss(hidden, targets)
    sampled = softmax.sampled_loss(hidden, targets, negatives)
    torch.testing.assert_close(sampled, full, atol=1e-6, rtol=0)
    fast = softmax.sampled_loss_fast(hidden, targets, negatives, torch.float64)
    torch.testing.assert_close(fast, full, atol=1e-6, rtol=0)


@pytest.mark.parametrize("way", ["sampled_loss", "sampled_loss_fast"])
def test_a_negative_that_is_the_target_does_not_count_against_it(softmax, hidden, way):
    targets, loss = torch.full((TOKENS,), 3), getattr(softmax, way)
    with_hit = loss(hidden, targets, Negatives(torch.tensor([3, 8]), 5))
    without = loss(hidden, targets, Negatives(torch.tensor([8]), 5))
    torch.testing.assert_close(with_hit, without)


def test_a_loss_weighted_by_token_is_refused_where_its_gradient_would_be_wrong(
    softmax, hidden, targets
):
    negatives = draw_negatives(WORDS, 12, np.random.default_rng(0))
    loss = softmax.sampled_loss_fast(hidden, targets, negatives)
    with pytest.raises(ValueError, match="not weighted by token"):
        (loss * torch.arange(TOKENS)).sum().backward()


def test_bfloat16_products_stay_near_float32(softmax, hidden, targets):
    softmax, hidden = softmax.float(), hidden.detach().float().requires_grad_()
    negatives = draw_negatives(WORDS, 12, np.random.default_rng(0))
    exact = softmax.sampled_loss_fast(hidden, targets, negatives)
    short = softmax.sampled_loss_fast(hidden, targets, negatives, torch.bfloat16)
    assert short.dtype == torch.float32 and not torch.equal(short, exact)
    torch.testing.assert_close(short, exact, atol=0.05, rtol=0)


def test_words_in_another_order_are_drawn_and_corrected_by_their_ranks(softmax, hidden, targets):
    # The same words under other numbers: every loss and every draw is the same.
    order = np.random.default_rng(4).permutation(WORDS)
    renumbered = Softmax(WORDS, DIM).double()
    with torch.no_grad():
        renumbered.weight[order] = softmax.weight
        renumbered.bias[order] = softmax.bias
    plain = draw_negatives(WORDS, 12, np.random.default_rng(0))
    negatives = draw_negatives(WORDS, 12, np.random.default_rng(0), order)
    assert negatives.words.tolist() == order[plain.words].tolist()
    assert negatives.n_tries == plain.n_tries
    theirs = torch.from_numpy(order)[targets]
    for way in ("sampled_loss", "sampled_loss_fast"):
        torch.testing.assert_close(
            getattr(renumbered, way)(hidden, theirs, negatives),
            getattr(softmax, way)(hidden, targets, plain),
        )


class Even(np.random.Generator):
    """Gives evenly spaced numbers from 0 up to 1 instead of random ones."""

    def random(self, size):
        return np.arange(size) / size


@pytest.mark.parametrize("n_negatives", [1, 2, 12, WORDS - 1])
def test_uniform_numbers_become_words_by_their_share(n_negatives):
    # Words come in order here, word k when log(k + 1) / log(WORDS + 1) of the numbers are used up.
    negatives = draw_negatives(WORDS, n_negatives, Even(np.random.PCG64(0)))
    assert negatives.words.tolist() == list(range(n_negatives))
    share = np.log(n_negatives) / np.log(WORDS + 1)
    assert negatives.n_tries == np.ceil(1024 * share) + 1


@given(n_negatives=st.integers(1, WORDS), seed=st.integers(0, 999))
def test_negatives_are_distinct_words_and_tries_are_counted(n_negatives, seed):
    negatives = draw_negatives(WORDS, n_negatives, np.random.default_rng(seed))
    words = negatives.words.tolist()
    assert len(words) == len(set(words)) == n_negatives
    assert set(words) <= set(range(WORDS))
    assert negatives.n_tries >= n_negatives
    again = draw_negatives(WORDS, n_negatives, np.random.default_rng(seed))
    assert torch.equal(again.words, negatives.words) and again.n_tries == negatives.n_tries


def test_the_first_word_drawn_is_log_uniform():
    rng, n_draws = np.random.default_rng(2), 4000
    counts = np.zeros(WORDS)
    for _ in range(n_draws):
        negatives = draw_negatives(WORDS, 1, rng)
        assert negatives.n_tries == 1
        counts[negatives.words] += 1
    p = word_probability(np.arange(WORDS))
    # Five standard deviations of a share.
    assert (np.abs(counts / n_draws - p) < 5 * np.sqrt(p * (1 - p) / n_draws)).all()


def test_tries_are_as_many_as_it_takes_to_see_two_words():
    # P(the first two are the same) = Σ p², and so on: the mean of a sum of geometric waits.
    p, rng = word_probability(np.arange(WORDS)), np.random.default_rng(3)
    tries = [draw_negatives(WORDS, 2, rng).n_tries for _ in range(4000)]
    expected = 1 + (p / (1 - p)).sum()
    deviation = np.std(tries) / 4000**0.5
    assert abs(np.mean(tries) - expected) < 5 * deviation
    assert min(tries) == 2


def test_words_are_drawn_as_often_as_expected():
    rng = np.random.default_rng(1)
    n_draws, counts, n_tries = 3000, np.zeros(WORDS), 0
    for _ in range(n_draws):
        negatives = draw_negatives(WORDS, 12, rng)
        counts[negatives.words] += 1
        n_tries += negatives.n_tries
    expected = log_expected_count(torch.arange(WORDS), WORDS, round(n_tries / n_draws)).exp()
    np.testing.assert_allclose(counts / n_draws, expected, atol=0.04)


@given(n_tries=st.integers(1, 10**6))
def test_the_expected_count_is_the_chance_to_be_among_the_tries(n_tries):
    ours = log_expected_count(torch.arange(WORDS), WORDS, n_tries).exp().numpy()
    expected = 1 - (1 - word_probability(np.arange(WORDS))) ** n_tries
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    assert (np.diff(ours) <= 0).all()  # frequent words come first


def test_rare_words_of_a_large_vocabulary_keep_their_precision():
    last = log_expected_count(torch.tensor([999_999]), 1_000_000, 8192).item()
    p = 1 / (1_000_000 * np.log(1_000_001))
    assert last == pytest.approx(np.log(8192 * p), abs=1e-2)


def test_more_negatives_than_words_are_refused():
    with pytest.raises(ValueError, match="51 negatives were asked for, but the vocabulary has 50"):
        draw_negatives(50, 51, np.random.default_rng(0))


def test_drawn_weights_are_those_of_the_original():
    softmax = Softmax(900, 25)
    softmax.reset_parameters()
    assert not softmax.bias.any()
    assert softmax.weight.std().item() == pytest.approx(25**-0.5, rel=0.03)
