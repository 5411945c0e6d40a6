import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import TINY, config_of, random_bilm, shapes

from elmo import BiLMState
from elmo.model import bilm_packed, lstm_packed, lstm_paired
from elmo.model.bilm_packed import EIGHT_BITS, FUSED, PACKED, PLAIN, PackedBiLM, layer_reader
from elmo.model.lstm_paired import PairedLstm

FORMS = {"paired": PairedLstm, "plain": PLAIN, "packed": PACKED, "fused": FUSED}
lengths_of_rows = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def batch_of(lengths, dim, dtype=torch.float32):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.randn(*mask.shape, dim).to(dtype), mask


def state_for(bilm, n_rows):
    return BiLMState(*(torch.randn_like(part) for part in bilm.zero_state(n_rows)))


@settings(max_examples=60)
@given(shape=shapes(), lengths=lengths_of_rows, seed=st.integers(0, 99))
def test_layers_and_state_are_those_of_the_definition(shape, lengths, seed):
    bilm = random_bilm(config_of(shape), seed=seed).double()
    tokens, mask = batch_of(lengths, bilm.config.lstm.dim, torch.float64)
    state = state_for(bilm, len(lengths))
    plain = bilm.read(tokens, mask, state)
    packed = PackedBiLM(bilm).read(tokens, mask, state)
    assert not packed.layers.requires_grad
    for ours, theirs in zip(
        (packed.layers, packed.mask, *packed.state), (plain.layers, mask, *plain.state), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@settings(max_examples=20)
@given(shape=shapes(), lengths=lengths_of_rows, seed=st.integers(0, 99), short=st.booleans())
def test_every_form_gives_the_numbers_of_the_definition(form, dtype, shape, lengths, seed, short):
    if dtype == torch.float64 and form in (PACKED, FUSED):
        pytest.skip("oneDNN has no product of float64")
    bilm = random_bilm(config_of(shape), scale=1.0, seed=seed).to(dtype)
    tokens, mask = batch_of(lengths, bilm.config.lstm.dim, dtype)
    state = state_for(bilm, len(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bilm_packed, "layer_reader", lambda *_, **__: form)
        if short:  # stretches of time, of a token or two
            for module in (lstm_packed, lstm_paired):
                patch.setattr(module, "GATE_BYTES", 100)
        packed = PackedBiLM(bilm).read(tokens, mask, state)
    plain = bilm.read(tokens, mask, state)
    atol = {torch.float32: 1e-5, torch.float64: 1e-10}[dtype]
    for ours, theirs in zip(
        (packed.layers, *packed.state), (plain.layers, *plain.state), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


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
    monkeypatch.setattr(bilm_packed, "can_pack", lambda dtype: dtype != torch.float64)
    bilm = random_bilm()
    layer = (bilm.forward_lm[0], bilm.backward_lm[0])
    assert [layer_reader(layer, n) for n in (1.0, 30.0, 60.0)] == [PLAIN, PairedLstm, FUSED]
    assert layer_reader(layer, 60.0, int8=True) == EIGHT_BITS
    monkeypatch.setattr(bilm_packed, "LARGE_MATRIX", 10)
    assert [layer_reader(layer, n) for n in (1.0, 30.0, 60.0)] == [PLAIN, PACKED, FUSED]
    bilm.bfloat16()
    assert [layer_reader(layer, n) for n in (1.0, 10.0, 30.0)] == [PACKED, PACKED, FUSED]
    bilm.double()
    assert [layer_reader(layer, n) for n in (1.0, 30.0, 60.0)] == [PairedLstm] * 3


@pytest.mark.parametrize("n_rows", [2, 60], ids=["few rows", "many rows"])
def test_without_onednn_the_numbers_are_the_same(n_rows, monkeypatch):
    bilm = random_bilm(scale=1.0)
    tokens, mask = batch_of([5, 3] * (n_rows // 2), 6)
    fast = PackedBiLM(bilm).read(tokens, mask).layers
    monkeypatch.setattr(bilm_packed, "can_pack", lambda dtype: False)
    torch.testing.assert_close(PackedBiLM(bilm).read(tokens, mask).layers, fast, atol=1e-5, rtol=0)


@pytest.mark.parametrize("n_rows", [1, 60], ids=["few rows", "many rows"])
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


def test_threads_at_once_get_what_each_gets_alone():
    bilm = random_bilm(scale=1.0)
    packed = PackedBiLM(bilm)
    batches = [batch_of([n + 1] * 60, 6) for n in range(6)]
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
