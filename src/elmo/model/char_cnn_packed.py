"""The character CNN for inference: its convolutions as products with prepacked weights.

A filter of width w sees w characters at a time; these windows are laid out side by side and
multiplied at once. The numbers are those of `CharCnn`; on a GPU, PyTorch's own convolutions would
round float32 to 10 bits by default, its products do not. Axes: tokens, chars, char_dim, dim.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.model.char_cnn import CharCnn
from elmo.model.product import PlainProduct
from elmo.model.product_onednn import OneDnnProduct, can_pack

CPU_BATCH_TOKENS, GPU_BATCH_TOKENS = 128, 4096
"""Tokens of a pass: on a CPU so few that what the widest filters give stays in its cache."""


class PackedCharCnn:
    """Encodes tokens with a CNN's weights; not for training.

    Args:
        char_cnn: The network. Its weights must not change afterwards.

    Attributes:
        batch_tokens: Tokens per pass that are fastest.
    """

    def __init__(self, char_cnn: CharCnn) -> None:
        self.char_cnn = char_cnn
        weight = char_cnn.embedding.weight
        on_cpu = weight.device.type == "cpu"
        form = OneDnnProduct if on_cpu and can_pack(weight.dtype) else PlainProduct
        weights, biases = zip(*map(_weight_and_bias, char_cnn.convolutions), strict=True)
        self.filters, self.bias = list(map(form, weights)), torch.cat(biases)
        self.batch_tokens = CPU_BATCH_TOKENS if on_cpu else GPU_BATCH_TOKENS

    def __call__(self, char_ids: Int[Tensor, "tokens chars"]) -> Float[Tensor, "tokens dim"]:
        """Encode tokens, best of similar length."""
        cnn = self.char_cnn
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
