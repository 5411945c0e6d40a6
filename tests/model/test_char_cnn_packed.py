import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import config_of, random_bilm, shapes

from elmo.model import char_cnn_packed
from elmo.model.char_cnn_packed import PackedCharCnn
from elmo.model.product_onednn import can_pack
from elmo.text import char_ids

WORDS = ["a", "The", "naïve", "—", "x" * 60, "3.5", "</S>"]


@settings(max_examples=40)
@given(shape=shapes(), tokens=st.lists(st.sampled_from(WORDS), max_size=6), seed=st.integers(0, 9))
def test_vectors_are_those_of_the_definition(shape, tokens, seed):
    cnn = random_bilm(config_of(shape), scale=1.0, seed=seed).char_cnn.requires_grad_(False)
    ids = torch.from_numpy(char_ids(tokens))
    packed = PackedCharCnn(cnn)
    assert (packed.filters is not None) == can_pack(torch.float32)
    torch.testing.assert_close(packed(ids), cnn(ids), atol=1e-5, rtol=0)


def test_without_onednn_it_is_the_definition(monkeypatch):
    monkeypatch.setattr(char_cnn_packed, "can_pack", lambda dtype: False)
    cnn, ids = random_bilm().char_cnn, torch.from_numpy(char_ids(WORDS))
    assert torch.equal(PackedCharCnn(cnn)(ids), cnn(ids))
