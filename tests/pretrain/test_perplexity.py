import math
import re

import pytest
import torch
from tests.models import random_bilm

from elmo import Vocabulary
from elmo.config import AdaptiveSoftmaxConfig
from elmo.model.softmax import Softmax
from elmo.model.softmax_adaptive import AdaptiveSoftmax
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import PerplexitySums, perplexity, perplexity_of, perplexity_sums

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"])
SENTENCES = [["a", "b", "zzz"], [], ["b"], ["a"] * 9]


@pytest.fixture
def model():
    softmax = Softmax(len(VOCABULARY), 6)
    softmax.reset_parameters()
    return LanguageModel(random_bilm(), softmax).eval()


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary(model):
    torch.nn.init.zeros_(model.softmax.weight)
    measured = perplexity(model, VOCABULARY, SENTENCES)
    assert measured.forward_lm == pytest.approx(5) and measured.backward_lm == pytest.approx(5)
    assert (measured.n_tokens, measured.n_sentences, measured.n_unknown) == (16, 3, 1)
    assert measured.average == pytest.approx(5)


def test_it_is_measured_by_an_adaptive_softmax_too():
    softmax = AdaptiveSoftmax(len(VOCABULARY), 6, AdaptiveSoftmaxConfig((2, 4), 2.0))
    for parameter in softmax.parameters():
        torch.nn.init.zeros_(parameter)
    # Four classes of the head, two of which are clusters of words 2 and 3, and of word 4: the
    # forward model predicts </S> thrice, <UNK>, a and b; the backward model <S> instead.
    expected = math.exp((3 * math.log(4) + 11 * math.log(8) + 2 * math.log(4)) / 16)
    measured = perplexity(LanguageModel(random_bilm(), softmax).eval(), VOCABULARY, SENTENCES)
    assert measured.forward_lm == pytest.approx(expected)
    assert measured.backward_lm == pytest.approx(expected)


def test_it_does_not_depend_on_batches_or_order(model):
    first = perplexity(model, VOCABULARY, SENTENCES)
    second = perplexity(model, VOCABULARY, SENTENCES[::-1], batch_tokens=1)
    assert first.forward_lm == pytest.approx(second.forward_lm, rel=1e-6)
    assert first.backward_lm == pytest.approx(second.backward_lm, rel=1e-6)


def test_a_carried_state_depends_on_order(model):
    first = perplexity(model, VOCABULARY, SENTENCES, state="carry")
    second = perplexity(model, VOCABULARY, SENTENCES[::-1], state="carry")
    assert first.forward_lm != pytest.approx(second.forward_lm, rel=1e-4)


def test_the_directions_are_two_models(model):
    # Only the forward model sees its state grow from left to right: reversing every sentence and
    # the boundaries would swap them; here they just differ.
    measured = perplexity(model, VOCABULARY, SENTENCES)
    assert measured.forward_lm != pytest.approx(measured.backward_lm, rel=1e-3)


def test_text_without_tokens_and_unknown_states_are_refused(model):
    with pytest.raises(ValueError, match="there is no token to predict"):
        perplexity(model, VOCABULARY, [[], []])
    with pytest.raises(ValueError, match="state is 'settled', but expected one of"):
        perplexity(model, VOCABULARY, SENTENCES, state="settled")


def test_a_text_loses_what_its_sentences_lose(model):
    whole = perplexity(model, VOCABULARY, SENTENCES)
    parts = [perplexity(model, VOCABULARY, [s]) for s in SENTENCES if s]
    for direction in ("forward_lm", "backward_lm"):
        losses = [part.n_tokens * math.log(getattr(part, direction)) for part in parts]
        expected = math.exp(sum(losses) / whole.n_tokens)
        assert getattr(whole, direction) == pytest.approx(expected, rel=1e-6)


def test_one_sentence_has_no_state_to_carry(model):
    zero, carry = (
        perplexity(model, VOCABULARY, SENTENCES[:1], state=state) for state in ("zero", "carry")
    )
    assert zero.forward_lm == pytest.approx(carry.forward_lm, rel=1e-6)
    assert zero.backward_lm == pytest.approx(carry.backward_lm, rel=1e-6)


def test_unknown_words_are_one_word_to_predict_but_read_by_their_characters(model):
    first, second = (perplexity(model, VOCABULARY, [["a", unknown]]) for unknown in ("zzz", "yyyy"))
    assert first.n_unknown == second.n_unknown == 1
    assert first.forward_lm != pytest.approx(second.forward_lm, rel=1e-4)
    # Nothing after it is read: only what is predicted from it differs.
    torch.nn.init.zeros_(model.softmax.weight)
    first, second = (perplexity(model, VOCABULARY, [["a", unknown]]) for unknown in ("zzz", "yyyy"))
    assert first.forward_lm == second.forward_lm


def test_progress_counts_every_sentence_with_tokens_once(model):
    for state in ("zero", "carry"):
        done = []
        perplexity(model, VOCABULARY, SENTENCES, state=state, batch_tokens=12, progress=done.append)
        assert sum(done) == 3 and len(done) > 1


def test_what_would_give_another_number_is_refused(model):
    with pytest.raises(ValueError, match="the vocabulary has 6 words, but the softmax predicts 5"):
        perplexity(model, Vocabulary([*VOCABULARY.words, "c"]), SENTENCES)
    with pytest.raises(TypeError, match=re.escape("pass sentences[2].split()")):
        perplexity(model, VOCABULARY, [["a", "b"], ["a"], "b a"])


def test_a_model_in_training_mode_drops_nothing(model):
    before = perplexity(model, VOCABULARY, SENTENCES)
    again = perplexity(model.train(), VOCABULARY, SENTENCES)
    assert again.forward_lm == pytest.approx(before.forward_lm, rel=1e-6)
    assert again.backward_lm == pytest.approx(before.backward_lm, rel=1e-6)
    assert model.bilm.training


def test_sums_of_parts_are_those_of_the_whole(model):
    whole = perplexity_sums(model, VOCABULARY, SENTENCES)
    parts = [perplexity_sums(model, VOCABULARY, some) for some in (SENTENCES[:1], SENTENCES[1:])]
    added = sum(parts, PerplexitySums())
    assert added.result().forward_lm == pytest.approx(whole.result().forward_lm, rel=1e-6)
    assert added.result().backward_lm == pytest.approx(whole.result().backward_lm, rel=1e-6)
    assert (added.n_tokens, added.n_sentences, added.n_unknown) == (16, 3, 1)
    assert whole.result() == perplexity(model, VOCABULARY, SENTENCES)
    assert perplexity_sums(model, VOCABULARY, [[]]) == PerplexitySums()


def test_a_loss_beyond_all_numbers_is_infinite_and_none_is_none():
    assert perplexity_of(1e4) == math.inf and math.isnan(perplexity_of(math.nan))
