import re

import pytest
import torch
from tests.models import random_bilm

from elmo import Vocabulary
from elmo.checkpoints.folder import Checkpoint, load_folder, save_folder
from elmo.config import AdaptiveSoftmaxConfig
from elmo.model.softmax import Softmax
from elmo.model.softmax_adaptive import AdaptiveSoftmax
from elmo.pretrain.adaptation import (
    Phase,
    begin,
    domain_vocabulary,
    softmax_of_frequencies,
    softmax_of_other_words,
)
from elmo.pretrain.perplexity import perplexity

KNOWN = Vocabulary(["<S>", "</S>", "<UNK>", "the", "bank", "of"])
COUNTS = {"the": 9, "gene": 5, "codes": 3, "of": 4, "rare": 1, "<S>": 0, "</S>": 0}
N_SENTENCES, DIM = 2, 6


@pytest.fixture
def softmax():
    torch.manual_seed(0)
    softmax = Softmax(len(KNOWN), DIM)
    softmax.reset_parameters()
    torch.nn.init.normal_(softmax.bias)
    return softmax


@pytest.fixture
def checkpoint(softmax):
    return Checkpoint(random_bilm(), KNOWN, softmax)


def probabilities(softmax, hidden):
    return torch.softmax(hidden.double() @ softmax.weight.double().T + softmax.bias, dim=1).detach()


def test_a_vocabulary_that_is_extended_keeps_its_numbers_and_gets_frequent_words_after_them():
    words = domain_vocabulary(KNOWN, COUNTS).words
    assert words == [*KNOWN.words, "gene", "codes"]
    assert domain_vocabulary(KNOWN, COUNTS, how="extend", max_words=7).words == words[:7]
    assert domain_vocabulary(KNOWN, COUNTS, max_words=6).words == KNOWN.words
    assert domain_vocabulary(KNOWN, COUNTS, min_count=1).words == [*words, "rare"]


def test_a_vocabulary_that_is_replaced_is_the_domains():
    specials = KNOWN.words[:3]
    for known in (KNOWN, None):
        replaced = domain_vocabulary(known, COUNTS, how="replace")
        assert replaced.words == [*specials, "the", "gene", "of", "codes"]
    assert domain_vocabulary(None, COUNTS, max_words=4).words == [*specials, "the"]


def test_a_vocabulary_that_is_kept_is_the_models():
    assert domain_vocabulary(KNOWN, COUNTS, how="keep").words == KNOWN.words


@pytest.mark.parametrize(
    ("known", "settings", "said"),
    [
        (KNOWN, {"how": "extent"}, 'vocabulary is "extent", but expected one of keep, extend, rep'),
        (KNOWN, {"how": "extent"}, 'Did you mean "extend"?'),
        (None, {"how": "keep"}, "there is no vocabulary to keep: replace it"),
        (None, {"how": "extend"}, "predicts no words (it has no softmax)"),
        (KNOWN, {"max_words": 5}, "max_words is 5, but the vocabulary to extend has 6 words"),
    ],
)
def test_what_cannot_be_done_with_a_vocabulary_says_what_can(known, settings, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        domain_vocabulary(known, COUNTS, **settings)


def test_new_words_take_their_share_of_what_was_unknown_and_nothing_else_changes(softmax):
    vocabulary = domain_vocabulary(KNOWN, COUNTS)
    hidden = torch.randn(50, DIM)
    before = probabilities(softmax, hidden)
    after = probabilities(softmax_of_other_words(softmax, KNOWN, vocabulary, COUNTS), hidden)
    others = [0, 1, 3, 4, 5]
    torch.testing.assert_close(after[:, others], before[:, others], atol=1e-6, rtol=0)
    for word, share in ((vocabulary.unknown, 1 / 9), (6, 5 / 9), (7, 3 / 9)):
        torch.testing.assert_close(after[:, word], before[:, 2] * share, atol=1e-6, rtol=0)


def test_known_words_of_a_replaced_vocabulary_keep_their_weights_in_their_new_places(softmax):
    vocabulary = domain_vocabulary(KNOWN, COUNTS, how="replace")
    changed = softmax_of_other_words(softmax, KNOWN, vocabulary, COUNTS)
    for new, old in ((0, 0), (1, 1), (3, 3), (5, 5)):
        assert torch.equal(changed.weight[new], softmax.weight[old])
        assert torch.equal(changed.bias[new], softmax.bias[old])
    assert torch.equal(changed.weight[4], softmax.weight[KNOWN.unknown])


def test_words_of_a_given_vocabulary_that_do_not_occur_get_a_chance(softmax):
    vocabulary = Vocabulary([*KNOWN.words, "absent"])
    changed = softmax_of_other_words(softmax, KNOWN, vocabulary, {})
    assert bool(changed.bias.isfinite().all())
    torch.testing.assert_close(changed.bias[6], changed.bias[2])


def test_a_softmax_of_frequencies_has_the_perplexity_of_a_unigram_model():
    vocabulary = domain_vocabulary(None, COUNTS)
    softmax = softmax_of_frequencies(vocabulary, COUNTS, N_SENTENCES, DIM)
    shares = probabilities(softmax, torch.randn(1, DIM))[0]
    # Of both directions' predictions: 22 tokens twice, 2 beginnings, 2 ends.
    expected = torch.tensor([2, 2, 2, 18, 10, 8, 6]) / 48
    torch.testing.assert_close(shares, expected.double(), atol=1e-6, rtol=0)


def test_a_model_that_predicts_words_is_learned_as_a_whole_and_the_checkpoint_stays(checkpoint):
    vocabulary = domain_vocabulary(KNOWN, COUNTS)
    start = begin(checkpoint, vocabulary, COUNTS, N_SENTENCES, dropout=0.25)
    assert [phase.parts for phase in start.phases] == [("bilm", "softmax")]
    assert (start.n_known, start.n_new, start.n_forgotten) == (6, 2, 0)
    assert (start.model.bilm.config.dropout, checkpoint.bilm.config.dropout) == (0.25, 0.1)
    ours = dict(start.model.bilm.named_parameters())
    for name, parameter in checkpoint.bilm.named_parameters():
        assert torch.equal(ours[name], parameter)
        assert ours[name].data_ptr() != parameter.data_ptr()


@pytest.mark.parametrize("how", ["keep", "replace"])
def test_words_known_new_and_forgotten_are_counted(checkpoint, how):
    vocabulary = domain_vocabulary(KNOWN, COUNTS, how=how)
    start = begin(checkpoint, vocabulary, COUNTS, N_SENTENCES)
    counted = (start.n_known, start.n_new, start.n_forgotten)
    assert counted == {"keep": (6, 0, 0), "replace": (5, 2, 1)}[how]
    if how == "keep":
        assert torch.equal(start.model.softmax.weight, checkpoint.softmax.weight)
        assert start.model.softmax.weight is not checkpoint.softmax.weight


def test_negatives_are_drawn_by_how_frequent_words_are_in_the_domain(checkpoint):
    vocabulary = domain_vocabulary(KNOWN, COUNTS)
    order = begin(checkpoint, vocabulary, COUNTS, N_SENTENCES).order
    by_frequency = ["the", "gene", "of", "codes", "<S>", "</S>", "<UNK>", "bank"]
    assert [vocabulary.words[i] for i in order] == by_frequency


@pytest.mark.parametrize("absent", ["softmax", "both"])
def test_a_missing_softmax_is_learned_first_with_the_rest_frozen(checkpoint, absent):
    known = None if absent == "both" else KNOWN
    vocabulary = domain_vocabulary(None, COUNTS)
    bare = Checkpoint(checkpoint.bilm, known)
    start = begin(bare, vocabulary, COUNTS, N_SENTENCES, softmax_share=0.25)
    assert [(phase.parts, phase.share) for phase in start.phases] == [
        (("softmax",), 0.25),
        (("bilm", "softmax"), 0.75),
    ]
    assert (start.n_known, start.n_new, start.n_forgotten) == (3, 4, 0)
    start.phases[0].freeze_the_rest(start.model)
    learned = {name for name, p in start.model.named_parameters() if p.requires_grad}
    assert learned == {"softmax.weight", "softmax.bias"}
    start.phases[1].freeze_the_rest(start.model)
    assert all(parameter.requires_grad for parameter in start.model.parameters())


def test_a_model_can_be_measured_before_its_first_step_and_saved(checkpoint, tmp_path):
    vocabulary = domain_vocabulary(KNOWN, COUNTS)
    start = begin(checkpoint, vocabulary, COUNTS, N_SENTENCES)
    measured = perplexity(start.model.eval(), vocabulary, [["the", "gene", "of", "banks"]])
    assert measured.n_unknown == 1
    save_folder(Checkpoint(start.model.bilm, vocabulary, start.model.softmax), tmp_path)
    assert load_folder(tmp_path).vocabulary.words == vocabulary.words


def test_an_adaptive_softmax_keeps_its_vocabulary(checkpoint):
    adaptive = AdaptiveSoftmax(len(KNOWN), DIM, AdaptiveSoftmaxConfig((3,), 2.0))
    bare = Checkpoint(checkpoint.bilm, KNOWN, adaptive)
    with pytest.raises(ValueError, match="no room for other words: keep its vocabulary"):
        begin(bare, domain_vocabulary(KNOWN, COUNTS), COUNTS, N_SENTENCES)
    kept = begin(bare, KNOWN, COUNTS, N_SENTENCES).model.softmax
    assert torch.equal(kept.words.head.weight, adaptive.words.head.weight)


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_a_share_that_leaves_a_phase_nothing_is_refused(checkpoint, share):
    with pytest.raises(ValueError, match=f"softmax_share is {share}, but is a share between"):
        begin(checkpoint, KNOWN, COUNTS, N_SENTENCES, softmax_share=share)


def test_a_phase_names_parts_of_the_model(checkpoint):
    model = begin(checkpoint, KNOWN, COUNTS, N_SENTENCES).model
    Phase("network", ("bilm",), 1.0).freeze_the_rest(model)
    assert not any(parameter.requires_grad for parameter in model.softmax.parameters())
