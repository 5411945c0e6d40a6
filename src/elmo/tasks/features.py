"""Tokenized sentences as a task model reads them: words, characters, and layers of encoders.

Axes: batch, tokens, types (distinct tokens of a batch), chars, layers, dim.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo.text import Vocabulary, char_ids

LayersOf = Callable[[Sequence[Sequence[str]]], Sequence[Float[np.ndarray, "layers tokens dim"]]]
"""The layers of each sentence, from an encoder or from what was kept of it."""

MAX_CHARS = 32
"""Characters of a token that the character CNN of a task model reads, begin and end included."""


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences side by side, padded to the longest.

    Attributes:
        tokens: The sentences.
        mask: True where a token is.
        word_ids: In the model's vocabulary; 0 in padding.
        type_ids: Which of the batch's distinct tokens each is; 0 in padding.
        char_ids: Of each distinct token.
        encoded: Layers of vectors, of one encoder each; zero in padding. Empty where encoders are
            none, or learn.
    """

    tokens: Sequence[Sequence[str]]
    mask: Bool[Tensor, "batch tokens"]
    word_ids: Int[Tensor, "batch tokens"]
    type_ids: Int[Tensor, "batch tokens"]
    char_ids: Int[Tensor, "types chars"]
    encoded: tuple[Float[Tensor, "_ batch tokens _"], ...]

    @property
    def lengths(self) -> Int[Tensor, " batch"]:
        """Tokens of each sentence."""
        return self.mask.sum(dim=1)

    def to(self, device: torch.device | str) -> "SentenceBatch":
        """The same on a device."""
        return SentenceBatch(
            self.tokens,
            self.mask.to(device),
            self.word_ids.to(device),
            self.type_ids.to(device),
            self.char_ids.to(device),
            tuple(layers.to(device) for layers in self.encoded),
        )

    def cut(self, parts: Sequence[tuple[int, int, int]]) -> "SentenceBatch":
        """Parts of sentences side by side: the row, the first token and that after the last."""
        n_tokens = max(end - start for _, start, end in parts)

        def cut_out(values: Tensor, axis: int) -> Tensor:
            """Of values with rows at `axis` and tokens after it."""
            shape = list(values.shape)
            shape[axis : axis + 2] = [len(parts), n_tokens]
            result = values.new_zeros(shape)
            for i, (row, start, end) in enumerate(parts):
                piece = values.select(axis, row).narrow(axis, start, end - start)
                result.select(axis, i).narrow(axis, 0, end - start).copy_(piece)
            return result

        return SentenceBatch(
            [self.tokens[row][start:end] for row, start, end in parts],
            cut_out(self.mask, 0),
            cut_out(self.word_ids, 0),
            cut_out(self.type_ids, 0),
            self.char_ids,
            tuple(cut_out(layers, 1) for layers in self.encoded),
        )


class Features:
    """Makes batches of sentences.

    Args:
        vocabulary: Words that have a vector of their own.
        encoders: Where layers come from, one source per frozen encoder.
        lowercase: Whether words are looked up without their case.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoders: Sequence[LayersOf] = (),
        *,
        lowercase: bool = False,
    ) -> None:
        self.vocabulary, self.encoders, self.lowercase = vocabulary, tuple(encoders), lowercase

    def batch(self, sentences: Sequence[Sequence[str]]) -> SentenceBatch:
        """Sentences side by side.

        Raises:
            ValueError: If one has no token.
        """
        for i, sentence in enumerate(sentences):
            if not sentence:
                raise ValueError(f"sentence {i} of a batch has no token")
        n_tokens = max(map(len, sentences))
        shape = (len(sentences), n_tokens)
        types = {token: i for i, token in enumerate(dict.fromkeys(chain(*sentences)))}
        mask, words, numbers = np.zeros(shape, bool), np.zeros(shape, int), np.zeros(shape, int)
        for i, sentence in enumerate(sentences):
            n = len(sentence)
            mask[i, :n] = True
            words[i, :n] = [self.word_id(token) for token in sentence]
            numbers[i, :n] = [types[token] for token in sentence]
        return SentenceBatch(
            sentences,
            torch.from_numpy(mask),
            torch.from_numpy(words),
            torch.from_numpy(numbers),
            torch.from_numpy(char_ids(list(types), MAX_CHARS).astype(np.int64)),
            tuple(padded(of(sentences), n_tokens) for of in self.encoders),
        )

    def word_id(self, token: str) -> int:
        """Number of a token's word."""
        return self.vocabulary.id(token.lower() if self.lowercase else token)


def padded(
    layers: Sequence[Float[np.ndarray, "layers _ dim"]], n_tokens: int
) -> Float[Tensor, "layers batch tokens dim"]:
    """Layers of sentences side by side, zero where a sentence has ended."""
    n_layers, _, dim = layers[0].shape
    batch = np.zeros((n_layers, len(layers), n_tokens, dim), dtype=np.float32)
    for i, of_sentence in enumerate(layers):
        batch[:, i, : of_sentence.shape[1]] = of_sentence
    return torch.from_numpy(batch)


def words_of(
    sentences: Iterable[Sequence[str]],
    *,
    min_count: int,
    lowercase: bool,
) -> Vocabulary:
    """The words of training text that get a vector of their own, by falling frequency.

    One with a newline in it or white space around it has none: a vocabulary file cannot hold it.

    Args:
        sentences: The text.
        min_count: Rarer words are left out.
        lowercase: Whether words that differ only in case are one.
    """
    counts: dict[str, int] = {}
    for sentence in sentences:
        for token in sentence:
            word = token.lower() if lowercase else token
            if "\n" in word or word != word.strip():
                continue
            counts[word] = counts.get(word, 0) + 1
    return Vocabulary.from_counts(counts, min_count=min_count)
