"""An LSTM layer for inference, without padding.

As `lstm`, but each step takes only the rows that still have a token, and the input half of the
gates is one large product.
Rows are sorted by length, longest first, and tokens stand in the order of time: all first tokens,
all second tokens of the rows that have one, and so on. Axes: packed (all tokens), dim.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo.model.lstm import LayerState, Lstm

GATE_BYTES = 2**26
"""Memory for the gates of one stretch of time; a long sentence is read in several."""


def packed_order(
    mask: Bool[Tensor, "batch tokens"],
) -> tuple[Int[Tensor, " packed"], Int[Tensor, " packed"], list[int]]:
    """Where the packed tokens of a padded batch come from, rows sorted by length already.

    Returns:
        Positions in the flattened padded batch, in reading order; the position within the packed
        tokens that holds the mirrored token (the last for the first, …) of the same row; and the
        number of rows at each step.
    """
    n_tokens = mask.shape[1]
    steps, rows = mask.T.nonzero(as_tuple=True)
    lengths = mask.sum(dim=1)
    batch_sizes = mask.sum(dim=0)
    starts = torch.cumsum(batch_sizes, dim=0) - batch_sizes
    mirrored = starts[lengths[rows] - 1 - steps] + rows
    return rows * n_tokens + steps, mirrored, [n for n in batch_sizes.tolist() if n]


def read_packed(
    lstm: Lstm, x: Float[Tensor, "packed dim"], batch_sizes: Sequence[int], state: LayerState
) -> tuple[Float[Tensor, "packed dim"], LayerState]:
    """Read packed tokens; the numbers are those of `Lstm.forward`. Not for training: in place.

    Args:
        lstm: The layer.
        x: Packed tokens.
        batch_sizes: Rows at each step, never growing.
        state: Of every row; rows without tokens keep theirs.
    """
    config = lstm.config
    bias, state_weight = lstm.full_bias, lstm.state_weight.T
    h, c = state.h.clone(), state.c.clone()
    outputs = torch.empty(len(x), config.dim, dtype=x.dtype, device=x.device)
    stretch = max(1, GATE_BYTES // (len(bias) * x.element_size()))
    done, step = 0, 0
    while step < len(batch_sizes):
        last, n_rows = step, 0
        while last < len(batch_sizes) and (n_rows == 0 or n_rows + batch_sizes[last] <= stretch):
            n_rows += batch_sizes[last]
            last += 1
        gates = torch.addmm(bias, x[done : done + n_rows], lstm.input_weight.T)
        for batch_gates in gates.split(list(batch_sizes[step:last])):
            n = len(batch_gates)
            i, g, f, o = batch_gates.addmm_(h[:n], state_weight).chunk(4, dim=-1)
            cell = c[:n].mul_(f.sigmoid_()).add_(i.sigmoid_().mul_(g.tanh_()))
            if config.cell_clip is not None:
                cell.clamp_(-config.cell_clip, config.cell_clip)
            out = o.sigmoid_().mul_(torch.tanh(cell))
            if lstm.projection_weight is not None:
                out = out @ lstm.projection_weight.T
                if config.projection_clip is not None:
                    out.clamp_(-config.projection_clip, config.projection_clip)
            h[:n] = out
            outputs[done : done + n] = out
            done += n
        step = last
    return outputs, LayerState(h, c)
