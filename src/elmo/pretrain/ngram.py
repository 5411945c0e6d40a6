"""n-gram language models: what a biLM's perplexity is compared with.

Interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1999, section 4), over the vocabulary
and the predictions of `elmo.pretrain.perplexity`: every token and one sentence end, words outside
the vocabulary as `<UNK>`. An n-gram is one integer, the word predicted in its lowest bits; all
counting is sorting. Axes: tokens (of all sentences), predictions, ngrams (distinct), contexts.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from elmo.pretrain.corpus import Corpus
from elmo.pretrain.perplexity import Perplexity

MOST_DISCOUNTED = 3
"""Counts from here on share a discount."""


class _Order(NamedTuple):
    """The n-grams of one length: discounted shares, and what is left for shorter ones."""

    ngrams: Int[np.ndarray, " ngrams"]
    shares: Float[np.ndarray, " ngrams"]
    contexts: Int[np.ndarray, " contexts"]
    left: Float[np.ndarray, " contexts"]


class NGram:
    """An n-gram model of one direction.

    Args:
        corpus: What it learns from.
        order: Words of an n-gram; 1 is a unigram model.
        reverse: Whether to read sentences from their ends, as the backward model does.

    Raises:
        ValueError: If n-grams of this order over this vocabulary do not fit into 63 bits.
    """

    def __init__(self, corpus: Corpus, *, order: int = 3, reverse: bool = False) -> None:
        vocabulary = corpus.vocabulary
        self.order, self.reverse, self.n_words = order, reverse, len(vocabulary)
        self.begin, self.end = vocabulary.begin, vocabulary.end
        if reverse:
            self.begin, self.end = self.end, self.begin
        self.bits = max(1, (self.n_words - 1).bit_length())
        if order < 1 or order * self.bits > 63:
            raise ValueError(
                f"n-grams of order {order} over {self.n_words:,} words do not fit into 63 bits: "
                "choose an order from 1, or a smaller vocabulary"
            )
        self._orders: list[_Order] = []
        ngrams, counts = np.unique(self._ngrams(corpus), return_counts=True)
        tables = [(ngrams, counts)]
        for length in range(order - 1, 0, -1):
            ngrams, counts = self._shorter(*tables[-1], length)
            tables.append((ngrams, counts))
        self._orders = [self._discounted(*table) for table in reversed(tables)]

    def log_probabilities(self, corpus: Corpus) -> Float[np.ndarray, " predictions"]:
        """Log p of every token and sentence end of a corpus with the same vocabulary."""
        ngrams = self._ngrams(corpus)
        p = np.full(len(ngrams), 1 / self.n_words)
        for length, order in enumerate(self._orders, start=1):
            of_length = ngrams & ((1 << (length * self.bits)) - 1)
            at, known = _find(order.contexts, of_length >> self.bits)
            p = np.where(known, order.left[at], 1.0) * p
            at, known = _find(order.ngrams, of_length)
            p += np.where(known, order.shares[at], 0.0)
        return np.log(p)

    def _ngrams(self, corpus: Corpus) -> np.ndarray:
        """The n-gram that ends in each predicted word; before a sentence stand only begins."""
        words = np.concatenate([corpus.words[shard.tokens] for shard in corpus.shards])
        lengths = np.concatenate([np.diff(shard.starts) for shard in corpus.shards])
        if self.reverse:
            words, lengths = words[::-1], lengths[::-1]
        before = self.order - 1
        predicted = np.ones(len(words) + len(lengths) * self.order, dtype=bool)
        ends = np.cumsum(lengths + self.order) - 1
        inner = predicted.copy()
        inner[ends] = False
        for place in range(before):
            begins = ends - lengths - before + place
            predicted[begins] = inner[begins] = False
        stream = np.full(len(predicted), self.begin, dtype=np.int64)
        stream[inner], stream[ends] = words, self.end
        del words, inner  # each is as long as the corpus
        ngrams = stream.copy()
        for back in range(1, self.order):
            ngrams[back:] |= stream[:-back] << (back * self.bits)
        return ngrams[predicted]

    def _shorter(
        self, ngrams: np.ndarray, counts: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """n-grams without their first word, counted by how many words stand before them.

        One that begins with a sentence keeps its plain count: nothing else can stand before it.
        """
        shorter = ngrams & ((1 << (length * self.bits)) - 1)
        plain = np.zeros(len(shorter), dtype=bool)
        if length > 1:
            plain = shorter >> ((length - 1) * self.bits) == self.begin
        distinct, number = np.unique(shorter, return_inverse=True)
        counted = np.bincount(number, weights=np.where(plain, counts, 1), minlength=len(distinct))
        return distinct, counted.astype(np.int64)

    def _discounted(self, ngrams: np.ndarray, counts: np.ndarray) -> _Order:
        discounts = _discounts(counts)[np.minimum(counts, MOST_DISCOUNTED)]
        contexts, number = np.unique(ngrams >> self.bits, return_inverse=True)
        totals = np.bincount(number, weights=counts)
        left = np.bincount(number, weights=discounts) / totals
        return _Order(ngrams, (counts - discounts) / totals[number], contexts, left)


def ngram_perplexity(forward_lm: NGram, backward_lm: NGram, corpus: Corpus) -> Perplexity:
    """Perplexity of each direction on a corpus with the vocabulary of both models."""
    forward, backward = (model.log_probabilities(corpus) for model in (forward_lm, backward_lm))
    return Perplexity(
        float(np.exp(-forward.mean())),
        float(np.exp(-backward.mean())),
        len(forward),
        corpus.n_sentences,
        corpus.n_unknown,
    )


def _discounts(counts: np.ndarray) -> np.ndarray:
    """What is taken from counts 0, 1, 2 and 3 or more (Chen and Goodman, 1999, equation 26)."""
    n = [int((counts == k).sum()) for k in range(MOST_DISCOUNTED + 2)]
    discounts = [0.0]
    for k in range(1, MOST_DISCOUNTED + 1):
        if n[1] and n[k] and n[k + 1]:
            y = n[1] / (n[1] + 2 * n[2])
            discounts.append(min(max(k - (k + 1) * y * n[k + 1] / n[k], 0.05), k - 0.05))
        else:  # too little text for the estimate
            discounts.append(0.5)
    return np.array(discounts)


def _find(table: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each is in a sorted table, and whether it is."""
    at = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return at, table[at] == wanted
