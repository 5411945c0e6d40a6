"""An LSTM layer for inference on few rows: both directions in the same operations.

As `lstm_packed`, but the two directions, which have as many rows at every step, are one batched
product and one set of gates. With few rows and a small layer a step takes less time than telling
PyTorch to do it, so that half as many operations are nearly twice as fast. Weights are transposed
once, as MKL likes them best. Axes: directions, packed (all tokens), dim, hidden.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_packed import GATE_BYTES, new_cell, stretches


class PairedLstm:
    """Reads packed tokens in both directions; not for training.

    Args:
        lstms: The layer of the forward and of the backward direction. Their weights must not change
            afterwards.
    """

    def __init__(self, lstms: tuple[Lstm, Lstm]) -> None:
        self.config = lstms[0].config
        self.input_weight = torch.stack([lstm.input_weight.T for lstm in lstms])
        self.state_weight = torch.stack([lstm.state_weight.T for lstm in lstms])
        self.bias = torch.stack([lstm.full_bias for lstm in lstms]).unsqueeze(1)
        projections = [x.projection_weight for x in lstms if x.projection_weight is not None]
        self.projection = torch.stack([w.T for w in projections]) if projections else None

    def read(
        self,
        x: Float[Tensor, "directions packed dim"],
        batch_sizes: Sequence[int],
        state: LayerState,
    ) -> tuple[Float[Tensor, "directions packed dim"], LayerState]:
        """As `PackedLstm.read`, each direction in its own reading order."""
        config, hidden = self.config, self.config.hidden_dim
        h, c = state.h.clone(), state.c.clone()
        outputs, out, done = [], h, 0
        for sizes in stretches(batch_sizes, GATE_BYTES // (8 * hidden * x.element_size())):
            part = x[:, done : done + sum(sizes)]
            done += sum(sizes)
            for of_step in torch.baddbmm(self.bias, part, self.input_weight).split(sizes, 1):
                n = of_step.shape[1]
                h[:, n : out.shape[1]] = out[:, n:]  # of rows that have ended
                summed = of_step.baddbmm_(out[:, :n], self.state_weight)
                i, g, f_o = torch.split_with_sizes(summed, (hidden, hidden, 2 * hidden), 2)
                f, o = f_o.sigmoid_().chunk(2, 2)
                out = new_cell(i.sigmoid_(), g.tanh_(), f, c[:, :n], config.cell_clip).mul_(o)
                if self.projection is None:
                    out = out.clone()  # or it would keep the gates, in which it lies
                else:
                    out = torch.bmm(out, self.projection)
                    if config.projection_clip is not None:
                        out.clamp_(-config.projection_clip, config.projection_clip)
                outputs.append(out)
        h[:, : out.shape[1]] = out
        return torch.cat(outputs, 1) if outputs else torch.empty_like(x), LayerState(h, c)
