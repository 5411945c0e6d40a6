"""Attention between the tokens of two sentences, or of one and itself.

Axes: batch, tokens, others (the tokens attended to), dim. A mask is True where a real token is;
what stands in padding never changes a vector of a real token.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

MOST_ATTENDED = 10_000
"""Tokens of a text whose tokens attend to each other, or to those of another text: a matrix of
their pairs takes 400 MB, and there are several."""


def check_attended(texts: Sequence[Sequence[str]]) -> None:
    """Refuse texts that are too long for attention.

    Raises:
        ValueError: If one has more than `MOST_ATTENDED` tokens.
    """
    for text in texts:
        if len(text) > MOST_ATTENDED:
            raise ValueError(
                f"the text {' '.join(text[:8])!r}… has {len(text):,} tokens, but at most "
                f"{MOST_ATTENDED:,} can be read, as attention takes memory by their square: "
                "split it"
            )


def masked_softmax(
    scores: Float[Tensor, "*rows others"], mask: Bool[Tensor, "*#rows others"]
) -> Float[Tensor, "*rows others"]:
    """Softmax over the last axis, of what the mask lets through; the rest is 0.

    Where it lets nothing through all is 0, and so is the gradient.
    """
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask


class TrilinearSimilarity(nn.Module):
    """How alike two tokens are: w · [x; y; x * y], for every pair of tokens.

    The vectors of pairs are never made, which would be tokens × others × 3 dim numbers: the three
    parts of w are applied on their own.

    Source:
        Seo et al. (2017), equation 1.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, dim))
        # As one layer from 3 dim numbers to 1 (Glorot and Bengio, 2010).
        bound = math.sqrt(6 / (3 * dim + 1))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(
        self, x: Float[Tensor, "batch tokens dim"], y: Float[Tensor, "batch others dim"]
    ) -> Float[Tensor, "batch tokens others"]:
        """Similarity of each token of `x` to each of `y`; not symmetric."""
        of_x, of_y, of_both = self.weight
        products = (x * of_both) @ y.transpose(1, 2)  # (batch, tokens, others)
        return products + (x @ of_x).unsqueeze(2) + (y @ of_y).unsqueeze(1)


class BiAttention(nn.Module):
    """A paragraph that has read the question: attention in both directions.

    Source:
        Seo et al. (2017), "attention flow layer".
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)

    def forward(
        self,
        context: Float[Tensor, "batch tokens dim"],
        context_mask: Bool[Tensor, "batch tokens"],
        query: Float[Tensor, "batch others dim"],
        query_mask: Bool[Tensor, "batch others"],
    ) -> Float[Tensor, "batch tokens 4*dim"]:
        """[c; q; c * q; c * k] of each context token c, in padding too.

        q is what the token finds in the query (context to query); k is one vector for the whole
        context, the mean of the tokens that are most like some token of the query (query to
        context).
        """
        scores = self.similarity(context, query)  # (batch, tokens, others)
        to_query = masked_softmax(scores, query_mask.unsqueeze(1)) @ query
        lowest = torch.finfo(scores.dtype).min
        closest = scores.masked_fill(~query_mask.unsqueeze(1), lowest).amax(dim=2)
        weights = masked_softmax(closest, context_mask).unsqueeze(1)  # (batch, 1, tokens)
        to_context = weights @ context  # (batch, 1, dim)
        return torch.cat([context, to_query, context * to_query, context * to_context], dim=2)


class SelfAttention(nn.Module):
    """A paragraph that has read itself: each token attends to all others, never to itself.

    It may also attend to nothing: a learned score competes with those of the tokens, as in the
    authors' code.

    Source:
        Clark and Gardner (2018), section 3.2; `StaticAttentionSelf` in `allenai/document-qa`.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)
        self.nothing = nn.Parameter(torch.tensor(-1.0))

    def forward(
        self, x: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens 3*dim"]:
        """[x; a; x * a] of each token x, where a is what it finds in the others."""
        batch, n_tokens, _ = x.shape
        others = ~torch.eye(n_tokens, dtype=torch.bool, device=x.device)
        scores = self.similarity(x, x)  # (batch, tokens, others)
        nothing = self.nothing.expand(batch, n_tokens, 1).to(scores.dtype)
        allowed = (mask.unsqueeze(1) & others).expand_as(scores)
        allowed = torch.cat([allowed, allowed.new_ones(batch, n_tokens, 1)], dim=2)
        weights = masked_softmax(torch.cat([scores, nothing], dim=2), allowed)[..., :-1]
        found = weights @ x
        return torch.cat([x, found, x * found], dim=2)


def soft_alignment(
    premise: Float[Tensor, "batch tokens dim"],
    premise_mask: Bool[Tensor, "batch tokens"],
    hypothesis: Float[Tensor, "batch others dim"],
    hypothesis_mask: Bool[Tensor, "batch others"],
) -> tuple[Float[Tensor, "batch tokens dim"], Float[Tensor, "batch others dim"]]:
    """For each token of one sentence, what in the other is most like it, by dot products.

    Returns:
        The hypothesis as the premise's tokens see it, and the premise as the hypothesis' see it.

    Source:
        Chen et al. (2017), equations 11 to 13.
    """
    scores = premise @ hypothesis.transpose(1, 2)  # (batch, tokens, others)
    of_premise = masked_softmax(scores, hypothesis_mask.unsqueeze(1)) @ hypothesis
    of_hypothesis = masked_softmax(scores.transpose(1, 2), premise_mask.unsqueeze(1)) @ premise
    return of_premise, of_hypothesis


def comparison(
    x: Float[Tensor, "*rows dim"], aligned: Float[Tensor, "*rows dim"]
) -> Float[Tensor, "*rows 4*dim"]:
    """[x; a; x - a; x * a]: how a token differs from what it is aligned with.

    Source:
        Chen et al. (2017), equations 14 and 15.
    """
    return torch.cat([x, aligned, x - aligned, x * aligned], dim=-1)
