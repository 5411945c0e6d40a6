import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.predict.predictors import VOCABULARY, log_probabilities, random_predictor, together

from elmo import Tokenizer
from elmo.compare import marked_place
from elmo.predict import place as place_module
from elmo.predict.place import DIRECTIONS
from elmo.predict.substitutes import as_json

SPECIALS = (0, 1, 2)
TOKENS = ["a", "c", "zzz", "b"]


@pytest.fixture(scope="module")
def predictor():
    return random_predictor()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("position", [0, 1, 3])
def test_candidates_are_those_of_a_plain_computation(predictor, direction, position):
    forward_lm, backward_lm = (of[position + 1] for of in log_probabilities(predictor, TOKENS))
    if direction == "both":
        p = together(forward_lm, backward_lm, SPECIALS)
    else:
        p = np.exp(forward_lm if direction == "forward" else backward_lm)
        p[list(SPECIALS)] = 0
        p /= p.sum()
    found = predictor.substitutes(TOKENS, position, n=3, direction=direction)
    expected = sorted(range(len(p)), key=lambda word: -p[word])
    assert [c.word for c in found.candidates] == [VOCABULARY.words[w] for w in expected[:3]]
    np.testing.assert_allclose(
        [c.probability for c in found.candidates], p[expected[:3]], rtol=1e-4
    )
    own = VOCABULARY.id(TOKENS[position])
    assert found.rank == expected.index(own) + 1
    assert found.probability == pytest.approx(p[own], rel=1e-4)


def test_specials_are_never_candidates_and_the_others_make_one(predictor):
    found = predictor.substitutes(TOKENS, 0, n=100)
    assert {c.word for c in found.candidates} == set(VOCABULARY.words[3:])
    assert sum(c.probability for c in found.candidates) == pytest.approx(1, rel=1e-5)


def test_an_unknown_word_has_no_rank_but_candidates(predictor):
    for tokens in (TOKENS, ["a", "c", "<UNK>", "b"]):
        found = predictor.substitutes(tokens, 2)
        assert found.rank is None and found.probability is None and len(found.candidates) == 4


def test_the_word_itself_is_not_read(predictor):
    first, second = (predictor.substitutes(["a", word, "b"], 1) for word in ("c", "zzz"))
    for a, b in zip(first.candidates, second.candidates, strict=True):
        assert a.word == b.word and a.probability == pytest.approx(b.probability, rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_many_places_keep_their_order_whatever_their_batches(predictor, chunk, monkeypatch):
    monkeypatch.setattr(place_module, "CHUNK_SCORES", chunk)
    places = [(["a", "b"] * k, k) for k in (3, 1, 5, 2)] + ["c [zzz] a"]
    found = list(predictor.substitutes_stream(places, n=2, batch_tokens=14))
    for place, of in zip(places, found, strict=True):
        alone = predictor.substitutes(*((place,) if isinstance(place, str) else place), n=2)
        assert of.tokens == alone.tokens and of.rank == alone.rank
        assert [c.word for c in of.candidates] == [c.word for c in alone.candidates]
        for a, b in zip(of.candidates, alone.candidates, strict=True):
            assert a.probability == pytest.approx(b.probability, rel=1e-5)


def test_raw_text_marks_its_place_by_a_bracket():
    english = Tokenizer("en")
    assert marked_place("We sat on the river [bank].", english).position == 5
    place = marked_place("They do[n't] know.", english)
    assert place.tokens[place.position] == "n't"
    assert marked_place(r"a \[1\] [b]", Tokenizer("whitespace")).tokens == ["a", "[1]", "b"]


word = st.text(st.sampled_from("abc"), min_size=1, max_size=3)


@given(before=st.lists(word, max_size=3), inside=word, after=st.lists(word, max_size=3))
def test_the_place_is_that_of_the_bracket(before, inside, after):
    place = marked_place(" ".join([*before, f"[{inside}]", *after]), Tokenizer("whitespace"))
    assert list(place.tokens) == [*before, inside, *after] and place.position == len(before)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b", '"a b" marks no word: put [brackets] around'),
        ("[a] [b]", "has 2 opening and 2 closing brackets"),
        ("[a [b]]", "has 2 opening and 2 closing brackets"),
        ("a [ ] b", "marks nothing"),
        ("a [] b", "marks nothing"),
        ("[a b] c", '"[a b] c" marks 2 tokens (a, b), but one word is asked for'),
        ("a] b [c", "mark one word as [word]"),
        ("", "marks no word"),
        ("[<S>] a", "holds <S>, which stands for a sentence's boundary"),
    ],
)
def test_marks_that_are_no_place_are_refused(predictor, text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        predictor.substitutes(text)


def test_positions_and_options_that_cannot_be_are_refused(predictor):
    for position in (4, -1):
        with pytest.raises(ValueError, match=f"position is {position}, but .* has 4 tokens"):
            predictor.substitutes(TOKENS, position)
    with pytest.raises(TypeError, match="position is missing"):
        predictor.substitutes(TOKENS)
    with pytest.raises(TypeError, match=re.escape("in raw text [brackets] mark the word")):
        predictor.substitutes("a [b]", 1)
    with pytest.raises(ValueError, match="direction is 'up', but expected one of both, forward"):
        predictor.substitutes(TOKENS, 0, direction="up")
    with pytest.raises(ValueError, match="n is 0, but at least 1 word"):
        predictor.substitutes(TOKENS, 0, n=0)


def test_json_holds_everything(predictor):
    found = predictor.substitutes("a [b] c", n=1)
    assert as_json(found) == {
        "tokens": ["a", "b", "c"],
        "position": 1,
        "word": "b",
        "rank": found.rank,
        "probability": found.probability,
        "substitutes": [found.candidates[0]._asdict()],
    }
