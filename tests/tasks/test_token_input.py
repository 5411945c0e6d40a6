"""What a task model knows of each token."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from elmo.tasks.embedding import embedding
from elmo.tasks.features import Features, padded, words_of
from elmo.tasks.input_config import InputConfig, MixConfig
from elmo.tasks.token_input import TokenInput

SENTENCES = [["The", "bank", "of", "it"], ["Run", "the"], ["it", "ran", "The"]]
VOCABULARY = words_of(SENTENCES, min_count=1, lowercase=False)


@dataclass
class Fake:
    """An encoder whose vectors are drawn by each token's letters."""

    name: str = "fake"
    n_layers: int = 3
    dim: int = 4
    identity: str = "0"

    def encode_layers(self, sentences):
        return [
            np.stack([self.vectors(token) for token in sentence], axis=1) for sentence in sentences
        ]

    def vectors(self, token):
        rng = np.random.default_rng(list(token.encode()))
        return rng.standard_normal((self.n_layers, self.dim)).astype(np.float32)

    def trainable(self):
        raise ValueError("it does not learn")


def features(*encoders):
    return Features(VOCABULARY, [encoder.encode_layers for encoder in encoders])


def test_a_batch_says_where_tokens_are_and_which():
    batch = features(Fake()).batch(SENTENCES)
    assert batch.lengths.tolist() == [4, 2, 3]
    words = VOCABULARY.words
    for i, sentence in enumerate(SENTENCES):
        n = len(sentence)
        assert batch.mask[i].tolist() == [True] * n + [False] * (4 - n)
        assert [words[number] for number in batch.word_ids[i, :n]] == sentence
        assert [batch.char_ids[k].tolist() for k in batch.type_ids[i, :n]] == [
            features().batch([[token]]).char_ids[0].tolist() for token in sentence
        ]
        np.testing.assert_array_equal(
            batch.encoded[0][:, i, :n].numpy(), Fake().encode_layers([sentence])[0]
        )
    assert batch.encoded[0][:, 1, 2:].abs().sum() == 0
    assert len(batch.char_ids) == len({token for s in SENTENCES for token in s})


def test_a_sentence_without_tokens_is_refused():
    with pytest.raises(ValueError, match="sentence 1 of a batch has no token"):
        features().batch([["a"], []])


def test_padding_layers_keeps_them_and_adds_zeros():
    layers = [np.ones((2, n, 3), np.float32) * n for n in (1, 3)]
    batch = padded(layers, 4)
    assert batch.shape == (2, 2, 4, 3)
    assert batch[:, 0].sum() == 2 * 3 and batch[:, 1].sum() == 2 * 9 * 3


@pytest.mark.parametrize(
    "where, n_at_input, n_at_output", [("input", 1, 0), ("output", 0, 1), ("both", 1, 1)]
)
def test_encoders_enter_where_they_are_told_to(where, n_at_input, n_at_output):
    first, second = Fake(), Fake(n_layers=1, dim=5)
    config = InputConfig(word_dim=6, char_filters=7, dropout=0.0)
    inputs = TokenInput(config, len(VOCABULARY), (first, second), where=where).eval()
    vectors = inputs(features(first, second).batch(SENTENCES))
    assert inputs.dim == 13 + 9 * n_at_input and inputs.output_dim == 9 * n_at_output
    assert vectors.input.shape == (3, 4, inputs.dim)
    assert vectors.output.shape == (3, 4, inputs.output_dim)
    mean = torch.from_numpy(first.vectors("bank").mean(axis=0))
    for found in [vectors.input[0, 1, 13:17]] * n_at_input + [
        vectors.output[0, 1, :4]
    ] * n_at_output:
        torch.testing.assert_close(found, mean)


@pytest.mark.parametrize("layer, number", [("last", 2), (1, 1), (-3, 0)])
def test_one_layer_alone_has_no_weights_to_learn_but_a_scale(layer, number):
    inputs = TokenInput(
        InputConfig(word_dim=0, char_filters=0), 1, (Fake(),), MixConfig(layers=layer)
    ).eval()
    vectors = inputs(features(Fake()).batch(SENTENCES)).input
    torch.testing.assert_close(vectors[0, 1], torch.from_numpy(Fake().vectors("bank")[number]))
    assert [name for name, p in inputs.named_parameters() if p.requires_grad] == [
        "input_mixes.0.gamma"
    ]


@pytest.mark.parametrize("where", ["input", "output"])
def test_numbers_of_the_encoder_are_dropped_in_training_alone(where):
    source, chance = features(Fake(dim=400)), 0.25
    config, mix = InputConfig(dropout=0.0), MixConfig(dropout=chance)
    inputs = TokenInput(config, len(VOCABULARY), (Fake(dim=400),), mix, where=where)
    batch = source.batch([["bank"]])
    mixed = getattr(inputs.eval()(batch), where)[0, 0, -400:]
    dropped = getattr(inputs.train()(batch), where)[0, 0, -400:]
    kept = dropped != 0
    assert 0.65 < kept.float().mean() < 0.85 and mixed.all()
    torch.testing.assert_close(dropped[kept], mixed[kept] / (1 - chance))


def test_the_penalty_is_that_of_all_mixes():
    inputs = TokenInput(
        InputConfig(), 5, (Fake(), Fake(n_layers=2)), MixConfig(l2=0.5), where="both"
    )
    for k, mix in enumerate([*inputs.input_mixes, *inputs.output_mixes]):
        torch.nn.init.constant_(mix.weights, k)
    assert inputs.penalty().item() == pytest.approx(0.5 * (0 * 3 + 1 * 2 + 4 * 3 + 9 * 2))


def test_nothing_to_know_a_token_by_is_refused():
    with pytest.raises(ValueError, match=r"give an encoder at the input"):
        TokenInput(InputConfig(word_dim=0, char_filters=0), 5, (Fake(),), where="output")


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_token_is_known_by_itself_whatever_stands_beside_it(layer_norm):
    mix = MixConfig(layer_norm=layer_norm)
    inputs = TokenInput(InputConfig(), len(VOCABULARY), (Fake(),), mix).eval()
    source = features(Fake())
    together = inputs(source.batch(SENTENCES)).input
    for i, sentence in enumerate(SENTENCES):
        alone = inputs(source.batch([sentence])).input[0]
        torch.testing.assert_close(together[i, : len(sentence)], alone)


def test_words_that_a_file_of_words_cannot_hold_have_no_vector_of_their_own(tmp_path):
    words = words_of([["x", "\xa0", "a b", " a"]], min_count=1, lowercase=False)
    words.write(tmp_path / "words.txt")
    assert words.words[3:] == ["a b", "x"]


def test_embeddings_begin_small():
    torch.manual_seed(1)
    words = TokenInput(InputConfig(word_dim=300, char_filters=0), 50).words
    for vectors in (embedding(300, 50), words):
        assert vectors.weight.std().item() == pytest.approx(0.1, abs=0.01)
