import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import config_of, random_bilm, shapes

from elmo.model import char_cnn_packed
from elmo.model.char_cnn_packed import PackedCharCnn
from elmo.model.product import PlainProduct
from elmo.model.product_onednn import OneDnnProduct, can_pack
from elmo.text import char_ids

WORDS = ["a", "The", "naïve", "—", "x" * 60, "3.5", "</S>"]


@settings(max_examples=40)
@given(shape=shapes(), tokens=st.lists(st.sampled_from(WORDS), max_size=6), seed=st.integers(0, 9))
def test_vectors_are_those_of_the_definition(shape, tokens, seed):
    cnn = random_bilm(config_of(shape), scale=1.0, seed=seed).char_cnn.requires_grad_(False)
    ids = torch.from_numpy(char_ids(tokens))
    packed = PackedCharCnn(cnn)
    assert isinstance(packed.filters[0], OneDnnProduct) == can_pack(torch.float32)
    torch.testing.assert_close(packed(ids), cnn(ids), atol=1e-5, rtol=0)


def test_without_onednn_the_numbers_are_the_same(monkeypatch):
    monkeypatch.setattr(char_cnn_packed, "can_pack", lambda dtype: False)
    cnn, ids = random_bilm(scale=1.0).char_cnn, torch.from_numpy(char_ids(WORDS))
    packed = PackedCharCnn(cnn)
    assert isinstance(packed.filters[0], PlainProduct)
    torch.testing.assert_close(packed(ids), cnn(ids), atol=1e-5, rtol=0)
