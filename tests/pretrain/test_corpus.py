import re

import pytest

from elmo import Vocabulary
from elmo.pretrain.corpus import build_corpus, find_files, read_sentences


def test_tokens_are_numbered_types_and_types_are_words():
    corpus = build_corpus([["a", "b", "a"], ["c"]], Vocabulary(["<S>", "</S>", "<UNK>", "a", "c"]))
    assert corpus.types == ["<S>", "</S>", "a", "b", "c"]
    assert corpus.tokens.tolist() == [2, 3, 2, 4]
    assert corpus.words.tolist() == [0, 1, 3, 2, 4]  # b is unknown
    assert corpus.sentence(0).tolist() == [0, 2, 3, 2, 1]
    assert corpus.n_sentences == 2


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
