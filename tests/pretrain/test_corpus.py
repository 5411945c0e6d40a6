import gzip
import lzma
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo import Vocabulary
from elmo.pretrain.corpus import Corpus, Shard, build_corpus, find_files, read_sentences
from elmo.text import char_ids


def test_tokens_are_numbered_types_and_types_are_words():
    corpus = build_corpus([["a", "b", "a"], ["c"]], Vocabulary(["<S>", "</S>", "<UNK>", "a", "c"]))
    assert corpus.types == ["<S>", "</S>", "a", "b", "c"]
    (shard,) = corpus.shards
    assert shard.tokens.tolist() == [2, 3, 2, 4]
    assert corpus.words.tolist() == [0, 1, 3, 2, 4]  # b is unknown
    assert corpus.sentence(0).tolist() == [0, 2, 3, 2, 1]
    assert [corpus.length(i) for i in range(2)] == [3, 1]
    assert list(corpus.texts()) == [["a", "b", "a"], ["c"]]
    assert (corpus.n_sentences, corpus.n_tokens, corpus.n_unknown) == (2, 4, 1)
    np.testing.assert_array_equal(corpus.char_ids, char_ids(corpus.types))
    assert corpus.char_ids.dtype == np.uint16
    for i in (-1, 2):
        with pytest.raises(IndexError, match=f"sentence {i} of 2"):
            corpus.sentence(i)


@given(
    sentences=st.lists(st.lists(st.sampled_from("abcdef"), min_size=1), min_size=1),
    max_words=st.none() | st.integers(4, 7),
    shuffled=st.permutations(["<S>", "</S>", "<UNK>", *"fedcbag"]),
)
def test_words_are_put_in_the_order_of_their_frequency_where_they_are_not(
    sentences, max_words, shuffled
):
    corpus = build_corpus(sentences, max_words=max_words)
    assert corpus.frequency_order().tolist() == list(range(len(corpus.vocabulary)))
    other = corpus.with_vocabulary(Vocabulary(shuffled))
    order, counts = other.frequency_order().tolist(), corpus.counts()
    words = [shuffled[i] for i in order]
    assert set(words[:3]) == {"<S>", "</S>", "<UNK>"} and len(set(words)) == len(shuffled)
    often = [counts.get(word, 0) for word in words[3:]]
    assert often == sorted(often, reverse=True)


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=9), data=st.data())
def test_sentences_are_the_same_however_they_are_cut_into_shards(lengths, data):
    sentences = [[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)]
    whole = build_corpus(sentences)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(lengths)), max_size=3)))
    (shard,) = whole.shards
    shards = [  # some without a sentence
        Shard(
            shard.tokens[shard.starts[a] : shard.starts[b]],
            shard.starts[a : b + 1] - shard.starts[a],
        )
        for a, b in zip([0, *cuts], [*cuts, len(lengths)], strict=True)
    ]
    cut = Corpus(shards, whole.types, whole.char_ids, whole.vocabulary, whole.words)
    assert list(cut.texts()) == sentences == list(whole.texts())
    assert (cut.n_sentences, cut.n_tokens) == (len(sentences), sum(lengths))
    for i in range(len(sentences)):
        np.testing.assert_array_equal(cut.sentence(i), whole.sentence(i))
        assert cut.length(i) == lengths[i]


def test_a_vocabulary_is_built_from_the_corpus():
    corpus = build_corpus([["a", "b", "a"], ["c", "b"]], max_words=5, min_count=2)
    assert corpus.vocabulary.words == ["<S>", "</S>", "<UNK>", "a", "b"]


def test_a_corpus_without_sentences_is_refused():
    with pytest.raises(ValueError, match="the corpus has no sentence"):
        build_corpus([])


def test_files_are_found_once_and_sorted(tmp_path):
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text("one two\n\nthree\n")
    pattern = str(tmp_path / "*.txt")
    files = find_files([pattern, str(tmp_path / "a.txt")])
    assert [path.name for path in files] == ["a.txt", "b.txt"]
    assert list(read_sentences(files)) == [["one", "two"], ["three"]] * 2
    with pytest.raises(FileNotFoundError, match=re.escape("no file matches nothing*.gz")):
        find_files(["nothing*.gz"])


def test_a_corpus_longer_than_its_chunks_keeps_its_order():
    # 1,100,000 tokens: more than are numbered at a time.
    numbers = [["x", str(i), "y"][: 1 + i % 3] for i in range(1000)] * 550
    corpus = build_corpus(iter(numbers), Vocabulary(["<S>", "</S>", "<UNK>", "x"]))
    once = build_corpus(numbers[:1000], corpus.vocabulary)
    assert corpus.types == once.types
    assert corpus.n_tokens == 550 * once.n_tokens > 1_000_000
    (many,), (few,) = corpus.shards, once.shards
    np.testing.assert_array_equal(many.tokens, np.tile(few.tokens, 550))
    np.testing.assert_array_equal(np.diff(many.starts), np.tile(np.diff(few.starts), 550))


def test_packed_files_are_read_as_plain_ones(tmp_path):
    text = "The café\n\n  \n\tis open .\n"
    (tmp_path / "a.txt").write_text(text)
    for suffix, pack in ((".gz", gzip.open), (".xz", lzma.open)):
        with pack(tmp_path / f"a.txt{suffix}", "wt", encoding="utf-8") as file:
            file.write(text)
    for name in ("a.txt", "a.txt.gz", "a.txt.xz"):
        assert list(read_sentences([tmp_path / name])) == [["The", "café"], ["is", "open", "."]]


def test_text_that_is_no_utf8_names_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: is not valid UTF-8"):
        list(read_sentences([tmp_path / "a.txt"]))
    first, second = read_sentences([tmp_path / "a.txt"], errors="replace")
    assert first == ["fine"] and set("".join(second)) == {"\ufffd"}


def test_sentences_without_tokens_are_left_out():
    corpus = build_corpus([["a"], [], ["b", "c"]])
    assert corpus.n_sentences == 2 and corpus.shards[0].starts.tolist() == [0, 1, 3]
    with pytest.raises(ValueError, match="the corpus has no sentence"):
        build_corpus([[], []])


def test_a_string_instead_of_tokens_is_no_sentence_of_letters():
    with pytest.raises(TypeError, match=re.escape("pass sentences[1].split()")):
        build_corpus([["a"], "the cat"])


def test_a_file_called_like_a_pattern_is_that_file_and_one_of_two_names_counts_once(tmp_path):
    for name in ("a[1].txt", "a1.txt"):
        (tmp_path / name).write_text("a\n")
    assert find_files([str(tmp_path / "a[1].txt")]) == [tmp_path / "a[1].txt"]
    (tmp_path / "link.txt").symlink_to(tmp_path / "a1.txt")
    (tmp_path / "folder").mkdir()
    names = ["a1.txt", "link.txt", "folder/../a1.txt"]
    assert find_files([str(tmp_path / name) for name in names]) == [tmp_path / "a1.txt"]
