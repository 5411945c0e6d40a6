"""The character CNN for inference: its convolutions as products with prepacked weights.

A filter of width w sees w characters at a time; these windows are laid out side by side and
multiplied at once. The numbers are those of `CharCnn`. Axes: tokens, chars, char_dim, dim.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.model.char_cnn import CharCnn
from elmo.model.product_onednn import OneDnnProduct, can_pack

BATCH_TOKENS = 128
"""Tokens of a pass that is fast: what the widest filters give stays in the processor's cache."""


class PackedCharCnn:
    """Encodes tokens with a CNN's weights; not for training.

    Where oneDNN has no product for the weights, convolutions are left to PyTorch.

    Args:
        char_cnn: The network. Its weights must not change afterwards.
    """

    def __init__(self, char_cnn: CharCnn) -> None:
        self.char_cnn = char_cnn
        weight = char_cnn.embedding.weight
        self.filters: list[OneDnnProduct] | None = None
        if weight.device.type == "cpu" and can_pack(weight.dtype):
            weights, biases = zip(*map(_weight_and_bias, char_cnn.convolutions), strict=True)
            self.filters, self.bias = list(map(OneDnnProduct, weights)), torch.cat(biases)

    def __call__(self, char_ids: Int[Tensor, "tokens chars"]) -> Float[Tensor, "tokens dim"]:
        """Encode tokens, best of similar length."""
        cnn = self.char_cnn
        if self.filters is None:
            return cnn(char_ids)
        x = cnn.embedding(cnn.without_idle_padding(char_ids))  # (tokens, chars, char_dim)
        n_tokens, n_chars, char_dim = x.shape
        pooled = []
        for (width, n_filters), product in zip(cnn.config.filters, self.filters, strict=True):
            n_windows = n_chars - width + 1
            windows = x.as_strided(
                (n_tokens, n_windows, width * char_dim), (n_chars * char_dim, char_dim, 1)
            )
            y = product(windows.reshape(-1, width * char_dim))
            pooled.append(y.view(n_tokens, n_windows, n_filters).amax(dim=1))
        x = cnn.activation(torch.cat(pooled, dim=-1).add_(self.bias))  # (tokens, filters)
        return cnn.projection(cnn.highway(x))


def _weight_and_bias(
    convolution: nn.Module,
) -> tuple[Float[Tensor, "filters window"], Float[Tensor, " filters"]]:
    assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None
    return convolution.weight.transpose(1, 2).flatten(1), convolution.bias
