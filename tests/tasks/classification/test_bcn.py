"""The biattentive classification network."""

import pytest
import torch
from tests.tasks.test_token_input import SENTENCES, VOCABULARY, Fake, features

from elmo.tasks.classification import bcn
from elmo.tasks.classification.bcn import (
    Bcn,
    BcnConfig,
    Maxout,
    Standardise,
    pooled,
    self_attended,
)
from elmo.tasks.classification.data import LabelledText
from elmo.tasks.classification.task import TASK
from elmo.tasks.input_config import InputConfig
from elmo.tasks.linear import linear
from elmo.tasks.token_input import TokenInput

LABELS = ("0", "1", "2")
MASK = torch.tensor([[True, True, True], [True, True, False]])


def network(where="input", **settings):
    config = BcnConfig(hidden_dim=5, head_dim=4, dropout=0.0, **settings)
    inputs = TokenInput(
        InputConfig(word_dim=6, char_filters=0, dropout=0.0),
        len(VOCABULARY),
        (Fake(),),
        where=where,
    )
    return Bcn(config, inputs, LABELS, several=False)


def batch(*sentences):
    return features(Fake()).batch(sentences or SENTENCES)


def test_each_token_attends_to_the_real_tokens_by_their_products():
    vectors = torch.randn(2, 3, 4)
    found = self_attended(vectors, MASK)
    for i, n in enumerate((3, 2)):
        for token in range(n):
            weights = torch.stack([vectors[i, token] @ vectors[i, k] for k in range(n)]).softmax(0)
            expected = sum(weights[k] * vectors[i, k] for k in range(n))
            torch.testing.assert_close(found[i, token], expected)


def test_pooling_takes_largest_mean_smallest_and_weighed_mean_of_real_tokens():
    vectors = torch.tensor([[[1.0, -5.0], [3.0, -1.0], [100.0, -100.0]]])
    found = pooled(vectors, torch.tensor([[0.25, 0.75, 0.0]]), MASK[1:])
    assert found.tolist() == [[3, -1, 2, -3, 1, -5, 2.5, -2]]


def test_maxout_takes_the_largest_piece_of_each_number():
    maxout = Maxout(3, 2, n_pieces=4)
    x = torch.randn(5, 3)
    pieces = x @ maxout.pieces.weight.T + maxout.pieces.bias
    expected = torch.stack([pieces[:, :4].max(dim=1).values, pieces[:, 4:].max(dim=1).values], 1)
    torch.testing.assert_close(maxout(x), expected)


def test_maxout_begins_as_all_linear_layers_of_task_networks_do():
    torch.manual_seed(1)
    pieces = Maxout(3, 2, n_pieces=4).pieces
    torch.manual_seed(1)
    expected = linear(3, 8)
    assert torch.equal(pieces.weight, expected.weight) and torch.equal(pieces.bias, expected.bias)


def test_a_batch_of_one_is_standardised_by_what_was_seen_before():
    standardise = Standardise(3).train()
    for _ in range(300):
        standardise(7 + 2 * torch.randn(50, 3))
    alone = standardise(torch.full((1, 3), 9.0))
    torch.testing.assert_close(alone, torch.ones(1, 3), atol=0.2, rtol=0)
    torch.testing.assert_close(alone, standardise.eval()(torch.full((1, 3), 9.0)))


@pytest.mark.parametrize("head", ["relu", "maxout"])
@pytest.mark.parametrize("where", ["input", "output", "both"])
def test_a_text_is_scored_the_same_whatever_is_read_beside_it(where, head):
    model = network(where, head=head).eval()
    together = model.scores(batch())
    assert together.shape == (3, 3)
    for i, sentence in enumerate(SENTENCES):
        torch.testing.assert_close(together[i], model.scores(batch(sentence))[0])


@pytest.mark.parametrize("where, n_mixes", [("input", 1), ("output", 1), ("both", 2)])
def test_every_weight_learns_and_encoders_at_the_output_are_pooled(where, n_mixes):
    model = network(where, head="maxout")
    texts = [LabelledText(tuple(s), (label,)) for s, label in zip(SENTENCES, LABELS, strict=True)]
    model.train()(TASK.batch(texts, features(Fake()), {"labels": list(LABELS)})).backward()
    without = [
        name
        for name, p in model.named_parameters()
        if p.requires_grad and (p.grad is None or not p.grad.abs().sum())
    ]
    # Adding the same to all scores of tokens changes no softmax of them.
    assert [name for name in without if name != "attention.bias"] == []
    assert sum("gamma" in name for name, _ in model.named_parameters()) == n_mixes
    assert model.integrator.layers[0].input_size == 3 * 2 * 5
    assert model.attention.in_features == 2 * 5 + (0 if where == "input" else Fake().dim)


def test_large_vectors_at_the_output_do_not_decide_what_is_attended(monkeypatch):
    model, seen = network("both").eval(), []
    monkeypatch.setattr(
        bcn, "self_attended", lambda v, mask: seen.append(v) or self_attended(v, mask)
    )
    with torch.no_grad():
        model.scores(batch())
        model.inputs.output_mixes[0].gamma.fill_(1000.0)
        model.scores(batch())
    assert torch.equal(*seen)


@pytest.mark.parametrize("head", ["relu", "maxout"])
def test_gradients_are_those_of_finite_differences(head):
    model = network("both", head=head).double().eval()
    sentences = batch()
    sentences = type(sentences)(
        sentences.tokens,
        sentences.mask,
        sentences.word_ids,
        sentences.type_ids,
        sentences.char_ids,
        tuple(layers.double() for layers in sentences.encoded),
    )
    weights = [model.integrator.layers[0].weight_ih_l0, model.attention.weight]
    names = ["integrator.layers.0.weight_ih_l0", "attention.weight"]

    def scores(*values):
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(
            Scores(model), {f"model.{k}": v for k, v in given.items()}, (sentences,)
        )

    assert torch.autograd.gradcheck(scores, weights, fast_mode=True)


class Scores(torch.nn.Module):
    """The scores of a network as what it computes."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sentences):
        return self.model.scores(sentences)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"head": "max"}, r"head is 'max', but expected one of \('relu', 'maxout'\)"),
        ({"n_pieces": 0}, "n_pieces"),
        ({"dropout": -0.1}, "dropout is -0.1, but it is a probability below 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BcnConfig(**settings)
