"""From scores of tokens to an answer: the best span, and windows over long paragraphs.

Axes: batch, tokens, lengths (of spans, from 1).
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class BestSpans(NamedTuple):
    """The best span of each paragraph.

    Attributes:
        first: Its first token.
        last: Its last token; the same for a span of one.
        score: Score of the start plus score of the end.
    """

    first: Int[Tensor, " batch"]
    last: Int[Tensor, " batch"]
    score: Float[Tensor, " batch"]


def best_spans(
    start_scores: Float[Tensor, "batch tokens"],
    end_scores: Float[Tensor, "batch tokens"],
    mask: Bool[Tensor, "batch tokens"],
    *,
    max_tokens: int,
) -> BestSpans:
    """The span of at most `max_tokens` tokens with the highest sum of both scores.

    Of equals it is the one that starts first, and of these the shortest.

    Args:
        start_scores: How well an answer starts at each token: logits or log-probabilities.
        end_scores: How well it ends there.
        mask: True where a token is.
        max_tokens: Tokens of an answer at most.

    Raises:
        ValueError: If `max_tokens` is below 1, or a paragraph has no token.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}, but an answer has at least 1 token")
    if not bool(mask.any(dim=1).all()):
        raise ValueError("a paragraph has no token, but an answer is one or more of them")
    n_lengths = min(max_tokens, mask.shape[1])
    starts = start_scores.masked_fill(~mask, -torch.inf)
    ends = end_scores.masked_fill(~mask, -torch.inf)
    beyond = ends.new_full((ends.shape[0], n_lengths - 1), -torch.inf)
    # Row i holds the ends of spans that start at i: a view, so nothing of size tokens² is made.
    reachable = torch.cat([ends, beyond], dim=1).unfold(1, n_lengths, 1)
    scores = starts.unsqueeze(2) + reachable  # (batch, tokens, lengths)
    best, place = scores.flatten(1).max(dim=1)
    first = place // n_lengths
    return BestSpans(first, first + place % n_lengths, best)


def windows(n_tokens: int, *, size: int, overlap: int) -> list[tuple[int, int]]:
    """Parts that together cover a paragraph: the first token of each, and that after its last.

    Every answer of at most `overlap` + 1 tokens is whole in one of them.

    Args:
        n_tokens: Tokens of the paragraph.
        size: Tokens of a window at most; only the last may have fewer.
        overlap: Tokens that a window has in common with the one before.

    Raises:
        ValueError: If windows of this size and overlap get nowhere.
    """
    if not 0 <= overlap < size:
        raise ValueError(
            f"windows of {size} tokens overlap by {overlap}, but they overlap by at least 0 and "
            "by less than their size"
        )
    parts = [(0, min(size, n_tokens))]
    while parts[-1][1] < n_tokens:
        first = parts[-1][1] - overlap
        parts.append((first, min(first + size, n_tokens)))
    return parts
