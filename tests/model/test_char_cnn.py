import dataclasses

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.models import TINY, config_of, random_bilm, shapes

from elmo.config import CharCnnConfig
from elmo.model.char_cnn import CharCnn
from elmo.text import char_ids

words = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=60)
tokens = st.lists(words | st.sampled_from(["<S>", "</S>"]), min_size=1, max_size=4)


@given(shape=shapes(), max_chars=st.integers(4, 12) | st.just(50), sentence=tokens)
def test_a_token_is_encoded_as_the_equations_say(shape, max_chars, sentence):
    # Filters are up to 4 characters wide: with `max_chars` of 4, as wide as a whole token.
    config = config_of(shape)
    config = dataclasses.replace(
        config, char_cnn=dataclasses.replace(config.char_cnn, max_chars=max_chars)
    )
    bilm = random_bilm(config).double()
    ids = char_ids(sentence, max_chars)
    ours = bilm.char_cnn(torch.from_numpy(ids)).detach().numpy()
    weights = reference.weights_of(bilm)
    for vector, token in zip(ours, ids, strict=True):
        expected = reference.token_vector(weights, config, token)
        np.testing.assert_allclose(vector, expected, atol=1e-12)


@given(sentence=tokens, others=tokens)
def test_a_token_is_encoded_the_same_whatever_stands_beside_it(sentence, others):
    # Long and short tokens together: padding is cut for the longest, and must not matter.
    cnn = random_bilm().char_cnn
    together = cnn(torch.from_numpy(char_ids([*others, *sentence])))[len(others) :]
    alone = torch.cat([cnn(torch.from_numpy(char_ids([token]))) for token in sentence])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-6)


def test_no_tokens_have_no_vectors():
    assert random_bilm().char_cnn(torch.zeros(0, 50, dtype=torch.long)).shape == (0, 6)


def test_padding_counts_where_it_is_the_largest():
    # Windows of padding are windows: a filter that answers to padding alone reads every token.
    cnn = random_bilm().char_cnn
    ids = torch.from_numpy(char_ids(["a", "b" * 47, "c" * 48]))
    with torch.no_grad():
        for parameter in cnn.parameters():
            parameter.zero_()
        cnn.embedding.weight[261] = 1.0
        cnn.convolutions[1].weight[:, :, 1] = 1.0  # the second character of two
        cnn.highway.gates[0].bias.fill_(-100.0)  # pass through
        cnn.projection.weight[0] = 1.0
    # 5 filters × char_dim 4, for all but the token without room for padding.
    torch.testing.assert_close(cnn(ids)[:, 0], torch.tensor([20.0, 20.0, 0.0]))


def test_drawn_weights_are_those_of_the_original():
    torch.manual_seed(0)
    relu = CharCnnConfig(char_dim=16, filters=((2, 300), (5, 200)), n_highway=1, dim=100)
    for config in (relu, dataclasses.replace(relu, activation="tanh")):
        cnn = CharCnn(config)
        cnn.reset_parameters()
        embedding = cnn.embedding.weight
        assert not embedding[0].any()
        assert 0.99 < embedding.abs().max() <= 1  # uniform over ±1
        for convolution in cnn.convolutions:
            assert not convolution.bias.any()
            weight = convolution.weight
            if config.activation == "relu":  # uniform over ±0.05
                assert 0.049 < weight.abs().max() <= 0.05
            else:  # normal, variance one over the number of inputs
                inputs = weight[0].numel()
                np.testing.assert_allclose(weight.std().item(), inputs**-0.5, rtol=0.05)
        np.testing.assert_allclose(cnn.projection.weight.std().item(), 500**-0.5, rtol=0.05)
        assert not cnn.projection.bias.any()


def test_id_0_stays_zero_while_training():
    cnn = CharCnn(TINY.char_cnn)
    cnn.reset_parameters()
    ids = torch.from_numpy(char_ids(["a"]))
    ids[0, -1] = 0
    cnn(ids).sum().backward()
    assert not cnn.embedding.weight.grad[0].any() and cnn.embedding.weight.grad.any()
