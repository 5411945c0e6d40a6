"""Text files → a corpus in memory: every token as a number, every distinct token once.

A *type* is a distinct token as it is written; a *word* is what the softmax knows. Types outside the
vocabulary are all `<UNK>` as targets, but are still read by their own characters as inputs.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from elmo.text import BEGIN_SENTENCE, END_SENTENCE, Errors, Vocabulary, check_tokens, read_lines

BEGIN_TYPE, END_TYPE = 0, 1


@dataclass(frozen=True)
class Corpus:
    """Tokenized sentences as numbers.

    Attributes:
        tokens: Type of every token, sentence after sentence, without boundaries.
        starts: Where each sentence starts in `tokens`, and at the end its length.
        types: Each distinct token; the first two are `<S>` and `</S>`.
        vocabulary: The words that the softmax predicts.
        words: Word id of each type.
    """

    tokens: Int[np.ndarray, " tokens"]
    starts: Int[np.ndarray, " sentences_and_end"]
    types: Sequence[str]
    vocabulary: Vocabulary
    words: Int[np.ndarray, " types"]

    @property
    def n_sentences(self) -> int:
        """Sentences, empty ones not counted: they are never read."""
        return len(self.starts) - 1

    def sentence(self, i: int) -> Int[np.ndarray, " tokens"]:
        """Types of sentence `i` between `<S>` and `</S>`."""
        inner = self.tokens[self.starts[i] : self.starts[i + 1]]
        return np.concatenate(([BEGIN_TYPE], inner, [END_TYPE]))


def find_files(patterns: Iterable[str]) -> list[Path]:
    """Files that match paths or shell patterns, each once, sorted within a pattern.

    A file that is called like a pattern is that file. Several names of one file count once.

    Raises:
        FileNotFoundError: If a pattern matches nothing.
    """
    files: dict[str, Path] = {}
    for pattern in patterns:
        found = (
            [pattern]
            if os.path.exists(pattern)
            else sorted(glob.glob(str(pattern), recursive=True))
        )
        if not found:
            raise FileNotFoundError(f"no file matches {pattern}")
        for name in found:
            files.setdefault(os.path.realpath(name), Path(name))
    return list(files.values())


def read_sentences(files: Iterable[Path], errors: Errors = "strict") -> Iterator[list[str]]:
    """Tokens of each line, split on white space; lines without any are left out."""
    for file in files:
        for line in read_lines(file, errors):
            if tokens := line.split():
                yield tokens


def build_corpus(
    sentences: Iterable[Sequence[str]],
    vocabulary: Vocabulary | None = None,
    *,
    max_words: int | None = None,
    min_count: int = 1,
) -> Corpus:
    """Number the tokens of a corpus.

    Args:
        sentences: Tokenized sentences; read once, streaming. Those without tokens are left out.
        vocabulary: The words of the softmax; None builds them from the corpus.
        max_words: Size of a vocabulary that is built, specials included.
        min_count: Rarer words are not part of a vocabulary that is built.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
        ValueError: If there is no sentence.
    """
    numbers = {BEGIN_SENTENCE: BEGIN_TYPE, END_SENTENCE: END_TYPE}
    parts, lengths, chunk = [], [], []
    for i, sentence in enumerate(sentences):
        check_tokens(sentence, i)
        if not sentence:
            continue
        lengths.append(len(sentence))
        chunk.extend([numbers.setdefault(token, len(numbers)) for token in sentence])
        if len(chunk) > 1_000_000:
            parts.append(np.array(chunk, dtype=np.int32))
            chunk = []
    if not lengths:
        raise ValueError("the corpus has no sentence: give files with a sentence on each line")
    tokens = np.concatenate([*parts, np.array(chunk, dtype=np.int32)])
    types = list(numbers)
    if vocabulary is None:
        counts = np.bincount(tokens, minlength=len(types)).tolist()
        vocabulary = Vocabulary.from_counts(
            dict(zip(types, counts, strict=True)), max_words=max_words, min_count=min_count
        )
    words = np.fromiter(map(vocabulary.id, types), dtype=np.int64, count=len(types))
    starts = np.concatenate(([0], np.cumsum(np.array(lengths, dtype=np.int64))))
    return Corpus(tokens, starts, types, vocabulary, words)
