import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.crf import Crf, viterbi
from elmo.tasks.tag_spans import AllowedTransitions, allowed_transitions, scheme_tags

TAGS = 3
lengths_of_batch = st.lists(st.integers(0, 4), min_size=1, max_size=4)


def mask_of(lengths, tokens=None):
    return torch.arange(tokens or max(lengths)) < torch.tensor(lengths)[:, None]


def crf_of(seed, allowed=None, n_tags=TAGS, scale=1.0):
    torch.manual_seed(seed)
    crf = Crf(n_tags, allowed).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return crf


def sequences(crf, emissions):
    """Every sequence of tags of one sentence, and its score, summed term by term."""
    emissions, transitions = emissions.detach().numpy(), crf.transitions.detach().numpy()
    start, end = crf.start.detach().numpy(), crf.end.detach().numpy()
    n_tokens, n_tags = emissions.shape
    for tags in itertools.product(range(n_tags), repeat=n_tokens):
        score = start[tags[0]] + end[tags[-1]]
        score += sum(emissions[i, tag] for i, tag in enumerate(tags))
        score += sum(transitions[a, b] for a, b in itertools.pairwise(tags))
        yield tags, score


def may(tags, allowed):
    return (
        bool(allowed.start[tags[0]])
        and bool(allowed.end[tags[-1]])
        and all(allowed.between[a, b] for a, b in itertools.pairwise(tags))
    )


@given(lengths=lengths_of_batch, seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 3, 30]))
def test_the_likelihood_is_that_of_brute_force(lengths, seed, scale):
    crf = crf_of(seed, scale=scale)
    emissions = torch.randn(len(lengths), max(lengths), TAGS, dtype=torch.double) * scale
    tags = torch.randint(TAGS, emissions.shape[:2])
    found = crf(emissions, tags, mask_of(lengths))
    for i, length in enumerate(lengths):
        if length == 0:
            assert found[i] == 0
            continue
        scores = dict(sequences(crf, emissions[i, :length]))
        log_partition = np.logaddexp.reduce(list(scores.values()))
        expected = scores[tuple(tags[i, :length].tolist())] - log_partition
        assert found[i].item() == pytest.approx(expected, abs=1e-9, rel=1e-9)


@given(
    lengths=lengths_of_batch,
    seed=st.integers(0, 1000),
    forbidden=st.sets(st.integers(0, TAGS * TAGS + 2 * TAGS - 1), max_size=9),
)
def test_decoding_finds_the_best_allowed_sequence_of_brute_force(lengths, seed, forbidden):
    flat = torch.ones(TAGS * TAGS + 2 * TAGS, dtype=torch.bool)
    flat[list(forbidden)] = False
    between, start, end = flat.split([TAGS * TAGS, TAGS, TAGS])
    allowed = AllowedTransitions(between.view(TAGS, TAGS), start, end)
    crf = crf_of(seed, allowed)
    emissions = torch.randn(len(lengths), max(lengths), TAGS, dtype=torch.double)
    best = []
    for i, length in enumerate(lengths):
        scores = dict(sequences(crf, emissions[i, :length])) if length else {(): 0.0}
        choices = {tags: s for tags, s in scores.items() if not tags or may(tags, allowed)}
        best.append(list(max(choices, key=choices.get)) if choices else None)
    if None in best:
        with pytest.raises(ValueError, match=r"no sequence of \d tags is allowed"):
            crf.decode(emissions, mask_of(lengths))
    else:
        assert crf.decode(emissions, mask_of(lengths)) == best


def test_the_probabilities_of_all_sequences_sum_to_one():
    crf = crf_of(0)
    emissions = torch.randn(1, 4, TAGS, dtype=torch.double)
    tags = torch.tensor(list(itertools.product(range(TAGS), repeat=4)))
    everywhere = torch.ones(tags.shape, dtype=torch.bool)
    likelihoods = crf(emissions.expand(len(tags), -1, -1), tags, everywhere)
    assert likelihoods.exp().sum().item() == pytest.approx(1)


def test_padding_changes_nothing_whatever_it_holds():
    lengths = [2, 4, 1]
    crf = crf_of(1)
    emissions = torch.randn(3, 4, TAGS, dtype=torch.double)
    tags = torch.randint(TAGS, (3, 4))
    mask = mask_of(lengths, 7)
    padded = torch.full((3, 7, TAGS), 1e30, dtype=torch.double)
    padded[:, :4][mask[:, :4]] = emissions[mask[:, :4]]
    padded.requires_grad_()
    padded_tags = torch.where(mask, torch.nn.functional.pad(tags, (0, 3)), -100)
    found = crf(padded, padded_tags, mask)
    found.sum().backward()
    for i, n in enumerate(lengths):
        whole = torch.ones(1, n, dtype=torch.bool)
        alone = crf(emissions[i : i + 1, :n], tags[i : i + 1, :n], whole)
        torch.testing.assert_close(found[i : i + 1], alone)
        assert crf.decode(emissions[i : i + 1, :n], whole)[0] == crf.decode(padded, mask)[i]
    assert not padded.grad[~mask].any()
    assert padded.grad.isfinite().all()


def test_a_batch_without_any_token_has_no_tags_and_likelihood_0():
    crf = Crf(TAGS)
    nothing, mask = torch.zeros(2, 0, TAGS), torch.zeros(2, 0, dtype=torch.bool)
    assert crf(nothing, torch.zeros(2, 0, dtype=torch.long), mask).tolist() == [0, 0]
    assert crf.decode(nothing, mask) == [[], []]


def test_gradients_are_those_of_finite_differences():
    crf = crf_of(2)
    emissions = torch.randn(2, 3, TAGS, dtype=torch.double, requires_grad=True)
    tags, mask = torch.randint(TAGS, (2, 3)), mask_of([3, 2])

    def likelihood(emissions, *parameters):
        names = [name for name, _ in crf.named_parameters()]
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(crf, given, (emissions, tags, mask))

    assert torch.autograd.gradcheck(likelihood, (emissions, *crf.parameters()))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e2, 1e4])
def test_float32_agrees_with_float64_over_a_long_sentence(size):
    crf = crf_of(3, n_tags=9)
    emissions = torch.randn(2, 300, 9, dtype=torch.double) * size
    tags, mask = torch.randint(9, (2, 300)), mask_of([300, 200])
    exact, parts = crf(emissions, tags, mask), crf.log_partition(emissions, mask)
    found = crf.float()(emissions.float(), tags, mask)
    # Each of two sums over the sentence is rounded.
    error = 300 * torch.finfo(torch.float32).eps * parts.abs().max().item()
    torch.testing.assert_close(found.double(), exact, atol=error, rtol=1e-5)


def test_emissions_in_bfloat16_are_summed_in_float32():
    crf = crf_of(4).float()
    emissions, tags = torch.randn(1, 50, TAGS).bfloat16(), torch.randint(TAGS, (1, 50))
    mask = mask_of([50])
    assert crf(emissions, tags, mask).dtype == torch.float32
    torch.testing.assert_close(crf(emissions, tags, mask), crf(emissions.float(), tags, mask))
    assert crf.decode(emissions, mask) == crf.decode(emissions.float(), mask)


def test_a_new_one_prefers_no_sequence():
    tags = torch.randint(TAGS, (1, 4))
    likelihood = Crf(TAGS)(torch.zeros(1, 4, TAGS), tags, mask_of([4]))
    assert likelihood.item() == pytest.approx(-4 * math.log(TAGS), abs=1e-5)


def test_what_is_allowed_is_not_stored_with_the_weights():
    tags = scheme_tags(["PER"], "BIO")
    crf = Crf(len(tags), allowed_transitions(tags, "BIO"))
    assert set(crf.state_dict()) == {"transitions", "start", "end"}


def test_constrained_spans_are_never_broken_however_little_the_scores_like_it():
    tags = scheme_tags(["PER"], "BIO")  # O, B-PER, I-PER
    crf = Crf(3, allowed_transitions(tags, "BIO"))
    likes_inside = torch.tensor([[[0.0, 0.0, 9.0], [5.0, 0.0, 1.0], [0.0, 0.0, 9.0]]])
    # I O I has 23, but no span begins with I. Of the others B I I has most, 10.
    assert crf.decode(likes_inside, mask_of([3])) == [[1, 2, 2]]
    free = viterbi(likes_inside, mask_of([3]), crf.transitions, crf.start, crf.end)
    assert free == [[2, 0, 2]]
