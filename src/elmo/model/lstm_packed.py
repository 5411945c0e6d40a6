"""An LSTM layer for inference, without padding.

As `lstm`, but each step takes only the rows that still have a token, and the input half of the
gates is one large product. `lstm_fused` is faster where a step has many rows.
Rows are sorted by length, longest first, and tokens stand in the order of time: all first tokens,
all second tokens of the rows that have one, and so on. Axes: packed (all tokens), dim.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo.model.lstm import LayerState, Lstm
from elmo.model.product import PlainProduct, Product

GATE_BYTES = 2**24
"""Memory for the gates of one stretch of time; what is longer is read in several. So little that
it is kept for the next stretch: new memory costs as much as a third of the product."""


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


class PackedLstm:
    """Reads packed tokens with a layer's weights; not for training.

    Args:
        lstm: The layer. Its weights must not change afterwards.
        form: How matrices are multiplied.
    """

    def __init__(self, lstm: Lstm, form: type[Product] = PlainProduct) -> None:
        self.config = lstm.config
        self.inputs = form(lstm.input_weight, lstm.full_bias)
        self.states = form(lstm.state_weight)
        projection = lstm.projection_weight
        self.projection = None if projection is None else form(projection)

    def read(
        self, x: Float[Tensor, "packed dim"], batch_sizes: Sequence[int], state: LayerState
    ) -> tuple[Float[Tensor, "packed dim"], LayerState]:
        """Read packed tokens; the numbers are those of `Lstm.forward`.

        Args:
            x: Packed tokens.
            batch_sizes: Rows at each step, never growing.
            state: Of every row; rows without tokens keep theirs.
        """
        config, hidden = self.config, self.config.hidden_dim
        h, c = state.h.clone(), state.c.clone()
        outputs, out, done = [], h, 0
        for sizes in stretches(batch_sizes, GATE_BYTES // (4 * hidden * x.element_size())):
            part = x[done : done + sum(sizes)]
            done += sum(sizes)
            for of_step in self.inputs(part).split(sizes):
                n = len(of_step)
                h[n : len(out)] = out[n:]  # of rows that have ended
                summed = self.states.plus(out[:n], of_step)
                i, g, f_o = torch.split_with_sizes(summed, (hidden, hidden, 2 * hidden), 1)
                f, o = f_o.sigmoid_().chunk(2, 1)
                out = new_cell(i.sigmoid_(), g.tanh_(), f, c[:n], config.cell_clip).mul_(o)
                if self.projection is None:
                    out = out.clone()  # or it would keep the gates, in which it lies
                else:
                    out = self.projection(out)
                    if config.projection_clip is not None:
                        out.clamp_(-config.projection_clip, config.projection_clip)
                outputs.append(out)
        h[: len(out)] = out
        return torch.cat(outputs) if outputs else torch.empty_like(x), LayerState(h, c)


def stretches(batch_sizes: Sequence[int], n_tokens: int) -> Iterator[list[int]]:
    """Steps in turn, together as many as have at most that many tokens, or else one."""
    sizes: list[int] = []
    room = n_tokens
    for n in batch_sizes:
        if sizes and n > room:
            yield sizes
            sizes, room = [], n_tokens
        sizes.append(n)
        room -= n
    if sizes:
        yield sizes


def new_cell(i: Tensor, g: Tensor, f: Tensor, c: Tensor, cell_clip: float | None) -> Tensor:
    """Make `c` the new cell, in place, and `g` its tanh, which is given back."""
    c.mul_(f).addcmul_(i, g)
    if cell_clip is not None:
        c.clamp_(-cell_clip, cell_clip)
    return torch.tanh(c, out=g)
