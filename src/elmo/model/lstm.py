"""An LSTM layer with a projection and clips, step by step: the definition.

Faster forms of the same numbers stand beside it: `lstm_packed` (inference), `lstm_window`
(training). Axes: batch, tokens, in_dim, hidden, dim.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo.config import LstmConfig

FORGET_BIAS = 1.0
"""Added to the forget gate when it is computed, as TensorFlow's cell does; not in the weights."""


class LayerState(NamedTuple):
    """What one layer hands from token to token: its output and its cell."""

    h: Float[Tensor, "batch dim"]
    c: Float[Tensor, "batch hidden"]


class Lstm(nn.Module):
    """Read tokens from first to last.

    With x the input, h the last output, c the last cell:

        i, g, f, o = split(W_x x + W_h h + b)
        c = clip(σ(f + 1) ∘ c + σ(i) ∘ tanh(g), ±cell_clip)
        h = clip(W_p (σ(o) ∘ tanh(c)), ±projection_clip)

    Without a projection, h = σ(o) ∘ tanh(c), and there is nothing to clip.

    Source:
        `tf.nn.rnn_cell.LSTMCell` as `allenai/bilm-tf` uses it; Sak et al. (2014).
    """

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        dim, hidden = config.dim, config.hidden_dim
        self.input_weight = nn.Parameter(torch.empty(4 * hidden, dim))
        self.state_weight = nn.Parameter(torch.empty(4 * hidden, dim))
        self.bias = nn.Parameter(torch.empty(4 * hidden))
        self.projection_weight = (
            nn.Parameter(torch.empty(dim, hidden)) if config.projection else None
        )

    def reset_parameters(self) -> None:
        """Draw weights as TensorFlow's cell does: uniform after Glorot over each whole kernel."""
        kernel = torch.empty(self.bias.shape[0], 2 * self.config.dim)
        nn.init.xavier_uniform_(kernel)
        with torch.no_grad():
            self.input_weight.copy_(kernel[:, : self.config.dim])
            self.state_weight.copy_(kernel[:, self.config.dim :])
            self.bias.zero_()
            if self.projection_weight is not None:
                nn.init.xavier_uniform_(self.projection_weight)

    @property
    def full_bias(self) -> Float[Tensor, " gates"]:
        """The bias with the constant of the forget gate added."""
        constant = torch.zeros_like(self.bias)
        constant[2 * self.config.hidden_dim : 3 * self.config.hidden_dim] = FORGET_BIAS
        return self.bias + constant

    def step(self, gates: Float[Tensor, "batch gates"], state: LayerState) -> LayerState:
        """One token: `gates` is W_x x + b (+ 1 at f), to which W_h h is added here."""
        i, g, f, o = (gates + state.h @ self.state_weight.T).chunk(4, dim=-1)
        c = torch.sigmoid(f) * state.c + torch.sigmoid(i) * torch.tanh(g)
        if self.config.cell_clip is not None:
            c = c.clamp(-self.config.cell_clip, self.config.cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.projection_weight is not None:
            h = h @ self.projection_weight.T
            if self.config.projection_clip is not None:
                h = h.clamp(-self.config.projection_clip, self.config.projection_clip)
        return LayerState(h, c)

    def forward(
        self,
        x: Float[Tensor, "batch tokens dim"],
        mask: Bool[Tensor, "batch tokens"],
        state: LayerState,
    ) -> tuple[Float[Tensor, "batch tokens dim"], LayerState]:
        """Read a padded batch; outputs are zero outside the mask.

        A row's state stays as its last real token left it.
        """
        gates = x @ self.input_weight.T + self.full_bias
        outputs = []
        for t in range(x.shape[1]):
            real = mask[:, t : t + 1]
            new = self.step(gates[:, t], state)
            state = LayerState(torch.where(real, new.h, state.h), torch.where(real, new.c, state.c))
            outputs.append(torch.where(real, new.h, torch.zeros_like(new.h)))
        return torch.stack(outputs, dim=1) if outputs else torch.zeros_like(x), state
