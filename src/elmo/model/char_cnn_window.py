"""The character CNN for training: a convolution and its maximum in one, gradients written out.

As `char_cnn`, but filters see windows of characters laid out side by side, so that all that is
heavy is matrix products (in bfloat16 where asked for), and gradients go back only through the
window that was the largest. Axes: tokens, chars, char_dim, windows, filters, dim.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmo.model.char_cnn import CharCnn


def encode_groups(
    cnn: CharCnn,
    groups: Sequence[Int[Tensor, "_tokens _chars"]],
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "tokens dim"]:
    """Encode groups of tokens; numbers and gradients are those of `CharCnn.forward`.

    Where several windows are equally large, one of them gets the gradient.

    Args:
        cnn: The network.
        groups: Character ids as for `CharCnn.forward`; a group is as wide as its longest token.
        dtype: Of the matrix products.

    Returns:
        One vector per token, group after group.
    """
    parts = []
    for char_ids in groups:
        x = cnn.embedding(cnn.without_idle_padding(char_ids))
        pooled = []
        for convolution in cnn.convolutions:
            assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None
            weight = convolution.weight.transpose(1, 2)  # (filters, width, char_dim)
            pooled.append(_PooledConvolution.apply(x, weight, dtype) + convolution.bias)
        parts.append(torch.cat(pooled, dim=-1))
    x = cnn.activation(torch.cat(parts))  # (tokens, filters)
    n_tokens = len(x)
    x = functional.pad(x, (0, 0, 0, _n_rows(n_tokens, dtype) - n_tokens))
    with torch.autocast(x.device.type, dtype, enabled=dtype.itemsize < 4):
        return cnn.projection(cnn.highway(x))[:n_tokens].to(x.dtype)


def _n_rows(n: int, dtype: torch.dtype) -> int:
    """So many rows a product of `n` is given: one of eight numbers between two powers of two.

    For each new shape of a low-precision product, oneDNN makes a new kernel, which takes
    milliseconds; text has other numbers of tokens and characters in every window.
    """
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step if dtype.itemsize < 4 else n


class _PooledConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        n_tokens, n_chars, char_dim = x.shape
        n_filters, width, _ = weight.shape
        n_windows = n_chars - width + 1
        strides = (n_chars * char_dim, char_dim, 1)
        seen = x.to(dtype).as_strided((n_tokens, n_windows, width * char_dim), strides)
        n_seen, low = n_tokens * n_windows, weight.flatten(1).to(dtype)
        windows = low.new_empty(_n_rows(n_seen, dtype), width * char_dim)
        windows[:n_seen].view_as(seen).copy_(seen)
        windows[n_seen:] = 0
        # As images with filters for colours: their pooling finds maxima and where they are ten
        # times faster than `max`.
        y = (windows @ low.T)[:n_seen].view(n_tokens, n_windows, 1, n_filters).permute(0, 3, 1, 2)
        pooled = functional.max_pool2d(y, (n_windows, 1), return_indices=True)
        largest, places = (part.view(n_tokens, n_filters) for part in pooled)
        ctx.save_for_backward(windows, low, places)
        ctx.shapes = x.shape, weight.shape, x.dtype
        return largest.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_largest: Tensor) -> tuple[Tensor, Tensor, None]:
        windows, low, places = ctx.saved_tensors
        (n_tokens, n_chars, char_dim), (n_filters, width, _), dtype = ctx.shapes
        n_windows = n_chars - width + 1
        n_seen = n_tokens * n_windows
        d_y = low.new_zeros(len(windows), n_filters)
        d_y[:n_seen].view(n_tokens, n_windows, n_filters).scatter_(
            1, places.unsqueeze(1), d_largest.to(low.dtype).unsqueeze(1)
        )
        d_weight = (d_y.T @ windows).to(dtype).view(n_filters, width, char_dim)
        d_windows = (d_y @ low)[:n_seen].view(n_tokens, n_windows, width, char_dim)
        d_x = d_largest.new_zeros(n_tokens, n_chars, char_dim)
        for j in range(width):
            d_x[:, j : j + n_windows] += d_windows[:, :, j]
        return d_x, d_weight, None
