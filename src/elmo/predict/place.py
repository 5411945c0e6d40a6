"""Which words a place in a sentence admits, by either direction or by both.

Axes: tokens, dim, words.

Both directions together. The forward model gives p(w | l), the word given what stands left of it;
the backward model p(w | r), given what stands right. By Bayes, and if left and right are
independent of each other once the word between them is known,

    p(w | l, r)  ∝  p(l | w) · p(r | w) · p(w)  ∝  p(w | l) · p(w | r) / p(w),

that is, in logs, softmax over the words of  log p(w | l) + log p(w | r) − log p(w).  Without the
last term, how frequent a word is would count twice. p(w) is taken from the word's rank in the
vocabulary, which is sorted by falling frequency: p(k) = log((k + 2) / (k + 1)) / log(n + 1), the
distribution that negatives of the sampled softmax are drawn from. Boundaries are excluded, by −inf
before it is normalised. Decision 0008 has the evidence.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from elmo.model.softmax import log_uniform
from elmo.model.softmax_adaptive import AnySoftmax

DIRECTIONS = ("both", "forward", "backward")
CHUNK_SCORES = 1 << 24
"""Scores of words that are held at a time and direction: 64 MiB."""


def chunk_tokens(n_words: int) -> int:
    """Tokens whose words may be scored together."""
    return max(1, CHUNK_SCORES // n_words)


def log_frequencies(n_words: int) -> Float[Tensor, " words"]:
    """Log of how frequent each word is, as its rank tells: log-uniform, Zipf's law nearly."""
    return torch.log(log_uniform(torch.arange(n_words), n_words)).float()


def combined(
    forward_lm: Float[Tensor, "tokens words"],
    backward_lm: Float[Tensor, "tokens words"],
    log_frequency: Float[Tensor, " words"],
    excluded: Sequence[int],
) -> Float[Tensor, "tokens words"]:
    """Log p of each word by both directions: the formula above.

    Args:
        forward_lm: Log p of each word by the forward model.
        backward_lm: Likewise by the backward model.
        log_frequency: From `log_frequencies`.
        excluded: Ids of words that cannot stand there.
    """
    return excluding(forward_lm + backward_lm - log_frequency, excluded)


def excluding(
    scores: Float[Tensor, "tokens words"], excluded: Sequence[int]
) -> Float[Tensor, "tokens words"]:
    """Log p of each word among those that are not excluded."""
    words = torch.tensor(excluded, dtype=torch.int64, device=scores.device)
    return torch.log_softmax(scores.index_fill(1, words, -torch.inf), dim=1)


def admitted(
    softmax: AnySoftmax,
    forward_lm: Float[Tensor, "tokens dim"],
    backward_lm: Float[Tensor, "tokens dim"],
    direction: str,
    excluded: Sequence[int],
) -> Float[Tensor, "tokens words"]:
    """Log p of each word by what `direction` names.

    Args:
        softmax: Of both directions.
        forward_lm: Outputs of the last layer left of each token; at most `chunk_tokens` of them.
        backward_lm: Outputs right of each.
        direction: `forward` or `backward` asks one of the models, `both` combines them.
        excluded: Ids of words that cannot stand there.
    """
    if direction == "forward":
        return excluding(softmax.log_probabilities(forward_lm), excluded)
    if direction == "backward":
        return excluding(softmax.log_probabilities(backward_lm), excluded)
    return combined(
        softmax.log_probabilities(forward_lm),
        softmax.log_probabilities(backward_lm),
        log_frequencies(softmax.n_words).to(forward_lm),
        excluded,
    )
