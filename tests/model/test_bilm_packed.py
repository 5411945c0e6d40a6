import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import TINY, config_of, random_bilm, shapes

from elmo import BiLMState
from elmo.model import bilm_packed, product_onednn
from elmo.model.bilm_packed import PackedBiLM, layer_form
from elmo.model.lstm_fused import FusedLstm
from elmo.model.lstm_packed import PackedLstm
from elmo.model.product import PlainProduct
from elmo.model.product_int8 import Int8Product
from elmo.model.product_onednn import OneDnnProduct, can_pack

lengths_of_rows = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def batch_of(lengths, dim, dtype=torch.float32):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.randn(*mask.shape, dim).to(dtype), mask


def state_for(bilm, n_rows):
    return BiLMState(*(torch.randn_like(part) for part in bilm.zero_state(n_rows)))


@settings(max_examples=60)
@given(shape=shapes(), lengths=lengths_of_rows, seed=st.integers(0, 99), threads=st.booleans())
def test_layers_and_state_are_those_of_the_definition(shape, lengths, seed, threads):
    bilm = random_bilm(config_of(shape), seed=seed).double()
    tokens, mask = batch_of(lengths, bilm.config.lstm.dim, torch.float64)
    state = state_for(bilm, len(lengths))
    plain = bilm.read(tokens, mask, state)
    with pytest.MonkeyPatch.context() as patch:
        if threads:
            patch.setattr(bilm_packed, "LARGE_MATRIX", 0)
            patch.setattr(torch, "get_num_threads", lambda: 2)
        packed = PackedBiLM(bilm).read(tokens, mask, state)
    assert not packed.layers.requires_grad
    for ours, theirs in zip(
        (packed.layers, packed.mask, *packed.state), (plain.layers, mask, *plain.state), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


@pytest.mark.parametrize("few", [True, False], ids=["few rows", "many rows"])
@settings(max_examples=25)
@given(shape=shapes(), lengths=lengths_of_rows, seed=st.integers(0, 99))
def test_every_form_gives_the_numbers_of_the_definition_in_float32(few, shape, lengths, seed):
    bilm = random_bilm(config_of(shape), scale=1.0, seed=seed)
    tokens, mask = batch_of(lengths, bilm.config.lstm.dim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bilm_packed, "FUSED_ROWS", 1e9 if few else 0)
        patch.setattr(bilm_packed, "LARGE_MATRIX", 0)
        packed = PackedBiLM(bilm).read(tokens, mask)
    torch.testing.assert_close(packed.layers, bilm.read(tokens, mask).layers, atol=1e-5, rtol=0)


@pytest.mark.parametrize("int8", [False, True], ids=["bfloat16", "int8"])
def test_shorter_numbers_give_nearly_the_same_directions(int8):
    bilm = random_bilm(TINY, scale=1.0)
    tokens, mask = batch_of([6, 6, 3], 6)
    plain = bilm.read(tokens, mask).layers[:, mask]
    if not int8:
        bilm, tokens = bilm.bfloat16(), tokens.bfloat16()
    short = PackedBiLM(bilm, int8=int8).read(tokens, mask).layers[:, mask]
    cosines = torch.nn.functional.cosine_similarity(short.float(), plain.detach(), dim=-1)
    assert cosines.min() > 0.995 and not torch.equal(short.float(), plain)


def test_the_form_follows_dtype_rows_and_size(monkeypatch):
    monkeypatch.setattr(product_onednn, "can_pack", can_pack)
    monkeypatch.setattr(bilm_packed, "can_pack", lambda dtype: dtype != torch.float64)
    lstm = random_bilm().forward_lm[0]
    assert layer_form(lstm, 1.0) == (PackedLstm, PlainProduct)
    assert layer_form(lstm, 10.0) == (PackedLstm, PlainProduct)
    assert layer_form(lstm, 100.0) == (FusedLstm, OneDnnProduct)
    assert layer_form(lstm, 100.0, int8=True) == (PackedLstm, Int8Product)
    monkeypatch.setattr(bilm_packed, "LARGE_MATRIX", 10)
    assert layer_form(lstm, 1.0) == (PackedLstm, PlainProduct)
    assert layer_form(lstm, 10.0) == (PackedLstm, OneDnnProduct)
    assert layer_form(lstm.bfloat16(), 1.0) == (PackedLstm, OneDnnProduct)
    assert layer_form(lstm.double(), 100.0) == (PackedLstm, PlainProduct)


@pytest.mark.parametrize("n_rows", [2, 40], ids=["few rows", "many rows"])
def test_without_onednn_the_numbers_are_the_same(n_rows, monkeypatch):
    bilm = random_bilm(scale=1.0)
    tokens, mask = batch_of([5, 3] * (n_rows // 2), 6)
    fast = PackedBiLM(bilm).read(tokens, mask).layers
    monkeypatch.setattr(bilm_packed, "can_pack", lambda dtype: False)
    torch.testing.assert_close(PackedBiLM(bilm).read(tokens, mask).layers, fast, atol=1e-5, rtol=0)


@pytest.mark.parametrize("n_rows", [1, 40], ids=["few rows", "many rows"])
def test_changed_weights_are_made_ready_anew(n_rows):
    bilm = random_bilm(scale=1.0)
    packed, (tokens, mask) = PackedBiLM(bilm), batch_of([4] * n_rows, 6)
    before = packed.read(tokens, mask).layers
    with torch.no_grad():
        bilm.backward_lm[1].state_weight *= 2
    after = packed.read(tokens, mask).layers
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, bilm.read(tokens, mask).layers, atol=1e-5, rtol=0)


def test_a_model_in_training_mode_drops_nothing():
    bilm = random_bilm(TINY.__class__(TINY.char_cnn, TINY.lstm, dropout=0.5))
    tokens, mask = batch_of([4, 2], 6)
    quiet = PackedBiLM(bilm.eval()).read(tokens, mask).layers
    assert torch.equal(PackedBiLM(bilm.train()).read(tokens, mask).layers, quiet)


def test_threads_at_once_get_what_each_gets_alone(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    bilm = random_bilm(scale=1.0)
    packed = PackedBiLM(bilm)
    batches = [batch_of([n + 1] * 30, 6) for n in range(6)]
    alone = [packed.read(*batch).layers for batch in batches]
    packed = PackedBiLM(bilm)  # made ready by whoever comes first
    together = [None] * len(batches)

    def read(i):
        for _ in range(5):
            together[i] = packed.read(*batches[i]).layers

    threads = [threading.Thread(target=read, args=(i,)) for i in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
