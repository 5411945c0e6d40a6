"""A deep LSTM whose layers read in turn forwards and backwards, with highways around each.

He et al. (2017), section 2.2. Axes: batch, tokens, in_dim, hidden, gates = 5 × hidden.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

FORGET_BIAS = 1.0
GATES = 5
"""i, g, f, o and r, the gate of the highway."""


class HighwayLstm(nn.Module):
    """Read sentences in layers: the first from left to right, the second from right to left.

    Args:
        dim: Size of an input.
        hidden_dim: Size of an output, and of a cell.
        n_layers: Layers, 8 in the paper.
        recurrent_dropout: Share of a layer's outputs that is zero in training, the same ones for
            all tokens of a sentence (Gal and Ghahramani, 2016); it acts on what the next step reads
            and on what the layer above reads.

    Attributes:
        output_dim: Size of an output.
    """

    def __init__(
        self, dim: int, hidden_dim: int, *, n_layers: int = 8, recurrent_dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            HighwayLstmLayer(
                hidden_dim if k else dim,
                hidden_dim,
                backward=k % 2 == 1,
                recurrent_dropout=recurrent_dropout,
            )
            for k in range(n_layers)
        )
        self.output_dim = hidden_dim

    def forward(
        self, vectors: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens hidden"]:
        """Outputs of the last layer, zero outside the mask.

        Args:
            vectors: Inputs.
            mask: True where a token is.
        """
        for layer in self.layers:
            vectors = layer(vectors, mask)
        return vectors


class HighwayLstmLayer(nn.Module):
    """One layer, in one direction.

    With x the input, h the last output, c the last cell, z a dropout mask:

        i, g, f, o, r = split(W_x x + W_h h + b)
        c = σ(f) ∘ c + σ(i) ∘ tanh(g)
        h = z ∘ (σ(r) ∘ σ(o) ∘ tanh(c) + (1 − σ(r)) ∘ W x)

    Weights start orthonormal, a gate's at a time (Saxe et al., 2013); biases at 0, but that of f
    at 1 (Jozefowicz et al., 2015).
    """

    def __init__(
        self, dim: int, hidden_dim: int, *, backward: bool, recurrent_dropout: float
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.backward = backward
        self.recurrent_dropout = recurrent_dropout
        # W below W_x, so that all that is read of the input is one product.
        self.input_weight = nn.Parameter(torch.empty((GATES + 1) * hidden_dim, dim))
        self.state_weight = nn.Parameter(torch.empty(GATES * hidden_dim, hidden_dim))
        self.bias = nn.Parameter(torch.zeros(GATES * hidden_dim))
        with torch.no_grad():
            for weight in (self.input_weight, self.state_weight):
                for gate in weight.split(hidden_dim):
                    nn.init.orthogonal_(gate)
            self.bias[2 * hidden_dim : 3 * hidden_dim] = FORGET_BIAS

    def forward(
        self, vectors: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens hidden"]:
        """Outputs, zero outside the mask; where that is, nothing is read."""
        n_gates = GATES * self.hidden_dim
        of_input, through = (vectors @ self.input_weight.T).split((n_gates, self.hidden_dim), 2)
        steps = list(
            zip((of_input + self.bias).unbind(1), through.unbind(1), mask.unbind(1), strict=True)
        )
        h = c = vectors.new_zeros(len(vectors), self.hidden_dim)
        kept = self._kept(h)
        outputs = []
        for gates, carried, of_token in reversed(steps) if self.backward else steps:
            real = of_token.unsqueeze(1)
            i, g, f, o, r = torch.addmm(gates, h, self.state_weight.T).chunk(GATES, dim=1)
            new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            new_h = torch.lerp(carried, torch.sigmoid(o) * torch.tanh(new_c), torch.sigmoid(r))
            new_h = new_h if kept is None else new_h * kept
            h, c = torch.where(real, new_h, h), torch.where(real, new_c, c)
            outputs.append(h)
        if not outputs:
            return through
        stacked = torch.stack(outputs[::-1] if self.backward else outputs, dim=1)
        return stacked * mask.unsqueeze(2)

    def _kept(self, like: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch hidden"] | None:
        """What outputs are multiplied with in training, for all tokens of a sentence the same."""
        if not self.training or not self.recurrent_dropout:
            return None
        return (torch.rand_like(like) >= self.recurrent_dropout) / (1 - self.recurrent_dropout)
