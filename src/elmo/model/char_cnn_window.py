"""The character CNN for training: a convolution and its maximum in one, gradients written out.

As `char_cnn`, but filters see windows of characters laid out side by side, so that all that is
heavy is matrix products (in bfloat16 where asked for), and gradients go back only through the
window that was the largest. Axes: tokens, chars, char_dim, windows, filters, dim.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo.model.char_cnn import CharCnn


def encode_distinct(
    cnn: CharCnn, char_ids: Int[Tensor, "tokens chars"], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "tokens dim"]:
    """Encode tokens; numbers and gradients are those of `CharCnn.forward`.

    Where several windows are equally large, one of them gets the gradient.

    Args:
        cnn: The network.
        char_ids: As for `CharCnn.forward`, best of similar length.
        dtype: Of the matrix products.
    """
    x = cnn.embedding(cnn.without_idle_padding(char_ids))
    pooled = []
    for convolution in cnn.convolutions:
        assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None
        weight = convolution.weight.transpose(1, 2)  # (filters, width, char_dim)
        pooled.append(_PooledConvolution.apply(x, weight, dtype) + convolution.bias)
    x = cnn.activation(torch.cat(pooled, dim=-1))
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        return cnn.projection(cnn.highway(x)).to(x.dtype)


class _PooledConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        n_tokens, n_chars, char_dim = x.shape
        n_filters, width, _ = weight.shape
        n_windows = n_chars - width + 1
        strides = (n_chars * char_dim, char_dim, 1)
        windows = x.to(dtype).as_strided((n_tokens, n_windows, width * char_dim), strides)
        windows, low = windows.flatten(0, 1), weight.flatten(1).to(dtype)
        largest, places = (windows @ low.T).view(n_tokens, n_windows, n_filters).max(dim=1)
        ctx.save_for_backward(windows, low, places)
        ctx.shapes = x.shape, weight.shape, x.dtype
        return largest.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_largest: Tensor) -> tuple[Tensor, Tensor, None]:
        windows, low, places = ctx.saved_tensors
        (n_tokens, n_chars, char_dim), (n_filters, width, _), dtype = ctx.shapes
        n_windows = n_chars - width + 1
        d_y = low.new_zeros(n_tokens, n_windows, n_filters)
        d_y.scatter_(1, places.unsqueeze(1), d_largest.to(low.dtype).unsqueeze(1))
        d_y = d_y.flatten(0, 1)
        d_weight = (d_y.T @ windows).to(dtype).view(n_filters, width, char_dim)
        d_windows = (d_y @ low).view(n_tokens, n_windows, width, char_dim)
        d_x = d_largest.new_zeros(n_tokens, n_chars, char_dim)
        for j in range(width):
            d_x[:, j : j + n_windows] += d_windows[:, :, j]
        return d_x, d_weight, None
