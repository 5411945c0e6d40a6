import gzip
import lzma
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.text import (
    BEGIN_WORD_CHAR,
    END_WORD_CHAR,
    PADDING_CHAR,
    Tokenizer,
    Vocabulary,
    batch_char_ids,
    char_ids,
    count_lines,
    length_sorted_batches,
    read_lines,
)

texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30)


def test_a_token_is_its_bytes_between_begin_and_end_each_one_more_than_the_byte():
    ids = char_ids(["é"])[0]
    assert ids[:4].tolist() == [BEGIN_WORD_CHAR, 0xC3 + 1, 0xA9 + 1, END_WORD_CHAR]
    assert (ids[4:] == PADDING_CHAR).all() and len(ids) == 50


@given(token=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1))
def test_bytes_can_be_read_back_and_overlong_tokens_are_cut_at_48(token):
    ids = char_ids([token])[0]
    end = ids.tolist().index(END_WORD_CHAR)
    assert bytes(int(i) - 1 for i in ids[1:end]) == token.encode()[:48]


def test_ten_thousand_characters_are_cut_as_fifty_are():
    long = "ü" * 10_000
    assert (char_ids([long])[0] == char_ids([long[:24]])[0]).all()


def test_boundaries_have_ids_of_their_own():
    begin, end = char_ids(["<S>", "</S>"])
    assert begin[:3].tolist() == [259, 257, 260] and end[:3].tolist() == [259, 258, 260]


def test_a_batch_is_framed_and_padded_with_zeros():
    ids = batch_char_ids([["a", "bc"], [], ["d"]])
    assert ids.shape == (3, 4, 50)
    np.testing.assert_array_equal(ids[0], char_ids(["<S>", "a", "bc", "</S>"]))
    np.testing.assert_array_equal(ids[1, :2], char_ids(["<S>", "</S>"]))
    assert not ids[1, 2:].any() and not ids[2, 3:].any()
    assert batch_char_ids([["a", "bc"], []], boundaries=False).shape == (2, 2, 50)


def test_a_string_instead_of_tokens_says_how_to_split_it():
    with pytest.raises(TypeError, match=re.escape("pass sentences[1].split()")):
        batch_char_ids([["fine"], "not tokenized"])


@pytest.mark.parametrize("token", ["a\ud800b", "a\0b"])
def test_what_no_text_has_is_refused_or_replaced(token):
    with pytest.raises(ValueError, match=r"lone surrogate|NUL"):
        char_ids([token])
    replaced = char_ids([token], errors="replace")
    np.testing.assert_array_equal(replaced, char_ids(["a\ufffdb"]))


@pytest.mark.parametrize("language", ["en", "de", "xx", "whitespace"])
@settings(max_examples=40)
@given(text=texts)
def test_offsets_point_at_the_token_and_white_space_is_none(language, text):
    tokens = Tokenizer(language)(text)
    assert all(text[start:end] == token for token, start, end in tokens)
    assert all(token.strip() for token, *_ in tokens)
    kept = "".join("".join(text.split()))
    if language == "whitespace":
        assert [token for token, *_ in tokens] == text.split()
    else:
        assert "".join("".join(token.split()) for token, *_ in tokens) == kept


def test_english_clitics_and_punctuation_are_split_off():
    assert [t.text for t in Tokenizer()("Don't sit, Peter's bank!")] == [
        "Do", "n't", "sit", ",", "Peter", "'s", "bank", "!"
    ]  # fmt: skip


def test_an_unknown_language_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match='no tokenizer for language "english"'):
        Tokenizer("english")


def test_a_vocabulary_goes_by_frequency_and_survives_the_file(tmp_path):
    counts = {"b": 2, "a": 2, "c": 5, "rare": 1, "<S>": 9}
    vocabulary = Vocabulary.from_counts(counts, min_count=2)
    assert vocabulary.words == ["<S>", "</S>", "<UNK>", "c", "a", "b"]
    assert vocabulary.id("c") == 3 and vocabulary.id("rare") == vocabulary.unknown
    vocabulary.write(tmp_path / "v.txt")
    assert Vocabulary.read(tmp_path / "v.txt").words == vocabulary.words
    assert [path.name for path in tmp_path.iterdir()] == ["v.txt"]
    assert len(Vocabulary.from_counts(counts, max_words=4)) == 4


def test_a_vocabulary_without_specials_is_refused(tmp_path):
    (tmp_path / "v.txt").write_text("<S>\na\n")
    with pytest.raises(ValueError, match=re.escape("v.txt: the vocabulary has no </S>, <UNK>")):
        Vocabulary.read(tmp_path / "v.txt")


def test_lines_end_at_newlines_only_and_lose_byte_order_marks(tmp_path):
    content = "\ufeffone\u2028still one\r\n\ntwo\x0cstill two".encode()
    wanted = ["one\u2028still one", "", "two\x0cstill two"]
    for name, opened in (("a.txt", open), ("a.gz", gzip.open), ("a.xz", lzma.open)):
        with opened(tmp_path / name, "wb") as file:
            file.write(content)
        assert list(read_lines(tmp_path / name)) == wanted
    assert count_lines(tmp_path / "a.txt") == 3
    assert count_lines(tmp_path / "a.gz") is None


def test_invalid_utf8_names_its_line_or_is_replaced(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\nb\xe4d\nx\0y\n")
    with pytest.raises(ValueError, match="line 2: is not valid UTF-8"):
        list(read_lines(path))
    assert list(read_lines(path, "replace")) == ["fine", "b\ufffdd", "x\ufffdy"]
    path.write_bytes(b"fine\nx\0y\n")
    with pytest.raises(ValueError, match="line 2: holds a NUL"):
        list(read_lines(path))


def test_damaged_files_are_refused_in_one_line(tmp_path):
    whole = gzip.compress(b"line\n" * 9999)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "no.xz").write_bytes(b"not xz at all")
    for name in ("cut.gz", "no.xz"):
        with pytest.raises(ValueError, match="damaged or not of the kind its name says") as error:
            list(read_lines(tmp_path / name))
        assert "\n" not in str(error.value)
    with pytest.raises(FileNotFoundError, match=re.escape("nothere.txt does not exist")):
        list(read_lines(tmp_path / "nothere.txt"))
    with pytest.raises(IsADirectoryError, match="is a folder, but a text file was expected"):
        list(read_lines(tmp_path))


@given(lengths=st.lists(st.integers(0, 20), max_size=30), budget=st.integers(1, 50))
def test_batches_hold_each_sentence_once_within_the_budget(lengths, budget):
    batches = length_sorted_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
