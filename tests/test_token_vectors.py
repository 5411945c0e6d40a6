import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models import random_bilm

from elmo.text import char_ids
from elmo.token_vectors import TokenVectors

WORDS = ["a", "The", "naïve", "x" * 60, "3.5", "word", "b", "c"]


def directly(cnn, tokens):
    return torch.stack([cnn(torch.from_numpy(char_ids([t])))[0] for t in tokens]).detach()


@given(
    asked=st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=5, unique=True), max_size=6
    ),
    max_tokens=st.integers(0, 5),
)
def test_vectors_are_those_of_the_cnn_and_memory_is_bounded(asked, max_tokens):
    cnn = random_bilm().char_cnn
    vectors_of = TokenVectors(cnn, max_tokens)
    remembered = []  # what a list-based cache would hold, oldest first
    for tokens in asked:
        torch.testing.assert_close(vectors_of(tokens), directly(cnn, tokens), atol=1e-5, rtol=0)
        known = [t for t in tokens if t in remembered]
        absent = [t for t in tokens if t not in remembered]
        remembered = [t for t in remembered if t not in known] + known + absent
        remembered = remembered[len(remembered) - min(len(remembered), max_tokens) :]
        assert len(vectors_of) == len(remembered) <= max_tokens
        assert set(vectors_of._places) == set(remembered)


def test_what_is_remembered_is_not_computed_again(monkeypatch):
    vectors_of = TokenVectors(random_bilm().char_cnn, 10)
    first = vectors_of(["a", "b"])
    monkeypatch.setattr(vectors_of, "_compute", lambda tokens: pytest.fail(f"{tokens} again"))
    assert torch.equal(vectors_of(["b", "a"]), first.flip(0))


def test_a_changed_weight_makes_it_forget():
    cnn = random_bilm().char_cnn
    vectors_of = TokenVectors(cnn, 10)
    before = vectors_of(["a"])
    with torch.no_grad():
        cnn.projection.bias += 1
    torch.testing.assert_close(vectors_of(["a"]), before + 1)
    cnn.load_state_dict(random_bilm(seed=1).char_cnn.state_dict())
    torch.testing.assert_close(vectors_of(["a"]), directly(cnn, ["a"]), atol=1e-5, rtol=0)
    cnn.double()
    assert vectors_of(["a"]).dtype == torch.float64


def test_many_tokens_of_many_lengths_come_back_in_order():
    cnn = random_bilm().char_cnn
    tokens = [f"{'y' * (i % 23)}{i}" for i in range(1500)]
    vectors = TokenVectors(cnn, 2000)(tokens)
    some = [0, 7, 511, 512, 1023, 1499]
    torch.testing.assert_close(
        vectors[some], directly(cnn, [tokens[i] for i in some]), atol=1e-5, rtol=0
    )
