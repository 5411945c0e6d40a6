"""The softmax over the vocabulary that both directions of the biLM share, for training.

Full: every word. Sampled: the target against words drawn from a log-uniform distribution over
frequency ranks, as TensorFlow's `sampled_softmax_loss`; an estimate for training only, never to be
reported as perplexity. Axes: tokens, dim, vocabulary, negatives.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmo.model.softmax_chunked import chunked_cross_entropy

CHUNK_TOKENS = 1024
ACCIDENTAL_HIT = -1e9


class Negatives(NamedTuple):
    """Words drawn to stand for the rest of the vocabulary.

    Attributes:
        words: Distinct word ids.
        n_tries: Draws it took to see that many distinct ones.
        ranks: Of every word, by falling frequency, as they were drawn; None where words are
            numbered so.
    """

    words: Int[Tensor, " negatives"]
    n_tries: int
    ranks: Int[Tensor, " words"] | None = None

    def log_expected_count(
        self, words: Int[Tensor, " words"], n_words: int
    ) -> Float[Tensor, " words"]:
        """Log of the probability that a word is among such negatives."""
        ranks = words if self.ranks is None else self.ranks.to(words.device)[words]
        return log_expected_count(ranks, n_words, self.n_tries)


class Softmax(nn.Module):
    """Scores of every word: W h + b. Words are numbered by falling frequency."""

    def __init__(self, n_words: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, dim))
        self.bias = nn.Parameter(torch.empty(n_words))

    def reset_parameters(self) -> None:
        """As the original: weights with variance 1/dim, no bias."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        nn.init.zeros_(self.bias)

    @property
    def n_words(self) -> int:
        """How many words it knows."""
        return len(self.bias)

    def log_probabilities(
        self, hidden: Float[Tensor, "tokens dim"]
    ) -> Float[Tensor, "tokens vocabulary"]:
        """Log p, in nats, of every word for every token: of few tokens at a time, as it is large.

        Which words are to come is what both directions are asked alike; `full_loss` asks for one.
        """
        return functional.log_softmax(hidden @ self.weight.T + self.bias, dim=1)

    def full_loss(
        self, hidden: Float[Tensor, "tokens dim"], targets: Int[Tensor, " tokens"]
    ) -> Float[Tensor, " tokens"]:
        """−log p(target) of each token, in nats, over the whole vocabulary."""
        parts = [
            functional.cross_entropy(h @ self.weight.T + self.bias, t, reduction="none")
            for h, t in zip(hidden.split(CHUNK_TOKENS), targets.split(CHUNK_TOKENS), strict=True)
        ]
        return torch.cat(parts) if parts else hidden.new_zeros(0)

    def sampled_loss(
        self,
        hidden: Float[Tensor, "tokens dim"],
        targets: Int[Tensor, " tokens"],
        negatives: Negatives,
    ) -> Float[Tensor, " tokens"]:
        """The loss among the target and the negatives, step by step: the definition.

        A score is lowered by the log of how often its word is expected among the draws; a negative
        that is the target itself is left out.
        """
        words = negatives.words.to(hidden.device)
        true = (hidden * self.weight[targets]).sum(dim=1) + self.bias[targets]
        true = true - negatives.log_expected_count(targets, len(self.bias))
        others = hidden @ self.weight[words].T + self.bias[words]
        others = others - negatives.log_expected_count(words, len(self.bias))
        others = others.masked_fill(words == targets.unsqueeze(1), ACCIDENTAL_HIT)
        return torch.logsumexp(torch.cat([true.unsqueeze(1), others], dim=1), dim=1) - true

    def sampled_loss_fast(
        self,
        hidden: Float[Tensor, "tokens dim"],
        targets: Int[Tensor, " tokens"],
        negatives: Negatives,
        dtype: torch.dtype = torch.float32,
        elsewhere: Int[Tensor, " words"] | None = None,
    ) -> Float[Tensor, " tokens"]:
        """As `sampled_loss`, chunk by chunk, with sparse gradients for the words that took part.

        Args:
            hidden: Outputs of the last layer.
            targets: The words that stand there.
            negatives: From `draw_negatives`.
            dtype: Of the matrix products.
            elsewhere: Words that get a row in the gradient too, of zeros if they take no part.
        """
        words = negatives.words.to(hidden.device)
        drawn = words.new_full((len(self.bias),), -1)
        drawn[words] = torch.arange(len(words), device=words.device)
        others = words[:0] if elsewhere is None else elsewhere.to(hidden.device)
        rows = torch.unique(torch.cat([words, targets, others]))
        place = torch.empty_like(drawn)
        place[rows] = torch.arange(len(rows), device=rows.device)
        weight, bias = _Rows.apply(self.weight, rows), _Rows.apply(self.bias, rows)
        correction = negatives.log_expected_count(rows, len(self.bias))
        # Targets that were not drawn are columns too; only their own row may see them.
        return chunked_cross_entropy(
            hidden, weight, bias - correction, place[targets], drawn[rows] >= 0, dtype
        )


class _Rows(torch.autograd.Function):
    """Some distinct rows of a parameter; their gradient is sparse."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = parameter.shape
        return parameter[rows]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return torch.sparse_coo_tensor(
            rows.unsqueeze(0), d_rows, ctx.shape, is_coalesced=True, check_invariants=False
        ), None


def draw_negatives(
    n_words: int,
    n_negatives: int,
    rng: np.random.Generator,
    order: Int[np.ndarray, " words"] | None = None,
) -> Negatives:
    """Draw words, p(k) = log((k + 2) / (k + 1)) / log(n_words + 1), until enough are distinct.

    Args:
        n_words: Size of the vocabulary.
        n_negatives: Distinct words wanted.
        rng: Where chance comes from.
        order: All words by falling frequency: k is a place in it. None where words are numbered so.

    Source:
        `tf.random.log_uniform_candidate_sampler` with `unique=True`.

    Raises:
        ValueError: If there are fewer words than negatives wanted.
    """
    if n_negatives > n_words:
        raise ValueError(
            f"{n_negatives} negatives were asked for, but the vocabulary has {n_words} words"
        )
    draws = np.empty(0, dtype=np.int64)
    while True:
        uniform = rng.random(max(1024, 2 * n_negatives))
        more = np.exp(uniform * np.log(n_words + 1)).astype(np.int64) - 1
        draws = np.concatenate([draws, np.minimum(more, n_words - 1)])
        _, first = np.unique(draws, return_index=True)
        if len(first) >= n_negatives:
            first = np.sort(first)[:n_negatives]
            drawn, n_tries = draws[first], int(first[-1]) + 1
            if order is None:
                return Negatives(torch.from_numpy(drawn), n_tries)
            ranks = np.empty_like(order)
            ranks[order] = np.arange(n_words)
            return Negatives(torch.from_numpy(order[drawn]), n_tries, torch.from_numpy(ranks))


def log_uniform(ranks: Int[Tensor, " words"], n_words: int) -> Float[Tensor, " words"]:
    """p(k) = log((k + 2) / (k + 1)) / log(n_words + 1), in float64: nearly Zipf's law.

    It stands for how frequent the word of a rank is, where words were not counted.
    """
    return torch.log1p(1 / (ranks.double() + 1)) / np.log(n_words + 1)


def log_expected_count(
    ranks: Int[Tensor, " words"], n_words: int, n_tries: int
) -> Float[Tensor, " words"]:
    """Log of the probability that a word is among the distinct words of `n_tries` draws."""
    p = log_uniform(ranks, n_words)
    return torch.log(-torch.expm1(n_tries * torch.log1p(-p))).float()
