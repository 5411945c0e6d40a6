import pytest
import torch
from tests.models import random_bilm

from elmo import Vocabulary
from elmo.model.softmax import Softmax
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import perplexity

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
