"""The network for pairs of sentences."""

import math
import re
from dataclasses import replace

import pytest
import torch
from tests.tasks.test_token_input import Fake
from torch.autograd import gradcheck

from elmo.tasks.attention import comparison, soft_alignment
from elmo.tasks.features import Features, words_of
from elmo.tasks.input_config import InputConfig
from elmo.tasks.snli.data import Pair
from elmo.tasks.snli.model import NO_LABEL, Esim, EsimConfig, pooled
from elmo.tasks.snli.task import TASK
from elmo.tasks.token_input import TokenInput

LABELS = {"labels": ["contradiction", "entailment", "neutral", "odd"]}
PAIRS = [
    Pair(("A", "bank", "is", "open", "."), ("It", "is", "open"), "entailment", "1"),
    Pair(("Nobody",), ("A", "bank", "runs", "on", "and", "on"), "neutral", "2"),
    Pair(("It", "runs"), ("It", "is"), "contradiction", "3"),
]
VOCABULARY = words_of((s for p in PAIRS for s in TASK.texts(p)), min_count=1, lowercase=False)
FEATURES = Features(VOCABULARY, [Fake().encode_layers])


def esim(where="both", **settings):
    config = InputConfig(word_dim=6, char_filters=0, dropout=0.0)
    inputs = TokenInput(config, len(VOCABULARY), [Fake()], where=where)
    return Esim(EsimConfig(**{"hidden_dim": 5, **settings}), inputs, LABELS["labels"]).eval()


def batch(*pairs):
    return TASK.batch(pairs, FEATURES, LABELS)


@pytest.mark.parametrize("where", ["input", "output", "both"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_scores_are_those_of_the_equations_pair_by_pair(where, activation):
    model = esim(where, activation=activation)
    found = model.scores(batch(*PAIRS).sentences)
    for k, pair in enumerate(PAIRS):
        encoded = []
        for sentence in TASK.texts(pair):
            read = FEATURES.batch([sentence])
            vectors = model.inputs(read)
            bilstm = model.encoder.layers[0](vectors.input)[0]
            encoded.append(torch.cat([bilstm, vectors.output], dim=-1)[0])
        a, b = encoded
        e = a @ b.T
        v = []
        for own, aligned in ((a, e.softmax(1) @ b), (b, e.T.softmax(1) @ a)):
            m = torch.cat([own, aligned, own - aligned, own * aligned], dim=1)
            projected = (m @ model.projection[1].weight.T + model.projection[1].bias).relu()
            composed = model.composition.layers[0](projected[None])[0][0]
            v += [composed.mean(0), composed.amax(0)]
        hidden = getattr(torch, activation)(model.head[1](torch.cat(v)))
        torch.testing.assert_close(found[k], model.head[4](hidden))


def test_answers_do_not_depend_on_what_is_read_together():
    model = esim()
    together = model.scores(batch(*PAIRS).sentences)
    torch.testing.assert_close(model.scores(batch(*PAIRS[::-1]).sentences), together.flip(0))
    for k, pair in enumerate(PAIRS):
        torch.testing.assert_close(model.scores(batch(pair).sentences), together[k : k + 1])
    assert model.predict(batch(*PAIRS)) == [model.predict(batch(pair))[0] for pair in PAIRS]


def test_premise_and_hypothesis_are_told_apart():
    pair, swapped = PAIRS[0], Pair(PAIRS[0].hypothesis, PAIRS[0].premise, "entailment")
    scores = esim().scores(batch(pair, swapped).sentences)
    assert (scores[0] - scores[1]).abs().max() > 1e-3


def test_gradients_of_the_alignment_are_those_of_differences():
    premise = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    hypothesis = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    premise_mask = torch.arange(4) < torch.tensor([[4], [2]])
    hypothesis_mask = torch.arange(2) < torch.tensor([[1], [2]])

    def compared(x, y):
        of_x, of_y = soft_alignment(x, premise_mask, y, hypothesis_mask)
        return comparison(x, of_x)[premise_mask], comparison(y, of_y)[hypothesis_mask]

    assert gradcheck(compared, (premise, hypothesis))


def test_gradients_of_the_whole_network_are_those_of_differences():
    model, read = esim().double(), batch(*PAIRS)
    encoded = tuple(layers.double() for layers in read.sentences.encoded)
    read = replace(read, sentences=replace(read.sentences, encoded=encoded))
    model.loss(read).backward()
    parameters = [p for p in model.parameters() if p.requires_grad]
    for p in parameters:
        assert p.grad is not None and p.grad.isfinite().all()
    directions = [torch.randn_like(p) for p in parameters]
    wanted = sum((p.grad * d).sum() for p, d in zip(parameters, directions, strict=True))
    step, losses = 1e-6, []
    with torch.no_grad():
        for sign in (1, -2):
            for p, d in zip(parameters, directions, strict=True):
                p.add_(sign * step * d)
            losses.append(model.loss(read))
    torch.testing.assert_close((losses[0] - losses[1]) / (2 * step), wanted, rtol=1e-5, atol=1e-7)


def test_the_loss_is_the_mean_of_the_pairs_whose_label_is_known():
    model = esim()
    logs = model.scores(batch(*PAIRS).sentences).log_softmax(dim=-1)
    each = [-logs[k, LABELS["labels"].index(pair.label)] for k, pair in enumerate(PAIRS)]
    torch.testing.assert_close(model.loss(batch(*PAIRS)), torch.stack(each).mean())
    unknown = Pair(*TASK.texts(PAIRS[1]), "unheard of")
    read = batch(PAIRS[0], unknown, PAIRS[2])
    assert read.labels.tolist() == [1, NO_LABEL, 0]
    torch.testing.assert_close(model.loss(read), (each[0] + each[2]) / 2)
    assert batch(PAIRS[0], Pair(("a",), ("b",))).labels is None


def test_pooling_passes_over_padding():
    vectors = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]], [[-5.0, 0.5]] * 3])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    wanted = torch.tensor([[2.0, -3.0, 3.0, -2.0], [-5.0, 0.5, -5.0, 0.5]])
    torch.testing.assert_close(pooled(vectors, mask), wanted)


@pytest.mark.parametrize(
    "dropout, part", [("input_dropout", "encoder"), ("dropout", "composition")]
)
def test_the_input_of_an_lstm_loses_the_same_places_for_all_tokens_of_a_sentence(dropout, part):
    model, seen = esim(**{"hidden_dim": 64, "dropout": 0.0, dropout: 0.5}), []
    getattr(model, part).register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    sentence = ("A", "bank", "is", "open")
    for training in (True, False):
        model.train(training)
        model.inputs.eval()
        model.scores(batch(Pair(sentence, sentence)).sentences)
    dropped, whole = seen
    lost, there = ((dropped == 0) & (whole != 0)).sum(dim=1), (whole != 0).sum(dim=1)
    assert ((lost == 0) | (lost == there)).all()
    assert 0.2 < (lost > 0).sum() / (there > 0).sum() < 0.8
    assert (lost[0] != lost[1]).any()


def test_a_new_network_is_about_as_unsure_as_can_be():
    assert esim(hidden_dim=300).loss(batch(*PAIRS)).item() == pytest.approx(math.log(4), abs=0.5)


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"hidden_dim": 0}, "hidden_dim is 0, but must be positive"),
        ({"activation": "gelu"}, "activation is 'gelu', but expected one of ('tanh', 'relu')"),
        ({"alignment_dropout": 1.0}, "alignment_dropout is 1.0, but it is a probability below 1"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        EsimConfig(**settings)
