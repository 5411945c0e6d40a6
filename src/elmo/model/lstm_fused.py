"""An LSTM layer for inference on many rows at once: a step is two products that end as gates.

As `lstm_packed`, but a token and the last output are one input [x; h] of one matrix [W_x W_h], so
that bias and activation are part of the product and gates are written once, as they are used. The
state half of the weights is read at every step either way; with few rows reading the other half
too costs more than it saves. Axes: packed (all tokens), dim.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_packed import new_cell
from elmo.model.product import Product


class FusedLstm:
    """Reads packed tokens with a layer's weights; not for training.

    Args:
        lstm: The layer. Its weights must not change afterwards.
        form: How matrices are multiplied.
    """

    def __init__(self, lstm: Lstm, form: type[Product]) -> None:
        self.config = lstm.config
        weight = torch.cat([lstm.input_weight, lstm.state_weight], dim=1)
        i, g, f, o = weight.chunk(4)
        bias_i, bias_g, bias_f, bias_o = lstm.full_bias.chunk(4)
        self.sigmoid_gates = form(
            torch.cat([i, f, o]), torch.cat([bias_i, bias_f, bias_o]), "sigmoid"
        )
        self.tanh_gate = form(g, bias_g.contiguous(), "tanh")
        projection = lstm.projection_weight
        self.projection = None if projection is None else form(projection)

    def read(
        self, x: Float[Tensor, "packed dim"], batch_sizes: Sequence[int], state: LayerState
    ) -> tuple[Float[Tensor, "packed dim"], LayerState]:
        """As `PackedLstm.read`."""
        config, dim = self.config, self.config.dim
        h, c = state.h.clone(), state.c.clone()
        # Each row: a token, and what the step before it gave.
        inputs = torch.empty(len(x), 2 * dim, dtype=x.dtype, device=x.device)
        inputs[:, :dim] = x
        first = batch_sizes[0] if batch_sizes else 0
        inputs[:first, dim:] = h[:first]
        outputs = torch.empty_like(x)
        done = 0
        for n, n_next in zip(batch_sizes, [*batch_sizes[1:], 0], strict=False):
            of_step = inputs[done : done + n]
            i, f, o = self.sigmoid_gates(of_step).chunk(3, dim=1)
            out = new_cell(i, self.tanh_gate(of_step), f, c[:n], config.cell_clip).mul_(o)
            if self.projection is not None:
                out = self.projection(out)
                if config.projection_clip is not None:
                    out.clamp_(-config.projection_clip, config.projection_clip)
            outputs[done : done + n] = out
            done += n
            inputs[done : done + n_next, dim:] = out[:n_next]
            h[n_next:n] = out[n_next:]
        return outputs, LayerState(h, c)
