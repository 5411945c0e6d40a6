"""Tokenized text as numbers: every token a number, every distinct token once.

A *type* is a distinct token as it is written; a *word* is what the softmax knows. Types outside the
vocabulary are all `<UNK>` as targets, but are still read by their own characters as inputs.
"""

import dataclasses
import glob
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Integer

from elmo.config import MAX_CHARS
from elmo.text import (
    BEGIN_SENTENCE,
    END_SENTENCE,
    Errors,
    Vocabulary,
    char_ids,
    check_tokens,
    read_lines,
)

BEGIN_TYPE, END_TYPE = 0, 1
CHUNK_TYPES = 10_000


class Shard(NamedTuple):
    """A part of a corpus; the arrays may lie in files.

    Attributes:
        tokens: Type of every token, sentence after sentence, without boundaries.
        starts: Where each sentence starts in `tokens`, and at the end its length.
    """

    tokens: Int[np.ndarray, " tokens"]
    starts: Int[np.ndarray, " sentences_and_end"]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Tokenized sentences as numbers.

    Attributes:
        shards: The sentences, part after part; none is without tokens.
        types: Each distinct token; the first two are `<S>` and `</S>`.
        char_ids: Characters of each type, as the biLM reads it.
        vocabulary: The words that the softmax predicts.
        words: Word id of each type.
        checksum: Of the sentences, where they were prepared; None where it is not known.
    """

    shards: Sequence[Shard]
    types: Sequence[str]
    char_ids: Integer[np.ndarray, "types chars"]
    vocabulary: Vocabulary
    words: Int[np.ndarray, " types"]
    checksum: str | None = None

    @cached_property
    def _firsts(self) -> list[int]:
        """The number of the first sentence of each shard, and of all sentences."""
        return [0, *accumulate(len(shard.starts) - 1 for shard in self.shards)]

    @property
    def n_sentences(self) -> int:
        """Sentences, empty ones not counted: they are never read."""
        return self._firsts[-1]

    @cached_property
    def n_tokens(self) -> int:
        """Tokens of all sentences, without boundaries."""
        return sum(len(shard.tokens) for shard in self.shards)

    @cached_property
    def n_unknown(self) -> int:
        """Tokens outside the vocabulary."""
        unknown = self.words == self.vocabulary.unknown
        return sum(int(np.count_nonzero(unknown[shard.tokens])) for shard in self.shards)

    def sentence(self, i: int) -> Int[np.ndarray, " tokens"]:
        """Types of sentence `i` between `<S>` and `</S>`."""
        inner = self._tokens(i)
        around = np.empty(len(inner) + 2, dtype=np.int64)
        around[0], around[1:-1], around[-1] = BEGIN_TYPE, inner, END_TYPE
        return around

    def length(self, i: int) -> int:
        """Tokens of sentence `i`, without boundaries."""
        return len(self._tokens(i))

    def text(self, i: int) -> list[str]:
        """Tokens of sentence `i` as they are written."""
        return [self.types[t] for t in self._tokens(i).tolist()]

    def texts(self) -> Iterator[list[str]]:
        """All sentences as they are written."""
        return map(self.text, range(self.n_sentences))

    def counts(self) -> dict[str, int]:
        """How often each type occurs, boundaries left out."""
        counts = self._type_counts()
        return {self.types[t]: int(counts[t]) for t in np.flatnonzero(counts).tolist()}

    def frequency_order(self) -> Int[np.ndarray, " words"]:
        """All words by falling frequency in this text, `<S>`, `</S>` and `<UNK>` before all others.

        Words that are as frequent keep their order: of a vocabulary that was made of this text it
        is 0, 1, 2, …
        """
        vocabulary = self.vocabulary
        often = np.bincount(self.words, weights=self._type_counts(), minlength=len(vocabulary))
        often[[vocabulary.begin, vocabulary.end, vocabulary.unknown]] = np.inf
        return np.argsort(-often, kind="stable")

    def _type_counts(self) -> Int[np.ndarray, " types"]:
        counts = np.zeros(len(self.types), dtype=np.int64)
        for shard in self.shards:
            counts += np.bincount(shard.tokens, minlength=len(self.types))
        return counts

    def with_vocabulary(self, vocabulary: Vocabulary) -> "Corpus":
        """The same text, of which other words are predicted."""
        words = word_ids(vocabulary, self.types)
        return dataclasses.replace(self, vocabulary=vocabulary, words=words)

    def _tokens(self, i: int) -> np.ndarray:
        if not 0 <= i < self.n_sentences:
            raise IndexError(f"sentence {i} of {self.n_sentences:,}")
        k = bisect_right(self._firsts, i) - 1
        shard, at = self.shards[k], i - self._firsts[k]
        return shard.tokens[shard.starts[at] : shard.starts[at + 1]]


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
    max_chars: int = MAX_CHARS,
) -> Corpus:
    """Number the tokens of a corpus, in memory.

    Args:
        sentences: Tokenized sentences; read once, streaming. Those without tokens are left out.
        vocabulary: The words of the softmax; None builds them from the corpus.
        max_words: Size of a vocabulary that is built, specials included.
        min_count: Rarer words are not part of a vocabulary that is built.
        max_chars: Characters kept per type, begin and end of word included.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
        ValueError: If there is no sentence, or a token holds what no text has.
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
    starts = np.concatenate(([0], np.cumsum(np.array(lengths, dtype=np.int64))))
    return Corpus(
        [Shard(tokens, starts)],
        types,
        compact_char_ids(types, max_chars),
        vocabulary,
        word_ids(vocabulary, types),
    )


def word_ids(vocabulary: Vocabulary, types: Sequence[str]) -> Int[np.ndarray, " types"]:
    """Word id of each type."""
    return np.fromiter(map(vocabulary.id, types), dtype=np.int32, count=len(types))


def compact_char_ids(
    types: Sequence[str], max_chars: int = MAX_CHARS
) -> Integer[np.ndarray, "types chars"]:
    """Character ids in two bytes each."""
    table = np.empty((len(types), max_chars), dtype=np.uint16)
    for start in range(0, len(types), CHUNK_TYPES):
        some = types[start : start + CHUNK_TYPES]
        table[start : start + len(some)] = char_ids(some, max_chars)
    return table
