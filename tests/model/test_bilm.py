import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.models import TINY, config_of, random_bilm, shapes

from elmo import BiLM, BiLMState, batch_char_ids
from elmo.model import bilm as bilm_module
from elmo.model import lstm_packed

WORDS = ["a", "The", "naïve", "—", "supercalifragilistic", "x" * 60, "3.5", "</S>"]
sentence_lists = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=0, max_size=5), min_size=1, max_size=4
)
both_ways = pytest.mark.parametrize("learning", [False, True], ids=["packed", "definition"])


def char_ids_of(sentences):
    return torch.from_numpy(batch_char_ids(sentences))


def random_states(config, n_rows, seed=0):
    rng, lstm = np.random.default_rng(seed), config.lstm
    return (
        rng.normal(size=(2, lstm.n_layers, n_rows, lstm.dim)),
        rng.normal(size=(2, lstm.n_layers, n_rows, lstm.hidden_dim)),
    )


def state_of(*parts):
    return BiLMState(*map(torch.from_numpy, parts))


@both_ways
@settings(max_examples=60)
@given(shape=shapes(), sentences=sentence_lists, seed=st.integers(0, 99))
def test_layers_and_state_are_those_of_the_equations(shape, sentences, seed, learning):
    config = config_of(shape)
    bilm = random_bilm(config, seed=seed).double().requires_grad_(learning)
    h, c = random_states(config, len(sentences), seed)
    char_ids = char_ids_of(sentences)
    output = bilm(char_ids, state_of(h, c))
    assert output.layers.requires_grad == learning
    for i, sentence in enumerate(sentences):
        n = len(sentence) + 2
        assert output.mask[i].tolist() == [True] * n + [False] * (char_ids.shape[1] - n)
        layers, last_h, last_c = reference.encode(
            bilm, char_ids[i, :n].numpy(), h[:, :, i], c[:, :, i]
        )
        ours = output.layers[:, i].detach().numpy()
        np.testing.assert_allclose(ours[:, :n], layers, atol=1e-10, rtol=0)
        assert not ours[:, n:].any()
        np.testing.assert_allclose(output.state.h[:, :, i].detach(), last_h, atol=1e-10, rtol=0)
        np.testing.assert_allclose(output.state.c[:, :, i].detach(), last_c, atol=1e-10, rtol=0)


@both_ways
@settings(max_examples=30)
@given(shape=shapes(), sentences=sentence_lists, order=st.randoms(use_true_random=False))
def test_a_sentence_alone_and_in_any_batch_gets_the_same_vectors(shape, sentences, order, learning):
    # In float32. Weights of a usual size: large ones would multiply rounding.
    bilm = random_bilm(config_of(shape), scale=1.0).requires_grad_(learning)
    shuffled = list(range(len(sentences)))
    order.shuffle(shuffled)
    together = bilm(char_ids_of([sentences[i] for i in shuffled])).layers
    for row, i in enumerate(shuffled):
        alone = bilm(char_ids_of([sentences[i]])).layers[:, 0]
        torch.testing.assert_close(together[:, row, : alone.shape[1]], alone, atol=1e-5, rtol=0)


@both_ways
def test_more_padding_changes_nothing(learning):
    bilm = random_bilm().requires_grad_(learning)
    char_ids = char_ids_of([["a", "The"], ["3.5"]])
    wide = torch.cat([char_ids, torch.zeros(2, 3, 50, dtype=torch.long)], dim=1)
    narrow, output = bilm(char_ids), bilm(wide)
    torch.testing.assert_close(output.layers[:, :, :4], narrow.layers, atol=1e-6, rtol=0)
    assert not output.layers[:, :, 4:].any() and not output.mask[:, 4:].any()
    torch.testing.assert_close(output.state.c, narrow.state.c, atol=1e-6, rtol=0)


@both_ways
def test_what_stands_outside_the_mask_does_not_count(learning):
    bilm = random_bilm().requires_grad_(learning)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    tokens = torch.randn(2, 3, 6)
    quiet, noisy = (
        bilm.read(torch.where(mask.unsqueeze(-1), tokens, value), mask)
        for value in (torch.tensor(0.0), torch.tensor(100.0))
    )
    assert torch.equal(noisy.layers, quiet.layers) and not noisy.layers[:, ~mask].any()
    assert torch.equal(noisy.state.c, quiet.state.c)


@both_ways
def test_a_row_without_a_token_keeps_its_state(learning):
    bilm = random_bilm().double().requires_grad_(learning)
    char_ids = char_ids_of([["a"], ["The"]])
    char_ids[0] = 0
    state = state_of(*random_states(TINY, 2))
    output = bilm(char_ids, state)
    assert not output.layers[:, 0].any()
    for after, before in zip(output.state, state, strict=True):
        assert torch.equal(after[:, :, 0], before[:, :, 0])
        assert (after[:, :, 1] != before[:, :, 1]).any()


@both_ways
def test_two_runs_are_bit_identical(learning):
    sentences = [["a", "The"], ["3.5"], [], WORDS]
    first, second = (
        random_bilm().requires_grad_(learning)(char_ids_of(sentences)) for _ in range(2)
    )
    assert torch.equal(first.layers, second.layers)
    assert torch.equal(first.state.h, second.state.h)
    assert torch.equal(first.state.c, second.state.c)


def test_the_state_of_one_batch_continues_in_the_next():
    bilm = random_bilm().double().requires_grad_(False)
    first, second = [["a", "The"], ["3.5"]], [["naïve"], ["—", "a"]]
    state = bilm(char_ids_of(first)).state
    continued = bilm(char_ids_of(second), state).layers
    fresh = bilm(char_ids_of(second)).layers
    assert (continued - fresh).abs().amax() > 1e-3
    _, h, c = reference.encode(bilm, char_ids_of(first)[1, :3].numpy())
    layers, *_ = reference.encode(bilm, char_ids_of(second)[1].numpy(), h, c)
    np.testing.assert_allclose(continued[:, 1], layers, atol=1e-11)


def test_a_state_is_not_written_over():
    bilm = random_bilm().double().requires_grad_(False)
    state = state_of(*random_states(TINY, 2))
    before = [part.clone() for part in state]
    bilm(char_ids_of([["a", "The"], ["3.5"]]), state)
    assert all(map(torch.equal, before, state))


def test_a_long_sentence_is_read_in_stretches_with_the_same_numbers(monkeypatch):
    bilm = random_bilm().requires_grad_(False)
    char_ids = char_ids_of([WORDS * 8, WORDS * 3, ["a"]])
    whole = bilm(char_ids).layers
    monkeypatch.setattr(lstm_packed, "GATE_BYTES", 1)
    torch.testing.assert_close(bilm(char_ids).layers, whole, atol=1e-6, rtol=0)


def test_layer_0_is_the_character_cnn_twice():
    bilm = random_bilm().requires_grad_(False)
    char_ids = char_ids_of([["naïve", "a"]])
    vectors = bilm.char_cnn(char_ids[0])
    layer = bilm(char_ids).layers[0, 0]
    torch.testing.assert_close(layer, torch.cat([vectors, vectors], dim=1))


@pytest.mark.parametrize("skip", [True, False], ids=["skip", "no skip"])
def test_dropout_acts_where_the_original_places_it(monkeypatch, skip):
    # On the input of every LSTM layer, each direction and position by its own draw; the skip
    # connection carries what dropout left; token vectors are shown before it.
    lstm = dataclasses.replace(TINY.lstm, n_layers=3, skip_connections=skip)
    config = dataclasses.replace(TINY, lstm=lstm, dropout=0.25)
    bilm = random_bilm(config).double().train()
    factors = []

    def dropout(x, p, training):
        assert p == 0.25 and training
        factors.append((torch.rand_like(x) >= p).to(x.dtype) / (1 - p))
        return x * factors[-1]

    monkeypatch.setattr(bilm_module.functional, "dropout", dropout)
    sentences = [["a", "The", "3.5"], ["naïve"]]
    char_ids = char_ids_of(sentences)
    output = bilm(char_ids).layers.detach().numpy()
    assert len(factors) == 2 * 3
    weights, zeros = reference.weights_of(bilm), [np.zeros((2, 3, n)) for n in (6, 7)]
    for i, sentence in enumerate(sentences):
        n = len(sentence) + 2
        dropped = np.array([f[i, :n].numpy() for f in factors]).reshape(2, 3, n, 6)
        dropped[1] = dropped[1, :, ::-1]  # the backward model reads from the end
        vectors = [reference.token_vector(weights, config, ids) for ids in char_ids[i, :n].numpy()]
        layers, *_ = reference.read(weights, config, np.array(vectors), *zeros, dropped)
        np.testing.assert_allclose(output[:, i, :n], layers, atol=1e-11)


def test_dropout_acts_in_training_alone():
    bilm = random_bilm(dataclasses.replace(TINY, dropout=0.5))
    char_ids = char_ids_of([["a", "The", "3.5"]])
    quiet = bilm(char_ids).layers
    assert torch.equal(bilm(char_ids).layers, quiet)
    bilm.train()
    noisy = bilm(char_ids).layers
    torch.testing.assert_close(noisy[0], quiet[0])
    assert not torch.equal(noisy[1], quiet[1])
    assert not torch.equal(bilm(char_ids).layers[1], noisy[1])
    with torch.no_grad():  # training mode drops out with or without gradients
        assert not torch.equal(bilm(char_ids).layers[1], quiet[1])
    bilm.config = dataclasses.replace(TINY, dropout=0.0)
    torch.testing.assert_close(bilm(char_ids).layers, quiet, atol=1e-6, rtol=0)


def test_gradients_reach_every_weight():
    bilm = random_bilm(scale=1.0)
    bilm(char_ids_of([["a", "The", "naïve"], ["3.5"]])).layers.square().sum().backward()
    for name, parameter in bilm.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    "learning",
    ["char_cnn", "forward_lm.0", "forward_lm.1", "backward_lm.0", "backward_lm.1"],
)
def test_gradients_of_a_part_are_those_of_the_whole_however_much_is_frozen(learning):
    # As when layers are thawed one after the other, in evaluation mode too.
    char_ids = char_ids_of([["a", "The", "naïve"], ["3.5"]])
    whole, part = random_bilm(scale=1.0), random_bilm(scale=1.0).requires_grad_(False)
    part.get_submodule(learning).requires_grad_(True)
    for bilm in (whole, part):
        bilm(char_ids).layers.square().sum().backward()
    for name, parameter in part.named_parameters():
        if name.startswith(learning):
            wanted = whole.get_parameter(name).grad
            torch.testing.assert_close(parameter.grad, wanted, atol=1e-5, rtol=1e-4)
        else:
            assert parameter.grad is None


def test_a_mask_with_a_gap_is_refused():
    mask = torch.tensor([[True, False, True]])
    with pytest.raises(ValueError, match="the mask has a gap"):
        random_bilm().read(torch.zeros(1, 3, 6), mask)


def test_a_state_of_other_rows_is_refused():
    bilm = random_bilm()
    with pytest.raises(ValueError, match="the state has 2 rows but the batch has 1"):
        bilm(char_ids_of([["a"]]), bilm.zero_state(2))


def test_drawn_weights_are_those_of_the_original():
    bilm = BiLM(TINY)
    bilm.reset_parameters()
    assert not bilm.char_cnn.embedding.weight[0].any()
    assert bilm.char_cnn.embedding.weight.abs().max() <= 1
    assert (bilm.char_cnn.highway.gates[0].bias == -2).all()
    for lstm in (*bilm.forward_lm, *bilm.backward_lm):
        assert not lstm.bias.any() and lstm.input_weight.any()
    assert not torch.equal(bilm.forward_lm[0].state_weight, bilm.backward_lm[0].state_weight)
