import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.models import TINY, config_of, random_bilm, shapes

from elmo import BiLM, BiLMState, batch_char_ids
from elmo.model import lstm_packed

WORDS = ["a", "The", "naïve", "—", "supercalifragilistic", "x" * 60, "3.5"]
sentence_lists = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=0, max_size=5), min_size=1, max_size=4
)


def char_ids_of(sentences):
    return torch.from_numpy(batch_char_ids(sentences))


@settings(max_examples=40)
@given(shape=shapes(), sentences=sentence_lists, seed=st.integers(0, 99), packed=st.booleans())
def test_both_ways_of_reading_agree_with_the_equations(shape, sentences, seed, packed):
    config = config_of(shape)
    bilm = random_bilm(config, seed=seed).double().requires_grad_(not packed)
    rng = np.random.default_rng(seed)
    lstm = config.lstm
    h = rng.normal(size=(2, lstm.n_layers, len(sentences), lstm.dim))
    c = rng.normal(size=(2, lstm.n_layers, len(sentences), lstm.hidden_dim))
    char_ids = char_ids_of(sentences)
    output = bilm(char_ids, BiLMState(torch.from_numpy(h), torch.from_numpy(c)))
    for i, sentence in enumerate(sentences):
        n = len(sentence) + 2
        assert output.mask[i].tolist() == [True] * n + [False] * (char_ids.shape[1] - n)
        layers, last_h, last_c = reference.encode(
            bilm, char_ids[i, :n].numpy(), h[:, :, i], c[:, :, i]
        )
        ours = output.layers[:, i].detach().numpy()
        np.testing.assert_allclose(ours[:, :n], layers, atol=1e-11)
        assert not ours[:, n:].any()
        np.testing.assert_allclose(output.state.h[:, :, i].detach(), last_h, atol=1e-11)
        np.testing.assert_allclose(output.state.c[:, :, i].detach(), last_c, atol=1e-11)


@given(sentences=sentence_lists, order=st.randoms(use_true_random=False))
def test_a_sentence_alone_and_in_any_batch_gets_the_same_vectors(sentences, order):
    bilm = random_bilm().requires_grad_(False)
    shuffled = list(range(len(sentences)))
    order.shuffle(shuffled)
    together = bilm(char_ids_of([sentences[i] for i in shuffled])).layers
    for row, i in enumerate(shuffled):
        alone = bilm(char_ids_of([sentences[i]])).layers[:, 0]
        torch.testing.assert_close(together[:, row, : alone.shape[1]], alone, atol=1e-5, rtol=0)


def test_two_runs_are_bit_identical():
    sentences = [["a", "The"], ["3.5"], [], WORDS]
    first, second = (
        random_bilm().requires_grad_(False)(char_ids_of(sentences)).layers for _ in range(2)
    )
    assert torch.equal(first, second)


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


def test_dropout_acts_on_the_inputs_of_lstms_in_training_alone():
    config = type(TINY)(TINY.char_cnn, TINY.lstm, dropout=0.5)
    bilm = random_bilm(config)
    char_ids = char_ids_of([["a", "The", "3.5"]])
    quiet = bilm(char_ids).layers
    assert torch.equal(bilm(char_ids).layers, quiet)
    bilm.train()
    noisy = bilm(char_ids).layers
    torch.testing.assert_close(noisy[0], quiet[0])  # token vectors are shown before dropout
    assert not torch.equal(noisy[1], quiet[1])
    assert not torch.equal(bilm(char_ids).layers[1], noisy[1])
    # A skip connection carries what dropout left: zeros, or values scaled by 2.
    bilm.config = type(TINY)(TINY.char_cnn, TINY.lstm, dropout=0.0)
    torch.testing.assert_close(bilm(char_ids).layers, quiet, atol=1e-6, rtol=0)


def test_gradients_reach_every_weight():
    bilm = random_bilm(scale=1.0)
    bilm(char_ids_of([["a", "The", "naïve"], ["3.5"]])).layers.square().sum().backward()
    for name, parameter in bilm.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


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
    assert not bilm.forward_lm[0].bias.any()
    assert (bilm.char_cnn.highway.gates[0].bias == -2).all()
