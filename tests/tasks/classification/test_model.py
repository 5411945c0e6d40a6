"""Labels of texts by the mean of their vectors."""

import pytest
import torch
from tests.tasks.test_token_input import SENTENCES, VOCABULARY, Fake, features

from elmo.encoders.tfidf import Tfidf, TfidfConfig
from elmo.tasks.classification.data import LabelledText
from elmo.tasks.classification.model import (
    LabelsConfig,
    Pooled,
    PooledConfig,
    TextBatch,
    TextClassifier,
    perceptron,
    token_mean,
)
from elmo.tasks.classification.task import TASK
from elmo.tasks.input_config import InputConfig
from elmo.tasks.token_input import TokenInput

LABELS = ("0", "1", "2", "3")
INPUT = InputConfig(word_dim=6, char_filters=0, dropout=0.0)


class Given(TextClassifier):
    """A network that always gives the same scores."""

    def __init__(self, scores, **settings):
        several = settings.pop("several")
        inputs = TokenInput(INPUT, len(VOCABULARY))
        super().__init__(LabelsConfig(**settings), inputs, LABELS, several=several)
        self.given = torch.tensor(scores)

    def scores(self, batch):
        return self.given


def batch_of(*labels):
    texts = [LabelledText(tuple(s), of) for s, of in zip(SENTENCES, labels, strict=False)]
    return TASK.batch(texts, features(), {"labels": list(LABELS)})


def test_a_batch_has_a_one_for_each_label():
    batch = batch_of(("1",), ("3", "0"), ("unknown",))
    assert batch.targets.tolist() == [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]]
    assert batch_of(("1",), None).targets is None


def test_the_mean_leaves_padding_out():
    vectors = torch.randn(2, 3, 4)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    vectors[1, 1:] = torch.nan
    expected = torch.stack([vectors[0].mean(dim=0), vectors[1, 0]])
    torch.testing.assert_close(token_mean(vectors, mask), expected)


def test_the_loss_of_one_label_is_that_of_a_softmax():
    scores = [[0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]]
    loss = Given(scores, several=False).loss(batch_of(("2",), ("0",)))
    first = 2 - torch.tensor(scores[0]).logsumexp(0)
    assert loss.item() == pytest.approx((-first + torch.tensor(4.0).log()).item() / 2)


def test_the_loss_of_several_labels_is_that_of_decisions_each_of_its_own():
    scores = [[0.0, 1.0, -2.0, 3.0], [1.0, 0.5, 1.0, 1.0]]
    p = torch.tensor(scores).sigmoid()
    right = [p[0, 0], p[0, 1], 1 - p[0, 2], 1 - p[0, 3], 1 - p[1, 0], p[1, 1], *(1 - p[1, 2:])]
    loss = Given(scores, several=True).loss(batch_of(("1", "0"), ("1",)))
    assert loss.item() == pytest.approx(-torch.stack(right).log().sum().item() / 2)


def test_a_label_that_is_not_known_teaches_nothing():
    scores = [[0.0, 1.0, 2.0, 3.0]]
    assert Given(scores, several=False).loss(batch_of(("unknown",))).item() == 0


def test_the_likeliest_label_is_given():
    batch = batch_of(("0",), ("0",))
    assert Given([[0.0, 3.0, 1.0, 2.0], [-1.0, -9.0, -8.0, 7.0]], several=False).predict(batch) == [
        ("1",),
        ("3",),
    ]


@pytest.mark.parametrize("threshold, given", [(0.5, ("1", "3")), (0.9, ("1",)), (0.99, ())])
def test_of_several_labels_all_that_are_likely_enough_are_given(threshold, given):
    scores = [[-0.1, 3.0, -1.0, 2.0]]  # probabilities 0.48, 0.95, 0.27, 0.88
    model = Given(scores, several=True, threshold=threshold)
    assert model.predict(batch_of(("0",))) == [given]


def test_a_text_is_scored_by_the_mean_of_its_tokens_at_the_encoders_mix():
    inputs = TokenInput(InputConfig(word_dim=0, char_filters=0), len(VOCABULARY), (Fake(),))
    model = Pooled(PooledConfig(n_layers=0), inputs, LABELS, several=False).eval()
    scores = model.scores(features(Fake()).batch(SENTENCES))
    for i, sentence in enumerate(SENTENCES):
        mean = Fake().encode_layers([sentence])[0].mean(axis=(0, 1))
        torch.testing.assert_close(scores[i], model.layers(torch.from_numpy(mean)))


def test_terms_of_a_text_stand_beside_its_mean_or_alone():
    documents = Tfidf.fit(SENTENCES, TfidfConfig(min_documents=1))
    batch, terms = features().batch(SENTENCES), torch.from_numpy(documents.encode(SENTENCES))
    for word_dim in (0, 6):
        config = InputConfig(word_dim=word_dim, char_filters=0, dropout=0.0)
        inputs = TokenInput(config, len(VOCABULARY), optional=True)
        model = Pooled(
            PooledConfig(n_layers=0), inputs, LABELS, several=False, documents=documents
        ).eval()
        mean = token_mean(inputs(batch).input, batch.mask)
        assert mean.shape == (3, word_dim)
        expected = model.layers(torch.cat([mean, terms], dim=1))
        torch.testing.assert_close(model.scores(batch), expected)


def test_means_and_terms_are_dropped_in_training_alone_and_their_mean_stays():
    documents = Tfidf.fit(SENTENCES, TfidfConfig(min_documents=1))
    inputs = TokenInput(INPUT, len(VOCABULARY))
    config = PooledConfig(n_layers=0, dropout=0.5)
    model = Pooled(config, inputs, LABELS, several=False, documents=documents)
    read = []
    model.layers.register_forward_pre_hook(lambda _, given: read.append(given[0].detach()))
    batch = features().batch(SENTENCES)
    model.eval().scores(batch)
    (whole,) = read
    model.train()
    for _ in range(200):
        model.scores(batch)
    dropped = torch.stack(read[1:])
    assert ((dropped == 0) | torch.isclose(dropped, 2 * whole)).all()
    torch.testing.assert_close(dropped.mean(dim=0), whole, atol=0.3, rtol=0)


def test_a_perceptron_has_the_layers_it_is_told_to():
    for n_layers, size in ((0, 5), (1, 3), (2, 3)):
        layers, out = perceptron(5, 3, n_layers, 0.5)
        assert out == size and layers(torch.randn(2, 5)).shape == (2, size)
        assert sum(isinstance(layer, torch.nn.Linear) for layer in layers) == n_layers


def test_a_new_perceptron_lets_texts_differ_as_much_above_it_as_below():
    layers, _ = perceptron(200, 200, 3, dropout=0.0)
    found = layers(torch.randn(50, 200))
    assert 0.25 < found.square().mean().sqrt() < 1


def test_an_encoder_at_the_output_of_a_network_that_has_none_is_refused():
    inputs = TokenInput(INPUT, len(VOCABULARY), (Fake(),), where="both")
    with pytest.raises(ValueError, match=r'no recurrent layers .* set where = "input"'):
        Pooled(PooledConfig(), inputs, LABELS, several=False)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"threshold": 1.0}, "threshold is 1.0, but it is a probability"),
        ({"dropout": 1.0}, "dropout is 1.0, but it is a probability below 1"),
        ({"n_layers": -1}, "n_layers is -1, but must be 0 or more"),
        ({"min_phrase": 0}, "min_phrase"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PooledConfig(**settings)


def test_a_batch_keeps_its_parts_on_the_way_to_a_device():
    batch = batch_of(("1",), ("0",))
    moved = batch.to("cpu")
    assert isinstance(moved, TextBatch) and torch.equal(moved.targets, batch.targets)
    assert batch_of(None).to("cpu").targets is None
