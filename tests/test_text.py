import functools
import gzip
import lzma
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmo.text import (
    BEGIN_WORD_CHAR,
    COMPRESSED,
    END_WORD_CHAR,
    PADDING_CHAR,
    SPECIALS,
    Tokenizer,
    Vocabulary,
    batch_char_ids,
    char_ids,
    count_lines,
    length_sorted_batches,
    open_text,
    read_lines,
)

characters = st.characters(exclude_characters="\0", codec="utf-8")
# Anything, and often what is hard to split: spaces of many kinds, clitics, marks, joined emoji.
TRICKY = [
    *" \t\n\r\u00a0\u2028\u3000\u200b\u200d.,'’\"-—…()$%/:@#é日🙂\u0301",
    "n't", "U.S.", "'s", ":)", "http://a.b", "3.5", "👩\u200d💻", "\u202f",
]  # fmt: skip
texts = st.text(characters, max_size=30) | st.lists(
    st.sampled_from(TRICKY) | characters, max_size=15
).map("".join)
tokenizer_of = functools.cache(Tokenizer)


def bytes_of(ids):
    """What stands between begin and end of word."""
    ids = ids.tolist()
    assert ids[0] == BEGIN_WORD_CHAR
    end = ids.index(END_WORD_CHAR)
    assert set(ids[end + 1 :]) <= {PADDING_CHAR}
    return bytes(i - 1 for i in ids[1:end])


def test_a_token_is_its_bytes_between_begin_and_end_each_one_more_than_the_byte():
    ids = char_ids(["é"])[0]
    assert ids[:4].tolist() == [BEGIN_WORD_CHAR, 0xC3 + 1, 0xA9 + 1, END_WORD_CHAR]
    assert (ids[4:] == PADDING_CHAR).all() and len(ids) == 50
    assert (BEGIN_WORD_CHAR, END_WORD_CHAR, PADDING_CHAR) == (259, 260, 261)


@given(tokens=st.lists(st.text(characters, max_size=60), max_size=4), max_chars=st.integers(3, 50))
def test_bytes_can_be_read_back_and_overlong_tokens_are_cut(tokens, max_chars):
    assume(not set(tokens) & set(SPECIALS))
    ids = char_ids(tokens, max_chars)
    assert ids.shape == (len(tokens), max_chars)
    assert [bytes_of(row) for row in ids] == [token.encode()[: max_chars - 2] for token in tokens]


@pytest.mark.parametrize("n", [47, 48, 49, 10_000])
def test_at_most_48_bytes_of_a_token_are_kept(n):
    assert bytes_of(char_ids(["x" * n])[0]) == b"x" * min(n, 48)


def test_a_character_may_be_cut_within():
    cut = bytes_of(char_ids(["x" * 46 + "日本"])[0])
    assert cut == b"x" * 46 + "日".encode()[:2]
    np.testing.assert_array_equal(char_ids(["ü" * 10_000]), char_ids(["ü" * 24]))


def test_boundaries_have_ids_of_their_own():
    begin, end = char_ids(["<S>", "</S>"])
    assert begin[:3].tolist() == [259, 257, 260] and end[:3].tolist() == [259, 258, 260]
    assert (begin[3:] == PADDING_CHAR).all() and (end[3:] == PADDING_CHAR).all()
    assert bytes_of(char_ids(["<UNK>"])[0]) == b"<UNK>"


def test_a_batch_is_framed_and_padded_with_zeros():
    ids = batch_char_ids([["a", "bc"], [], ["d"]])
    assert ids.shape == (3, 4, 50) and ids.dtype == np.int64
    np.testing.assert_array_equal(ids[0], char_ids(["<S>", "a", "bc", "</S>"]))
    np.testing.assert_array_equal(ids[1, :2], char_ids(["<S>", "</S>"]))
    assert not ids[1, 2:].any() and not ids[2, 3:].any()
    bare = batch_char_ids([["a", "bc"], []], boundaries=False)
    assert bare.shape == (2, 2, 50) and not bare[1].any()
    np.testing.assert_array_equal(bare[0], char_ids(["a", "bc"]))
    assert batch_char_ids([]).shape == (0, 2, 50)


def test_a_string_instead_of_tokens_says_how_to_split_it():
    with pytest.raises(TypeError, match=re.escape("pass sentences[1].split()")):
        batch_char_ids([["fine"], "not tokenized"])


@pytest.mark.parametrize(
    ("token", "said", "replaced"),
    [
        ("a\ud800b", "lone surrogate", "a\ufffdb"),
        ("\udc80", "lone surrogate", "\ufffd"),
        ("\ud800\ud800", "lone surrogate", "\ufffd\ufffd"),
        ("\ud83d\ude42", "lone surrogate", "🙂"),  # two halves that belong together
        ("a\0b", "NUL", "a\ufffdb"),
    ],
)
def test_what_no_text_has_is_refused_or_replaced(token, said, replaced):
    with pytest.raises(ValueError, match=said) as error:
        char_ids(["fine", token])
    assert 'errors="replace"' in str(error.value) and "\n" not in str(error.value)
    np.testing.assert_array_equal(char_ids([token], errors="replace"), char_ids([replaced]))


@pytest.mark.parametrize("errors", ["ignore", "", "Strict"])
def test_an_unknown_choice_for_what_no_text_has_is_refused(errors):
    said = re.escape(f"errors is {errors!r}, but expected one of strict, replace")
    for refuse in (
        lambda: char_ids(["a"], errors=errors),
        lambda: batch_char_ids([], errors=errors),
    ):
        with pytest.raises(ValueError, match=said):
            refuse()


@given(token=st.text(characters, max_size=20))
def test_replacing_leaves_good_tokens_alone(token):
    np.testing.assert_array_equal(char_ids([token], errors="replace"), char_ids([token]))


@pytest.mark.parametrize("language", ["en", "de", "xx", "whitespace"])
@settings(max_examples=100)
@given(text=texts)
def test_offsets_point_at_tokens_and_nothing_but_white_space_is_lost(language, text):
    tokenizer = tokenizer_of(language)
    tokens = tokenizer(text)
    end_before = 0
    for token, start, end in tokens:
        assert text[start:end] == token
        assert token and not any(map(str.isspace, token))
        assert not text[end_before:start].strip()
        end_before = end
    assert not text[end_before:].strip()
    if language == "whitespace":
        assert [token for token, *_ in tokens] == text.split()
    assert tokenizer(text) == tokens


def test_english_clitics_and_punctuation_are_split_off():
    assert [t.text for t in tokenizer_of("en")("Don't sit, Peter's bank!")] == [
        "Do", "n't", "sit", ",", "Peter", "'s", "bank", "!"
    ]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "whitespace"])
def test_text_without_tokens_has_none(language):
    for text in ("", " ", "\n\t \u00a0"):
        assert tokenizer_of(language)(text) == []


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "He left.  Don't!\nWhy?", [["He", "left", "."], ["Do", "n't", "!"], ["Why", "?"]]),
        ("whitespace", "he left . why", [["he", "left", "."], ["why"]]),
        ("en", " \n ", []),
        ("whitespace", "", []),
    ],
)
def test_running_text_is_split_into_sentences(language, text, sentences):
    assert Tokenizer(language).sentences(text) == sentences


def test_a_tokenizer_remembers_words_and_forgets_them_before_they_are_too_many(monkeypatch):
    monkeypatch.setattr("elmo.text.MAX_REMEMBERED", 1000)
    tokenizer = Tokenizer("en")
    n_at_first = len(tokenizer._nlp.vocab)
    n_remembered = []
    for k in range(100):
        text = f"Don't say word{k}a, word{k}b or (word{k}c)."
        assert tokenizer(text) == tokenizer_of("en")(text)
        n_remembered.append(len(tokenizer._nlp.vocab) - n_at_first)
    assert 10 < max(n_remembered) < 300


def test_a_lone_surrogate_in_raw_text_is_refused_in_words():
    with pytest.raises(ValueError, match="lone surrogate"):
        tokenizer_of("en")("a\ud800b")


def test_an_unknown_language_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match='no tokenizer for language "english"') as error:
        Tokenizer("english")
    assert "\n" not in str(error.value)


def test_a_vocabulary_goes_by_frequency_and_survives_the_file(tmp_path):
    counts = {"b": 2, "a": 2, "c": 5, "rare": 1, "<S>": 9}
    vocabulary = Vocabulary.from_counts(counts, min_count=2)
    assert vocabulary.words == ["<S>", "</S>", "<UNK>", "c", "a", "b"]
    assert vocabulary.id("c") == 3 and vocabulary.id("rare") == vocabulary.unknown == 2
    assert "c" in vocabulary and "rare" not in vocabulary
    vocabulary.write(tmp_path / "v.txt")
    assert Vocabulary.read(tmp_path / "v.txt").words == vocabulary.words
    assert [path.name for path in tmp_path.iterdir()] == ["v.txt"]
    assert len(Vocabulary.from_counts(counts, max_words=4)) == 4
    with pytest.raises(ValueError, match="max_words is 3, but the specials alone are 3"):
        Vocabulary.from_counts(counts, max_words=3)


@given(words=st.lists(st.text(characters, min_size=1).filter(lambda w: w.split() == [w])))
def test_any_words_survive_the_file(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("vocabulary") / "v.txt"
    vocabulary = Vocabulary([*SPECIALS, *words])
    vocabulary.write(path)
    # A byte order mark that begins the first word would be taken for one; specials come first.
    assert Vocabulary.read(path).words == vocabulary.words


@given(words=st.lists(st.text(max_size=4) | st.sampled_from(["\ufeffa", "!!!MAXTERMID", " a"])))
def test_what_a_vocabulary_file_cannot_hold_is_refused_and_all_else_survives_it(
    tmp_path_factory, words
):
    folder = tmp_path_factory.mktemp("vocabulary")
    vocabulary = Vocabulary([*words, *SPECIALS])
    try:
        vocabulary.write(folder / "v.txt")
    except ValueError as error:
        assert re.match(r"word \d+ of the vocabulary ", str(error)) and "\n" not in str(error)
        assert list(folder.iterdir()) == []
    else:
        assert Vocabulary.read(folder / "v.txt").words == vocabulary.words


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "a\nb",
            "word 3 of the vocabulary is 'a\\nb', which a file with a word on each line cannot",
        ),
        (" ", "leave out newlines, and white space around words"),
        ("a\u00a0", "leave out newlines, and white space around words"),
        ("!!!MAXTERMID", "readers pass over it"),
        ("a\ud800", "word 3 of the vocabulary holds a lone surrogate"),
        ("a\0", "word 3 of the vocabulary holds a NUL"),
    ],
)
def test_a_word_that_cannot_be_read_back_is_named_and_nothing_written(tmp_path, word, said):
    (tmp_path / "v.txt").write_text("an older one\n")
    with pytest.raises(ValueError, match=re.escape(said)):
        Vocabulary([*SPECIALS, word]).write(tmp_path / "v.txt")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["an older one\n"]


def test_a_marker_of_the_originals_is_never_learned_as_a_word():
    assert Vocabulary.from_counts({"!!!MAXTERMID": 9, "a": 1}).words == [*SPECIALS, "a"]


def test_a_failed_write_of_a_vocabulary_leaves_nothing_beside(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        Vocabulary(SPECIALS).write(tmp_path / "v.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_vocabulary_is_compressed_where_its_name_says_so(tmp_path, suffix):
    if suffix == ".zst":
        pytest.importorskip("pyarrow")
    vocabulary = Vocabulary([*SPECIALS, "naïve"])
    vocabulary.write(tmp_path / f"v.txt{suffix}")
    assert Vocabulary.read(tmp_path / f"v.txt{suffix}").words == vocabulary.words


def test_a_vocabulary_file_is_read_as_the_original_reads_it(tmp_path):
    lines = ["!!!MAXTERMID", "</S>", "<UNK>  ", "<S>", "naïve"]
    (tmp_path / "v.txt").write_text("\n".join(lines), encoding="utf-8")
    vocabulary = Vocabulary.read(tmp_path / "v.txt")
    assert vocabulary.words == ["</S>", "<UNK>", "<S>", "naïve"]
    assert (vocabulary.begin, vocabulary.end, vocabulary.unknown) == (2, 0, 1)


def test_a_vocabulary_without_specials_is_refused(tmp_path):
    (tmp_path / "v.txt").write_text("<S>\na\n")
    with pytest.raises(ValueError, match=re.escape("v.txt: the vocabulary has no </S>, <UNK>")):
        Vocabulary.read(tmp_path / "v.txt")


def test_a_damaged_vocabulary_file_is_named(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"<S>\n</S>\n<UNK>\nb\xe4d\n")
    whole = gzip.compress("\n".join([*SPECIALS, *map(str, range(9999))]).encode())
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    for name in ("v.txt", "cut.gz"):
        with pytest.raises(ValueError, match=re.escape(name)) as error:
            Vocabulary.read(tmp_path / name)
        assert "\n" not in str(error.value)
    with pytest.raises(FileNotFoundError, match=re.escape("none.txt does not exist")):
        Vocabulary.read(tmp_path / "none.txt")


WAYS = {".txt": open, **COMPRESSED}


def write(path, content):
    with WAYS[path.suffix](path, "wb") as file:
        file.write(content)
    return path


@pytest.mark.parametrize("suffix", WAYS)
def test_lines_end_at_newlines_only_and_lose_byte_order_marks(tmp_path, suffix):
    content = "\ufeffone\u2028still one\r\n\ntwo\x0cstill\rtwo\x85\nno end".encode()
    wanted = ["one\u2028still one", "", "two\x0cstill\rtwo\x85", "no end"]
    path = write(tmp_path / f"a{suffix}", content)
    assert list(read_lines(path)) == list(read_lines(str(path), "replace")) == wanted
    with open_text(path) as file:
        assert [line.rstrip("\r\n") for line in file] == wanted
    assert count_lines(path) == (4 if suffix == ".txt" else None)


@given(lines=st.lists(st.text(characters).filter(lambda s: "\n" not in s and s[-1:] != "\r")))
def test_any_lines_survive_the_file_and_are_counted(tmp_path_factory, lines):
    assume(not (lines and lines[0].startswith("\ufeff")))
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


def test_an_empty_file_has_no_lines(tmp_path):
    for suffix in WAYS:
        assert list(read_lines(write(tmp_path / f"a{suffix}", b""))) == []
    assert count_lines(tmp_path / "a.txt") == 0


@pytest.mark.parametrize("suffix", WAYS)
def test_invalid_utf8_names_its_line_or_is_replaced(tmp_path, suffix):
    path = write(tmp_path / f"a{suffix}", b"fine\n\nb\xe4d\nx\0y\n")
    with pytest.raises(ValueError, match=rf"a\{suffix}, line 3: is not valid UTF-8") as error:
        list(read_lines(path))
    assert "\n" not in str(error.value)
    assert list(read_lines(path, "replace")) == ["fine", "", "b\ufffdd", "x\ufffdy"]
    path = write(path, b"fine\nx\0y\n")
    with pytest.raises(ValueError, match="line 2: holds a NUL"):
        list(read_lines(path))
    path = write(path, b"a surrogate \xed\xa0\x80\n")
    with pytest.raises(ValueError, match="line 1: is not valid UTF-8"):
        list(read_lines(path))


def test_lines_before_a_bad_one_are_given(tmp_path):
    lines = read_lines(write(tmp_path / "a.txt", b"one\ntwo\n\xff\n"))
    assert [next(lines), next(lines)] == ["one", "two"]


def test_text_of_another_encoding_is_refused(tmp_path):
    for encoding in ("utf-16", "latin-1"):
        path = write(tmp_path / "a.txt", "Straße\n".encode(encoding))
        with pytest.raises(ValueError, match="line 1: "):
            list(read_lines(path))


def test_damaged_files_are_refused_in_one_line(tmp_path):
    text = "".join(f"line {i}\n" for i in range(9999)).encode()
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        whole = compress(text)
        (tmp_path / f"cut{suffix}").write_bytes(whole[: len(whole) // 2])
        (tmp_path / f"not{suffix}").write_bytes(b"not compressed at all")
        for name in (f"cut{suffix}", f"not{suffix}"):
            said = f"{name}: damaged or not of the kind its name says"
            with pytest.raises(ValueError, match=re.escape(said)) as error:
                list(read_lines(tmp_path / name))
            assert "\n" not in str(error.value)


def test_what_is_no_file_or_no_choice_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("nothere.txt does not exist")):
        list(read_lines(tmp_path / "nothere.txt"))
    with pytest.raises(IsADirectoryError, match="is a folder, but a text file was expected"):
        list(read_lines(tmp_path))
    with pytest.raises(ValueError, match="errors is 'ignore', but expected"):
        list(read_lines(write(tmp_path / "a.txt", b"a\n"), "ignore"))


@given(lengths=st.lists(st.integers(0, 20), max_size=30), budget=st.integers(1, 50))
def test_batches_hold_each_sentence_once_within_the_budget(lengths, budget):
    batches = length_sorted_batches(lengths, budget)
    in_order = [i for batch in batches for i in batch]
    # Longest first, equal lengths in input order.
    assert in_order == sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    for batch in batches:
        assert len(batch) == 1 or lengths[batch[0]] * len(batch) <= budget
    for batch in batches[:-1]:  # none but the last is smaller than it has to be
        assert max(lengths[batch[0]], 1) * (len(batch) + 1) > budget


def test_a_batch_of_no_tokens_is_refused():
    with pytest.raises(ValueError, match="batch_tokens is 0"):
        length_sorted_batches([1], 0)
