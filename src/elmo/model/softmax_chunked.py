"""Cross entropy among chosen words, a chunk of tokens at a time.

Scores are never held for all tokens, and gradients are made in the same pass. Axes: tokens, dim,
words.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

CPU_CHUNKS, CUDA_CHUNKS = (64, 16), (4096, 1)
"""Tokens in a chunk, and chunks whose gradients are made together. On a CPU so few tokens that a
chunk's scores stay in the cores' caches between the passes over them; on a GPU so many that
launches do not count, while scores take some hundred MiB."""


def chunked_cross_entropy(
    hidden: Float[Tensor, "tokens dim"],
    weight: Float[Tensor, "words dim"],
    bias: Float[Tensor, " words"],
    targets: Int[Tensor, " tokens"],
    everywhere: Bool[Tensor, " words"],
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, " tokens"]:
    """−log softmax(W h + b)[target] of each token.

    Args:
        hidden: One vector per token.
        weight: One row per word that takes part.
        bias: One number per word.
        targets: Rows of `weight`.
        everywhere: False for words that count only where they are the target.
        dtype: Of the matrix products; sums and gradients are in the dtype of `hidden`.

    The gradient is that of the mean: a loss that weights tokens differently is refused.
    """
    return _ChunkedCrossEntropy.apply(hidden, weight, bias, targets, everywhere, dtype)


def probabilities(
    scores: Tensor, bias: Tensor, true: Tensor, alone: Tensor, into: Tensor
) -> Tensor:
    """Scores without bias → their softmax, written `into` its place; the log of its sum.

    `true` are the target's scores with bias; `alone` marks tokens whose target is not among the
    words of all and is to be added to the sum.
    """
    full = scores.to(bias.dtype, copy=True).add_(bias)
    top = full.amax(dim=1, keepdim=True)
    log_sum = top + torch.log(full.sub_(top).exp_().sum(dim=1, keepdim=True))
    log_sum = torch.where(alone, torch.logaddexp(log_sum, true), log_sum)
    into.copy_(full.mul_(torch.exp(top - log_sum)))
    return log_sum


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden, weight, bias, targets, everywhere, dtype):  # type: ignore[no-untyped-def]
        low, w = hidden.to(dtype), weight.to(dtype)
        shift = bias.masked_fill(~everywhere, -torch.inf)
        losses = hidden.new_empty(len(hidden))
        d_hidden, d_weight = torch.empty_like(low), torch.zeros_like(weight)
        d_bias = torch.zeros_like(bias)
        size, together = CUDA_CHUNKS if hidden.is_cuda else CPU_CHUNKS
        for start in range(0, len(hidden), size * together):
            group = slice(start, min(start + size * together, len(hidden)))
            p = low.new_empty(group.stop - start, len(w))
            for first in range(start, group.stop, size):
                chunk = slice(first, min(first + size, group.stop))
                own = targets[chunk].unsqueeze(1)
                scores = low[chunk] @ w.T
                true = scores.gather(1, own).to(bias.dtype) + bias[own]
                part = p[first - start : chunk.stop - start]
                log_sum = probabilities(scores, shift, true, ~everywhere[own], part)
                losses[chunk] = (log_sum - true).squeeze(1)
                part.scatter_(1, own, torch.expm1(true - log_sum).to(dtype))
            d_hidden[group] = p @ w
            d_weight += p.T @ low[group]
            d_bias += (p.new_ones(1, len(p)) @ p).squeeze(0)
        ctx.save_for_backward(d_hidden.to(hidden.dtype), d_weight, d_bias)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_losses: Tensor):  # type: ignore[no-untyped-def]
        # One weight for all tokens, as a mean has; else the passes would have to be made again.
        scale = d_losses[0]
        if not torch.equal(d_losses, scale.expand_as(d_losses)):
            raise ValueError("the chunked loss can be averaged or summed, not weighted by token")
        return (*(scale * d for d in ctx.saved_tensors), None, None, None)
