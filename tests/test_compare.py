import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models import random_bilm

from elmo import Elmo, Tokenizer
from elmo.compare import Marked, closest, marked_tokens, read_marked, similarity


@pytest.fixture(scope="module")
def elmo():
    return Elmo(random_bilm())


plain = st.text(st.characters(exclude_characters="\\[]\0", codec="utf-8"), max_size=8)


@given(before=plain, inside=plain.filter(str.strip), after=plain)
def test_brackets_mark_what_is_between_them(before, inside, after):
    text, (start, end) = read_marked(f"{before}[{inside}]{after}")
    assert text == before + inside + after and text[start:end] == inside


def test_brackets_of_the_text_itself_are_escaped():
    assert read_marked(r"a \[b\] \ c") == Marked(r"a [b] \ c", None)
    assert read_marked(r"\[a\] [b]") == Marked("[a] b", (4, 5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a] [b]", "has 2 opening and 2 closing brackets"),
        ("[a", "has 1 opening and 0 closing brackets"),
        ("a] [b", "mark one word as [word]"),
        ("a [ ] b", "marks nothing"),
    ],
)
def test_other_brackets_are_refused_with_what_to_do(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_marked(text)


@pytest.mark.parametrize(
    ("text", "tokens", "marked"),
    [
        ("We sat on the river [bank].", ["We", "sat", "on", "the", "river", "bank", "."], [5]),
        ("A [New York] bank", ["A", "New", "York", "bank"], [1, 2]),
        ("the [bank]'s rates", ["the", "bank", "'s", "rates"], [1]),
        ("[bank]ing", ["bank", "ing"], [0]),
        ("no mark", ["no", "mark"], [0, 1]),
    ],
)
def test_a_mark_stands_for_tokens(text, tokens, marked):
    assert marked_tokens(read_marked(text), Tokenizer("en")) == (tokens, marked)


def test_the_matrix_holds_cosines_of_the_marked_tokens(elmo):
    texts = ["We sat on the [bank].", "The [bank] raised it.", "A [New York] bank"]
    matrix = similarity(elmo, [read_marked(text) for text in texts], layers=2)
    vectors = elmo.encode_tokens([read_marked(text).text for text in texts], layers=2)
    chosen = np.stack([vectors[0][4], vectors[1][1], vectors[2][1:3].mean(axis=0)])
    chosen /= np.linalg.norm(chosen, axis=1, keepdims=True)
    np.testing.assert_allclose(matrix, chosen @ chosen.T, atol=1e-5)
    np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-5)


def test_without_marks_sentences_are_compared(elmo):
    texts = ["The cat sat.", "A dog ran off.", "The cat sat."]
    matrix = similarity(elmo, [read_marked(text) for text in texts])
    vectors = elmo.encode(texts, normalise=True)
    np.testing.assert_allclose(matrix, vectors @ vectors.T, atol=1e-5)
    assert closest(matrix)[[0, 2]].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["one"], "1 text was given, but at least 2"),
        (["[a] b", "c"], '"c" marks no word, but other texts do'),
        (["a", " "], "has no token to compare"),
    ],
)
def test_texts_that_cannot_be_compared_are_refused(elmo, texts, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        similarity(elmo, [read_marked(text) for text in texts])
