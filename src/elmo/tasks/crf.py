"""A linear-chain conditional random field: the tags of a sentence, chosen together.

The score of a sequence of tags is the sum of what each tag gets at its token (`emissions`), of
what each pair of neighbours gets, and of what the first and the last tag get for being that.
Peters et al. (2018), A.7; Lample et al. (2016), section 2.1.

Axes: batch, tokens, tags. Sentences are padded at their ends.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo.tasks.tag_spans import AllowedTransitions


class Crf(nn.Module):
    """Scores of transitions between tags, that are learned.

    Args:
        n_tags: How many tags there are.
        allowed: What `decode` may choose; None for every sequence. The likelihood is over all
            sequences, as in the paper, which constrains at test alone.
    """

    between_allowed: Tensor
    start_allowed: Tensor
    end_allowed: Tensor

    def __init__(self, n_tags: int, allowed: AllowedTransitions | None = None) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))  # [before, after]
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))
        if allowed is None:
            any_tag = torch.ones(n_tags, dtype=torch.bool)
            allowed = AllowedTransitions(any_tag.expand(n_tags, -1), any_tag, any_tag)
        # They follow from the tags, which are stored with a model: once is enough.
        for name, may in allowed._asdict().items():
            self.register_buffer(f"{name}_allowed", may.clone(), persistent=False)

    def forward(
        self,
        emissions: Float[Tensor, "batch tokens tags"],
        tags: Int[Tensor, "batch tokens"],
        mask: Bool[Tensor, "batch tokens"],
    ) -> Float[Tensor, " batch"]:
        """Log-likelihood of each sentence's tags, in nats; 0 of a sentence without tokens.

        Args:
            emissions: Scores of each tag at each token.
            tags: The right ones; anything outside the mask.
            mask: True where a token is.
        """
        emissions = _full_precision(emissions)
        return self.score(emissions, tags, mask) - self.log_partition(emissions, mask)

    def score(
        self,
        emissions: Float[Tensor, "batch tokens tags"],
        tags: Int[Tensor, "batch tokens"],
        mask: Bool[Tensor, "batch tokens"],
    ) -> Float[Tensor, " batch"]:
        """Score of each sentence's tags: the logarithm of what is not yet a probability."""
        emissions = _full_precision(emissions)
        if emissions.shape[1] == 0:
            return emissions.new_zeros(len(emissions))
        tags = tags.long().masked_fill(~mask, 0)
        at_tokens = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)  # (batch, tokens)
        between = self.transitions[tags[:, :-1], tags[:, 1:]]  # (batch, tokens - 1)
        last = (mask.sum(1) - 1).clamp(min=0)
        ends = self.start[tags[:, 0]] + self.end[tags.gather(1, last.unsqueeze(1)).squeeze(1)]
        return (
            at_tokens.masked_fill(~mask, 0).sum(1)
            + between.masked_fill(~mask[:, 1:], 0).sum(1)
            + ends.masked_fill(~mask[:, 0], 0)
        )

    def log_partition(
        self,
        emissions: Float[Tensor, "batch tokens tags"],
        mask: Bool[Tensor, "batch tokens"],
    ) -> Float[Tensor, " batch"]:
        """Logarithm of the sum of exp(score) over all sequences: the forward algorithm."""
        emissions = _full_precision(emissions)
        if emissions.shape[1] == 0:
            return emissions.new_zeros(len(emissions))
        ending = self.start + emissions[:, 0]  # (batch, tags): over all sequences that end so
        for token in range(1, emissions.shape[1]):
            longer = torch.logsumexp(ending.unsqueeze(2) + self.transitions, dim=1)
            longer = longer + emissions[:, token]
            ending = torch.where(mask[:, token, None], longer, ending)
        return torch.logsumexp(ending + self.end, dim=1).masked_fill(~mask[:, 0], 0)

    def decode(
        self,
        emissions: Float[Tensor, "batch tokens tags"],
        mask: Bool[Tensor, "batch tokens"],
    ) -> list[list[int]]:
        """The best allowed tags of each sentence, without padding.

        Raises:
            ValueError: If a sentence is so short that none is allowed.
        """
        return viterbi(
            emissions,
            mask,
            self.transitions.masked_fill(~self.between_allowed, -torch.inf),
            self.start.masked_fill(~self.start_allowed, -torch.inf),
            self.end.masked_fill(~self.end_allowed, -torch.inf),
        )


@torch.no_grad()
def viterbi(
    emissions: Float[Tensor, "batch tokens tags"],
    mask: Bool[Tensor, "batch tokens"],
    transitions: Float[Tensor, "tags tags"],
    start: Float[Tensor, " tags"],
    end: Float[Tensor, " tags"],
) -> list[list[int]]:
    """The tags of each sentence whose scores sum to most, without padding.

    Args:
        emissions: Scores of each tag at each token.
        mask: True where a token is.
        transitions: Scores of a tag (second axis) after another (first); −inf forbids it.
        start: Scores of the first tag.
        end: Scores of the last tag.

    Raises:
        ValueError: If all sequences of a sentence's length are forbidden.
    """
    lengths = mask.sum(1).tolist()
    if emissions.shape[1] == 0:
        return [[] for _ in lengths]
    emissions = _full_precision(emissions)
    stay = torch.arange(emissions.shape[2], device=emissions.device)
    best = start + emissions[:, 0]  # (batch, tags): of the sequences that end so
    steps = []
    for token in range(1, emissions.shape[1]):
        longer, came_from = (best.unsqueeze(2) + transitions).max(dim=1)
        real = mask[:, token, None]
        best = torch.where(real, longer + emissions[:, token], best)
        steps.append(torch.where(real, came_from, stay))
    scores, tag = (best + end).max(dim=1)
    for length, score in zip(lengths, scores.tolist(), strict=True):
        if length and score == -torch.inf:
            raise ValueError(f"no sequence of {length} tags is allowed: allow more transitions")
    path = [tag]
    for came_from in reversed(steps):
        path.append(came_from.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    tags = torch.stack(path[::-1], dim=1).tolist()
    return [row[:length] for row, length in zip(tags, lengths, strict=True)]


def _full_precision(scores: Tensor) -> Tensor:
    """Sums over a sentence need float32 at least, whatever the network before computes in."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
