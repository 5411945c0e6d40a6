"""Held-out perplexity of each direction, by the full softmax.

exp of the mean of −log p(token | what was read before) over all tokens, `</S>` (for the backward
model `<S>`) included. Words outside the vocabulary count as `<UNK>`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from elmo.model.bilm import BiLMState
from elmo.model.softmax_adaptive import AnySoftmax
from elmo.pretrain.language_model import LanguageModel
from elmo.reader import Reader
from elmo.text import Vocabulary, check_tokens, length_sorted_batches

STATES = ("zero", "carry")
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
    if state not in STATES:
        raise ValueError(f"state is {state!r}, but expected one of {STATES}")
    if len(vocabulary) != model.softmax.n_words:
        raise ValueError(
            f"the vocabulary has {len(vocabulary):,} words, but the softmax predicts "
            f"{model.softmax.n_words:,}: give the vocabulary that the model learned"
        )
    sums, n_tokens, n_unknown, n_sentences = np.zeros(2), 0, 0, 0
    carried: BiLMState | None = None
    reader = Reader(model.bilm, CACHE_TOKENS)
    for batch in _batches(sentences, 1 if state == "carry" else 512, batch_tokens):
        losses, after = _losses(model.softmax, reader, vocabulary, batch, carried)
        carried = after if state == "carry" else None
        sums += losses
        n_sentences += len(batch)
        n_tokens += sum(len(sentence) + 1 for sentence in batch)
        n_unknown += sum(token not in vocabulary for sentence in batch for token in sentence)
        if progress is not None:
            progress(len(batch))
    if not n_tokens:
        raise ValueError("there is no token to predict: give text with a sentence on each line")
    forward_lm, backward_lm = np.exp(sums / n_tokens)
    return Perplexity(float(forward_lm), float(backward_lm), n_tokens, n_sentences, n_unknown)


def _batches(
    sentences: Iterable[Sequence[str]], n_together: int, batch_tokens: int
) -> Iterable[list[Sequence[str]]]:
    def flush() -> Iterable[list[Sequence[str]]]:
        for batch in length_sorted_batches([len(s) + 2 for s in waiting], batch_tokens):
            yield [waiting[i] for i in batch]

    waiting: list[Sequence[str]] = []
    for i, sentence in enumerate(sentences):
        check_tokens(sentence, i)
        if sentence:
            waiting.append(sentence)
        if len(waiting) == n_together:
            yield from flush()
            waiting = []
    yield from flush()


@torch.inference_mode()
def _losses(
    softmax: AnySoftmax,
    reader: Reader,
    vocabulary: Vocabulary,
    batch: Sequence[Sequence[str]],
    carried: BiLMState | None,
) -> tuple[np.ndarray, BiLMState]:
    """Summed losses of the forward and the backward model.

    The forward model predicts from every position but the last, the backward model from every
    position but the first; where states are carried, what it read last is not carried on, as in
    training: `</S>` is predicted but never an input.
    """
    tokens, mask = reader.batch([list(sentence) for sentence in batch])
    device = mask.device
    words = torch.full(mask.shape, -1, device=device)
    for row, sentence in enumerate(batch):
        ids = [vocabulary.begin, *map(vocabulary.id, sentence), vocabulary.end]
        words[row, : len(ids)] = torch.tensor(ids)
    lengths = mask.sum(dim=1)
    n = mask.shape[1] - 1
    inner = torch.arange(n, device=device) < (lengths - 1).unsqueeze(1)
    half = tokens.shape[-1]
    # Each direction reads without the boundary at its end, so that its state ends where it should.
    left = reader.read_padded(tokens[:, :n], inner, carried)
    right = reader.read_padded(tokens[:, 1:], inner, carried)
    forward_loss = softmax.full_loss(left.layers[-1][inner][:, :half], words[:, 1:][inner])
    backward_loss = softmax.full_loss(right.layers[-1][inner][:, half:], words[:, :n][inner])
    after = BiLMState(
        *(
            torch.stack([of_left[0], of_right[1]])
            for of_left, of_right in zip(left.state, right.state, strict=True)
        )
    )
    return np.array(
        [forward_loss.double().sum().item(), backward_loss.double().sum().item()]
    ), after
