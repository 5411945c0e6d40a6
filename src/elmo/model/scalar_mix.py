"""One vector per token from all layers: γ · Σ_j softmax(w)_j · layer_j.

Peters et al. (2018), equation 1. Axes: layers, batch, tokens, dim.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

VARIANCE_FLOOR = 1e-13
"""Added to a variance before its root, as AllenNLP does for float32."""


class ScalarMix(nn.Module):
    """A task's weighting of the layers.

    Args:
        n_layers: Layers to mix.
        weights: w before the softmax, one per layer; None for zeros, an even mix. A layer at −inf
            has no part.
        gamma: The scale γ.
        layer_norm: Whether each layer is normalised first, to mean 0 and variance 1 over all
            numbers of all real tokens of the batch (one mean and one variance per layer).
        learned: Whether w and γ are parameters that training changes, or fixed.
        l2: λ of `penalty`. The paper tries 0.001 (weights may differ) and 1 (nearly an average).

    Raises:
        ValueError: If there are not `n_layers` weights.

    Source:
        Peters et al. (2018), section 3.2; `ScalarMix` in AllenNLP; `weight_layers` in bilm-tf.
    """

    def __init__(
        self,
        n_layers: int,
        *,
        weights: Sequence[float] | None = None,
        gamma: float = 1.0,
        layer_norm: bool = False,
        learned: bool = True,
        l2: float = 0.0,
    ) -> None:
        super().__init__()
        if weights is None:
            weights = [0.0] * n_layers
        if len(weights) != n_layers:
            raise ValueError(f"{len(weights)} weights were given for {n_layers} layers: one each")
        self.layer_norm = layer_norm
        self.l2 = l2
        self.weights = nn.Parameter(torch.tensor(weights, dtype=torch.float32), learned)
        self.gamma = nn.Parameter(torch.tensor(gamma, dtype=torch.float32), learned)

    @classmethod
    def single(cls, layer: int, n_layers: int) -> "ScalarMix":
        """One layer as it is: all weight on `layer`, fixed; negative counts from the top.

        Raises:
            ValueError: If there is no such layer.
        """
        if not -n_layers <= layer < n_layers:
            raise ValueError(f"layer is {layer}, but the model has layers 0 to {n_layers - 1}")
        weights = [-torch.inf] * n_layers
        weights[layer] = 0.0
        return cls(n_layers, weights=weights, learned=False)

    @property
    def normalised_weights(self) -> Float[Tensor, " layers"]:
        """softmax(w): what the paper's figure 2 shows."""
        return torch.softmax(self.weights, dim=0)

    def penalty(self) -> Float[Tensor, ""]:
        """λ‖w‖², to be added to a task's loss; w before the softmax, as in bilm-tf."""
        # A layer without a part, at −inf, has no weight to keep small.
        return self.l2 * self.weights[torch.isfinite(self.weights)].square().sum()

    def forward(
        self,
        layers: Float[Tensor, "layers *batch tokens dim"],
        mask: Bool[Tensor, "*batch tokens"] | None = None,
    ) -> Float[Tensor, "*batch tokens dim"]:
        """Mix the layers of each token.

        Args:
            layers: All layers, stacked.
            mask: True where a token is; counts only with `layer_norm`. None: everywhere.

        Raises:
            ValueError: If there are more or fewer layers than weights.
        """
        if len(layers) != len(self.weights):
            raise ValueError(
                f"the mix has weights for {len(self.weights)} layers, but was given {len(layers)}"
            )
        if self.layer_norm:
            layers = _normalise(layers, mask)
        return self.gamma * torch.einsum("l,l...->...", self.normalised_weights, layers)


def _normalise(layers: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        mask = layers.new_ones(layers.shape[1:-1], dtype=torch.bool)
    real = mask.unsqueeze(-1)
    over = tuple(range(1, layers.ndim))
    n = mask.sum() * layers.shape[-1]
    mean = (layers * real).sum(dim=over, keepdim=True) / n
    variance = ((layers - mean) * real).square().sum(dim=over, keepdim=True) / n
    return (layers - mean) / torch.sqrt(variance + VARIANCE_FLOOR)
