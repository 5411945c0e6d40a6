import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.models import random_bilm
from torch import nn

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


def test_an_interruption_mixes_no_two_tokens_up(monkeypatch):
    cnn = random_bilm().char_cnn
    vectors_of = TokenVectors(cnn, 1500)
    first = [f"a{i}" for i in range(1000)]
    vectors_of(first)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(vectors_of, "_grow", fail)
        with pytest.raises(MemoryError):
            vectors_of([f"b{i}" for i in range(600)])
    vectors_of([f"c{i}" for i in range(300)])
    torch.testing.assert_close(vectors_of(first), directly(cnn, first), atol=1e-5, rtol=0)


def test_many_tokens_of_many_lengths_come_back_in_order():
    cnn = random_bilm().char_cnn
    tokens = [f"{'y' * (i % 23)}{i}" for i in range(1500)]
    vectors = TokenVectors(cnn, 2000)(tokens)
    some = [0, 7, 511, 512, 1023, 1499]
    torch.testing.assert_close(
        vectors[some], directly(cnn, [tokens[i] for i in some]), atol=1e-5, rtol=0
    )


# ---- weights that change --------------------------------------------------------------------


def _add(cnn):
    with torch.no_grad():
        cnn.projection.weight += 1


def _write_behind_autograd(cnn):
    cnn.projection.weight.data.mul_(2)


def _put_data(cnn):
    cnn.projection.weight.data = cnn.projection.weight.data * 2


def _put_parameter(cnn):
    cnn.projection.bias = nn.Parameter(cnn.projection.bias.detach() + 1)


def _put_module(cnn):
    cnn.highway = type(cnn.highway)(8, 1).to(cnn.embedding.weight.dtype)


def _load(cnn):
    cnn.load_state_dict(random_bilm(seed=1).char_cnn.state_dict())


def _round(cnn):
    dtype = cnn.embedding.weight.dtype
    cnn.bfloat16().to(dtype)


def _to_double(cnn):
    cnn.double()


def _step(cnn, **settings):
    optimiser = torch.optim.Adam(cnn.parameters(), 0.1, **settings)
    some = torch.from_numpy(char_ids(["a", "word"]))
    was_learning = [p.requires_grad for p in cnn.parameters()]
    cnn.requires_grad_(True)(some).square().sum().backward()
    optimiser.step()
    for parameter, learned in zip(cnn.parameters(), was_learning, strict=True):
        parameter.requires_grad_(learned).grad = None


def _fused_step(cnn):  # which PyTorch's version counters do not see
    _step(cnn, fused=True)


CHANGES = [
    _add,
    _write_behind_autograd,
    _put_data,
    _put_parameter,
    _put_module,
    _load,
    _round,
    _to_double,
    _step,
    _fused_step,
]


@pytest.mark.parametrize("frozen", [False, True], ids=["learning", "frozen"])
@pytest.mark.parametrize("change", CHANGES, ids=[c.__name__.strip("_") for c in CHANGES])
def test_no_vector_outlives_the_weights_that_made_it(change, frozen):
    cnn = random_bilm().char_cnn.requires_grad_(not frozen)
    vectors_of = TokenVectors(cnn, 10)
    vectors_of(["a", "word"])
    change(cnn)
    expected = directly(cnn, ["a", "word"])
    now = vectors_of(["a", "word"])
    assert now.dtype == expected.dtype
    torch.testing.assert_close(now, expected, atol=1e-5, rtol=1e-5)


class AsADictionary(RuleBasedStateMachine):
    """Beside a dictionary that is emptied at every change."""

    @initialize(max_tokens=st.integers(0, 4))
    def start(self, max_tokens):
        self.cnn = random_bilm().char_cnn.requires_grad_(False)
        self.vectors_of = TokenVectors(self.cnn, max_tokens)
        self.known = {}

    @rule(tokens=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5, unique=True))
    def ask(self, tokens):
        for token in tokens:
            if token not in self.known:
                self.known[token] = directly(self.cnn, [token])[0]
        expected = torch.stack([self.known[token] for token in tokens])
        torch.testing.assert_close(self.vectors_of(tokens), expected, atol=1e-4, rtol=1e-4)
        assert len(self.vectors_of) <= self.vectors_of.max_tokens

    @rule(token=st.sampled_from(["\0", "a\0", "\ud800"]))
    def ask_for_what_is_no_text(self, token):
        with pytest.raises(ValueError, match="holds a"):
            self.vectors_of(["new", token])

    @rule(change=st.sampled_from(CHANGES))
    def change(self, change):
        change(self.cnn)
        self.known = {}


test_it_answers_as_a_dictionary_would = AsADictionary.TestCase
test_it_answers_as_a_dictionary_would.settings = settings(max_examples=60, stateful_step_count=15)


def test_weights_made_in_inference_mode_serve_too():
    with torch.inference_mode():
        cnn = random_bilm().char_cnn
        vectors_of = TokenVectors(cnn, 10)
        first = vectors_of(["a"])
    assert torch.equal(vectors_of(["a"]), first)


def test_a_bound_below_nothing_is_refused():
    with pytest.raises(ValueError, match=re.escape("max_tokens is -1")):
        TokenVectors(random_bilm().char_cnn, -1)
