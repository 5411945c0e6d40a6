"""Held-out perplexity of each direction, by the full softmax.

exp of the mean of −log p(token | what was read before) over all tokens, `</S>` (for the backward
model `<S>`) included. Words outside the vocabulary count as `<UNK>`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.outputs import check_reading, check_vocabulary, grouped, read_group
from elmo.reader import Reader
from elmo.text import Vocabulary

CACHE_TOKENS = 50_000
"""Tokens whose vectors are remembered while a text is read."""


@dataclass(frozen=True)
class Perplexity:
    """Perplexities of a text.

    Attributes:
        forward_lm: Of the model that reads from left to right.
        backward_lm: Of the model that reads from right to left.
        n_tokens: Predictions per direction: tokens, and one sentence end each.
        n_sentences: Sentences with at least one token.
        n_unknown: Tokens outside the vocabulary.
    """

    forward_lm: float
    backward_lm: float
    n_tokens: int
    n_sentences: int
    n_unknown: int

    @property
    def average(self) -> float:
        """Exp of the mean of both directions' losses: what bilm-tf reports."""
        return math.sqrt(self.forward_lm * self.backward_lm)


@dataclass(frozen=True)
class PerplexitySums:
    """What the perplexity of a text is made of; sums of its parts, added, are those of the whole.

    Attributes:
        forward_lm: −log p of all predictions of the forward model, in nats.
        backward_lm: Likewise of the backward model.
        n_tokens: Predictions per direction: tokens, and one sentence end each.
        n_sentences: Sentences with at least one token.
        n_unknown: Tokens outside the vocabulary.
    """

    forward_lm: float = 0.0
    backward_lm: float = 0.0
    n_tokens: int = 0
    n_sentences: int = 0
    n_unknown: int = 0

    def __add__(self, other: "PerplexitySums") -> "PerplexitySums":
        return PerplexitySums(
            self.forward_lm + other.forward_lm,
            self.backward_lm + other.backward_lm,
            self.n_tokens + other.n_tokens,
            self.n_sentences + other.n_sentences,
            self.n_unknown + other.n_unknown,
        )

    def result(self) -> Perplexity:
        """The perplexity of all that was added.

        Raises:
            ValueError: If there was no token.
        """
        if not self.n_tokens:
            raise ValueError("there is no token to predict: give text with a sentence on each line")
        return Perplexity(
            perplexity_of(self.forward_lm / self.n_tokens),
            perplexity_of(self.backward_lm / self.n_tokens),
            self.n_tokens,
            self.n_sentences,
            self.n_unknown,
        )


def perplexity(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Iterable[Sequence[str]],
    *,
    state: str = "zero",
    batch_tokens: int = 4096,
    progress: Callable[[int], object] | None = None,
) -> Perplexity:
    """Perplexity of each direction on tokenized sentences.

    Args:
        model: The model; nothing is dropped out.
        vocabulary: The words of its softmax.
        sentences: Tokenized; those without tokens are left out.
        state: `zero` reads every sentence on its own; `carry` reads them as one stream, the LSTM
            state carried on, as bilm-tf evaluates (batch of 1).
        batch_tokens: Tokens per forward pass, padding included.
        progress: Called with the number of sentences done since the last call.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
        ValueError: If there is no token, the state is another word, or the vocabulary is not that
            of the softmax.
    """
    return perplexity_sums(
        model, vocabulary, sentences, state=state, batch_tokens=batch_tokens, progress=progress
    ).result()


@torch.inference_mode()
def perplexity_sums(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Iterable[Sequence[str]],
    *,
    state: str = "zero",
    batch_tokens: int = 4096,
    progress: Callable[[int], object] | None = None,
    reader: Reader | None = None,
) -> PerplexitySums:
    """As `perplexity`, as sums, for texts that are read in parts or by several processes.

    Args:
        model: As for `perplexity`, like those that follow. Text without tokens gives zeros.
        reader: Of the model's biLM, where there is one that remembers its tokens.
    """
    check_reading(state, batch_tokens)
    check_vocabulary(vocabulary, model.softmax.n_words)
    reader = reader or Reader(model.bilm, CACHE_TOKENS)
    sums, carried = PerplexitySums(), None
    for group in grouped(sentences, state):
        for outputs in read_group(reader, vocabulary, group, carried, batch_tokens=batch_tokens):
            carried = outputs.state if state == "carry" else None
            forward_loss, backward_loss = (
                model.softmax.full_loss(hidden, words).double().sum().item()
                for hidden, words in (
                    (outputs.forward_lm, outputs.forward_words),
                    (outputs.backward_lm, outputs.backward_words),
                )
            )
            tokens = [token for i in outputs.numbers for token in group[i]]
            n_sentences = len(outputs.numbers)
            sums += PerplexitySums(
                forward_loss,
                backward_loss,
                len(tokens) + n_sentences,
                n_sentences,
                sum(token not in vocabulary for token in tokens),
            )
            if progress is not None:
                progress(n_sentences)
    return sums


def perplexity_of(loss: float) -> float:
    """Exp of a mean −log p in nats; infinite where that is too large for a number."""
    return math.inf if loss > 700 else math.exp(loss)
