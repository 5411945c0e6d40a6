"""Highway layers: each output is its input, or a transformation of it, or something between.

Srivastava et al. (2015), equation 3; used after the convolutions as in Kim et al. (2016).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Highway(nn.Module):
    """y = gate ∘ relu(W_t x + b_t) + (1 − gate) ∘ x, gate = σ(W_g x + b_g), once per layer."""

    def __init__(self, dim: int, n_layers: int) -> None:
        super().__init__()
        self.transforms = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_layers))
        self.gates = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_layers))

    def reset_parameters(self) -> None:
        """As the original: weights with variance 1/dim; gates biased towards passing the input."""
        for transform, gate in zip(self.transforms, self.gates, strict=True):
            for linear, bias in ((transform, 0.0), (gate, -2.0)):
                assert isinstance(linear, nn.Linear)
                nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
                nn.init.constant_(linear.bias, bias)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Apply the layers in turn; with none, `x` itself."""
        for transform, gate in zip(self.transforms, self.gates, strict=True):
            # AllenNLP's order of operations, to the last bit: σ(−z) is what passes.
            passed = torch.sigmoid(-gate(x))
            x = passed * x + (1 - passed) * torch.relu(transform(x))
        return x
