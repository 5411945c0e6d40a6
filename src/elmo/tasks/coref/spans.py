"""Spans of sentences that may be mentions, and the best of them.

Axes: spans, width (the widest span's tokens).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from elmo.tasks.coref.data import Span


class Spans(NamedTuple):
    """Spans of a document's tokens, by start and then by end.

    Attributes:
        starts: Of each span its first token.
        ends: Of each span its last token, which is of the same sentence.
    """

    starts: Int[Tensor, " spans"]
    ends: Int[Tensor, " spans"]

    def pairs(self) -> list[Span]:
        """From the first token to before the second number."""
        return list(zip(self.starts.tolist(), (self.ends + 1).tolist(), strict=True))

    def chosen(self, numbers: Int[Tensor, " _"]) -> "Spans":
        """Those of these numbers."""
        return Spans(self.starts[numbers], self.ends[numbers])


def spans_within(
    lengths: Sequence[int], max_width: int, device: torch.device | str = "cpu"
) -> Spans:
    """All spans of at most `max_width` tokens that do not leave their sentence.

    Args:
        lengths: Tokens of each sentence.
        max_width: Tokens of a span at most.
        device: Where the numbers are wanted.
    """
    sizes = torch.tensor(lengths, device=device)
    last = (sizes.cumsum(0) - 1).repeat_interleave(sizes)  # of the sentence of each token
    starts = torch.arange(len(last), device=device).unsqueeze(1)
    ends = starts + torch.arange(max_width, device=device)
    inside = ends <= last.unsqueeze(1)
    return Spans(starts.expand_as(ends)[inside], ends[inside])


def best_apart(scores: Sequence[float], spans: Sequence[Span], n: int) -> list[int]:
    """Numbers, rising, of the `n` spans with the highest scores of which no two cross.

    Chosen one after the other, the best first; one that crosses a chosen one is passed over.

    Source:
        Lee et al. (2017), section 5.
    """
    furthest: dict[int, int] = {}  # of chosen spans: the largest end by start,
    nearest: dict[int, int] = {}  # and the smallest start by end
    chosen: list[int] = []
    for k in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if len(chosen) == n:
            break
        start, end = spans[k]
        if any(furthest.get(i, 0) > end for i in range(start + 1, end)) or any(
            nearest.get(i, start) < start for i in range(start + 1, end)
        ):
            continue
        furthest[start] = max(furthest.get(start, 0), end)
        nearest[end] = min(nearest.get(end, start), start)
        chosen.append(k)
    return sorted(chosen)
