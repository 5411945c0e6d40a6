"""Sentences in, arrays out: batches, states, and token vectors that are computed once.

Axes: layers, batch, tokens, dim.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from elmo.model.bilm import BiLM, BiLMOutput, BiLMState
from elmo.model.bilm_packed import PackedBiLM
from elmo.model.device import full_precision
from elmo.model.lstm_cuda import CudaReader
from elmo.model.scalar_mix import ScalarMix
from elmo.text import BEGIN_SENTENCE, END_SENTENCE, length_sorted_batches
from elmo.token_vectors import TokenVectors

logger = logging.getLogger(__name__)

STATES = ("zero", "carry", "settled")
SORTED_BATCHES = 4
"""Batches' worth of sentences that are sorted by length together: more waste less, take memory."""
SETTLED_CHANGE, SETTLED_READINGS = 1e-6, 300
UNSETTLED_CHANGE = 1e-3

Mixing = Callable[[Tensor], Tensor]
"""All layers → one: (layers, …) → (…)."""


class Reader:
    """Reads tokenized sentences with a biLM, without dropout or gradients, from any thread.

    Args:
        bilm: The network.
        cache_tokens: Tokens of which the character CNN's vectors are remembered.
        int8: As for `PackedBiLM`.
    """

    def __init__(self, bilm: BiLM, cache_tokens: int, int8: bool = False) -> None:
        self._packed = PackedBiLM(bilm, int8=int8)
        self._on_gpu = CudaReader(bilm)
        self.token_vectors = TokenVectors(bilm.char_cnn, cache_tokens)
        self.int8 = int8
        self._opened: tuple[tuple[int, int], BiLMState] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what is stored of it, begins anew: locks and prepared weights stay behind."""
        return Reader, (self._packed.bilm, self.token_vectors.max_tokens, self.int8)

    def read(
        self,
        sentences: Iterable[list[Any]],
        mixing: Mixing | None,
        state: str,
        batch_tokens: int,
        boundaries: bool = False,
    ) -> Iterator[np.ndarray]:
        """Vectors (layers, tokens, dim) of each sentence in turn, reading ahead a little.

        Args:
            sentences: Tokenized; read once, streaming.
            mixing: What makes one layer of all; None keeps all.
            state: One of `STATES`.
            batch_tokens: Tokens per pass, padding included.
            boundaries: Whether to give vectors of `<S>` and `</S>` too.
        """
        check_reading(state, batch_tokens)
        if state == "carry":
            carried = None
            for sentence in sentences:
                vectors, carried = self._encode_batch([sentence], mixing, carried, True, boundaries)
                yield vectors[0]
            return
        start = self.settled_state() if state == "settled" else None
        # What every sentence opens with can be read once for all, and what it closes with not at
        # all, unless vectors of these boundaries are wanted or part of a mean.
        framed = boundaries or (isinstance(mixing, ScalarMix) and mixing.layer_norm)
        if not framed:
            start = self.opened_state(start)
        for together in _groups(sentences, SORTED_BATCHES * batch_tokens):
            results: list[Any] = [None] * len(together)
            for batch in length_sorted_batches([len(s) + 2 for s in together], batch_tokens):
                rows = None if start is None else _repeated(start, len(batch))
                of_batch, _ = self._encode_batch(
                    [together[i] for i in batch], mixing, rows, framed, boundaries
                )
                for i, of_sentence in zip(batch, of_batch, strict=True):
                    results[i] = of_sentence
            yield from results

    @torch.inference_mode()
    def _encode_batch(
        self,
        sentences: Sequence[list[Any]],
        mixing: Mixing | None,
        state: BiLMState | None,
        framed: bool,
        boundaries: bool,
    ) -> tuple[list[np.ndarray], BiLMState]:
        output = self.read_padded(*self.batch(sentences, framed=framed), state)
        layers = output.layers
        if isinstance(mixing, ScalarMix):  # the biLM may compute with shorter numbers
            layers = layers.to(mixing.weights.dtype)
        edge = 1 if framed and not boundaries else 0
        ends = [len(sentence) + 2 * framed for sentence in sentences]
        if isinstance(mixing, ScalarMix) and mixing.layer_norm:
            # The whole of each sentence, boundaries included, as the original; but no other.
            mixed = [mixing(layers[:, i, :end])[None] for i, end in enumerate(ends)]
        elif mixing is not None:
            mixed = list(mixing(layers).unsqueeze(0).unbind(1))
        else:
            mixed = list(layers.unbind(1))
        vectors = [
            of_sentence[:, edge : end - edge].to("cpu", torch.float32, copy=True).numpy()
            for of_sentence, end in zip(mixed, ends, strict=True)
        ]
        return vectors, output.state

    def read_padded(
        self,
        tokens: Float[Tensor, "batch tokens dim"],
        mask: Bool[Tensor, "batch tokens"],
        state: BiLMState | None = None,
    ) -> BiLMOutput:
        """As `BiLM.read` without dropout or gradients, in the way that suits the device."""
        reader = self._on_gpu if tokens.is_cuda else self._packed
        with full_precision(tokens.device):
            return reader.read(tokens, mask, state)

    def batch(
        self, sentences: Sequence[list[Any]], *, framed: bool = True
    ) -> tuple[Float[Tensor, "batch tokens dim"], Bool[Tensor, "batch tokens"]]:
        """Token vectors of a padded batch, between boundaries if `framed`, and its mask."""
        if framed:
            sentences = [[BEGIN_SENTENCE, *sentence, END_SENTENCE] for sentence in sentences]
        numbers: dict[str, int] = {}
        for token in chain.from_iterable(sentences):
            if not isinstance(token, str):
                raise TypeError(
                    f"a token is {token!r} ({type(token).__name__}), but expected a string"
                )
            numbers.setdefault(token, len(numbers))
        width = max(map(len, sentences), default=0)
        places = np.full((len(sentences), width), -1, dtype=np.int64)
        for row, sentence in enumerate(sentences):
            places[row, : len(sentence)] = [numbers[token] for token in sentence]
        distinct = self.token_vectors(list(numbers))
        where = torch.from_numpy(places).to(distinct.device)
        mask = where >= 0
        return functional.embedding(where.clamp_min(0), distinct), mask

    @torch.inference_mode()
    def opened_state(self, start: BiLMState | None = None) -> BiLMState:
        """One row's state after the boundary that each direction reads first.

        Args:
            start: The state before it, of one row; None for zero.
        """
        weights = (self.token_vectors.changes.count(), self._packed.changes.count())
        if start is None and self._opened is not None and self._opened[0] == weights:
            return self._opened[1]
        # One after the other: weights for several rows need not be made ready for this.
        left, right = (
            self.read_padded(*self.batch([[boundary]], framed=False), start).state
            for boundary in (BEGIN_SENTENCE, END_SENTENCE)
        )
        opened = BiLMState(*(torch.stack([a[0], b[1]]) for a, b in zip(left, right, strict=True)))
        if start is None:
            self._opened = weights, opened
        return opened

    @torch.inference_mode()
    def settled_state(self) -> BiLMState:
        """The state after reading empty sentences until it changes no more."""
        tokens, mask = self.batch([[]])
        state, change = self.read_padded(tokens, mask).state, float("inf")
        for _ in range(SETTLED_READINGS):
            before, state = state, self.read_padded(tokens, mask, state).state
            change = max(float((a - b).abs().max()) for a, b in zip(before, state, strict=True))
            if change <= SETTLED_CHANGE:
                return state
        if change > UNSETTLED_CHANGE:  # below it is rounding
            logger.warning(
                "the state still changes by %.1g after %d empty sentences; going on from there",
                change,
                SETTLED_READINGS,
            )
        return state


def check_reading(state: str, batch_tokens: int) -> None:
    """Refuse a state or a budget that cannot be."""
    if state not in STATES:
        raise ValueError(f"state is {state!r}, but expected one of {', '.join(STATES)}")
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}, but a batch has at least 1 token")


def _groups(sentences: Iterable[list[Any]], n_tokens: int) -> Iterator[list[list[Any]]]:
    """Sentences one after the other, together as many as have about that many tokens."""
    group: list[list[Any]] = []
    size = 0
    for sentence in sentences:
        group.append(sentence)
        size += len(sentence) + 2
        if size >= n_tokens:
            yield group
            group, size = [], 0
    if group:
        yield group


def _repeated(state: BiLMState, n_rows: int) -> BiLMState:
    return BiLMState(*(part.expand(-1, -1, n_rows, -1).contiguous() for part in state))
