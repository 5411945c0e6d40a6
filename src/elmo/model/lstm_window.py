"""LSTM layers for training: full windows, both directions at once, gradients written out.

As `lstm`, but the two directions are one batched product, the input half of the gates is one large
product, and the backward pass leaves the weight gradients to one large product each. Products can
be in bfloat16 while cells, sums and gradients of weights stay in float32. On a GPU a cell is one
kernel (`cell_triton`). Axes: directions, steps, batch, dim (or hidden, or gates = 4 × hidden).
Gates stand in the order i, g, f, o.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.model.cell import fused_cells
from elmo.model.lstm import LayerState, Lstm

WindowReader = Callable[..., tuple[Tensor, LayerState]]
"""`read_window`, or what takes the same arguments and gives the same numbers."""


def read_window(
    lstms: tuple[Lstm, Lstm],
    x: Float[Tensor, "directions steps batch dim"],
    state: LayerState,
    keep: Float[Tensor, "directions steps batch"] | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Float[Tensor, "directions steps batch dim"], LayerState]:
    """Read a window without padding; numbers and gradients are those of `Lstm.forward`.

    Args:
        lstms: The same layer of the forward and the backward direction.
        x: Inputs, each direction in its own reading order.
        state: Of both directions, (directions, batch, ·) each; no gradient flows into it, as
            windows are where backpropagation through time is cut.
        keep: 0 where the state is set to zero before a token is read (a new sentence begins), 1
            elsewhere. None keeps it throughout.
        dtype: Of the matrix products.
    """
    weights, clips = stacked_weights(lstms)
    outputs, h, c = Window.apply(x, state.h, state.c, keep, *weights, clips, dtype)
    return outputs, LayerState(h, c)


def stacked_weights(
    lstms: tuple[Lstm, Lstm],
) -> tuple[list[Tensor], tuple[float | None, float | None]]:
    """Weights and clips as `Window` takes them; an empty tensor where there is no projection."""
    config = lstms[0].config
    weights = [
        torch.stack([lstm.input_weight for lstm in lstms]),
        torch.stack([lstm.state_weight for lstm in lstms]),
        torch.stack([lstm.full_bias for lstm in lstms]),
    ]
    projections: list[Tensor] = [
        lstm.projection_weight for lstm in lstms if lstm.projection_weight is not None
    ]
    weights.append(torch.stack(projections) if projections else weights[0].new_empty(0))
    return weights, (config.cell_clip, config.projection_clip if projections else None)


def cell_forward(
    gates: Tensor,
    last_c: Tensor,
    keep: Tensor | None,
    cell_clip: float | None,
    into: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Activate the gates in place; the new cell, its tanh and the output go where `into` says.

    Gates, tanh and output are in one dtype, cells in float32 at least.
    """
    c, tanh_c, out = into
    hidden = c.shape[-1]
    i, g, f_o = gates.split((hidden, hidden, 2 * hidden), dim=-1)
    i.sigmoid_()
    g.tanh_()
    f, o = f_o.sigmoid_().chunk(2, dim=-1)
    c.copy_(last_c if keep is None else last_c * keep).mul_(f.to(c.dtype))
    c.addcmul_(i.to(c.dtype), g.to(c.dtype))
    if cell_clip is not None:
        c.clamp_(-cell_clip, cell_clip)
    tanh_c.copy_(torch.tanh(c))
    out.copy_(o * tanh_c)


def cell_backward(
    d_out: Tensor,
    d_c: Tensor,
    gates: Tensor,
    cells: tuple[Tensor, Tensor, Tensor],
    keep: Tensor | None,
    cell_clip: float | None,
) -> None:
    """Gradients of output and new cell → of gates before activation and last cell, in place.

    `cells` are the last cell, the new one, and its tanh; `gates` and `d_c` are written over. Where
    the cell was clipped nothing flows back.
    """
    last_c, c, tanh_c = cells
    i, g, f, o = gates.chunk(4, dim=-1)
    d_c.addcmul_(d_out.to(d_c.dtype), (o * (1 - tanh_c * tanh_c)).to(d_c.dtype))
    if cell_clip is not None:
        d_c.masked_fill_(c.abs() >= cell_clip, 0.0)
    d_new = d_c.to(gates.dtype, copy=True)
    d_c.mul_(f.to(d_c.dtype))
    if keep is not None:
        last_c = last_c * keep
        d_c.mul_(keep)
    o.mul_((1 - o) * (d_out * tanh_c))
    f.mul_((1 - f) * (d_new * last_c.to(gates.dtype)))
    d_g = d_new * i
    i.mul_((1 - i) * (d_new * g))
    g.copy_(d_g * (1 - g * g))


class Window(torch.autograd.Function):
    """`read_window` on stacked weights."""

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx: Any, x, h, c, keep, input_weight, state_weight, bias, projection, clips, dtype
    ):
        """Outputs, and the last output and cell."""
        _, n_steps, n_rows, _ = x.shape
        cell_clip, projection_clip = clips
        projects = projection.numel() > 0
        x, w_in, w_state = x.to(dtype), input_weight.to(dtype), state_weight.to(dtype)
        w_out = projection.to(dtype) if projects else projection
        gates = torch.baddbmm(bias.to(dtype).unsqueeze(1), x.flatten(1, 2), w_in.transpose(1, 2))
        gates = gates.unflatten(1, (n_steps, n_rows))
        hidden = c.shape[-1]
        # Every cell has a storage of its own: compiled in-place code loses writes to a tensor
        # when another argument is a view of the same storage (torch 2.13).
        cells = [c, *(torch.empty_like(c) for _ in range(n_steps))]
        tanh_cells, unprojected = (gates.new_empty(*gates.shape[:-1], hidden) for _ in range(2))
        starts, outputs = torch.empty_like(x), torch.empty_like(x)
        h, fused = h.to(dtype), fused_cells(c)
        go_on = cell_forward if fused is None else fused.cell_forward
        for t in range(n_steps):
            kept = None if keep is None else keep[:, t, :, None]
            h = starts[:, t].copy_(h if kept is None else h * kept)
            gates[:, t].baddbmm_(h, w_state.transpose(1, 2))
            into = (cells[t + 1], tanh_cells[:, t], unprojected[:, t])
            go_on(gates[:, t], cells[t], kept, cell_clip, into)
            h = unprojected[:, t]
            if projects:
                h = torch.bmm(h, w_out.transpose(1, 2))
            if projection_clip is not None:
                h = h.clamp_(-projection_clip, projection_clip)
            outputs[:, t] = h
        ctx.save_for_backward(
            x, keep, w_in, w_state, w_out, gates, tanh_cells, unprojected, starts, outputs, *cells
        )
        ctx.clips = clips
        h, c = h.to(c.dtype), cells[-1].clone()
        ctx.mark_non_differentiable(h, c)
        return outputs.to(c.dtype), h, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, *_: Tensor):  # type: ignore[no-untyped-def]
        """Gradients of the input and the weights; what the forward pass left is written over."""
        x, keep, w_in, w_state, w_out, gates, tanh_cells, unprojected, starts, outputs = (
            ctx.saved_tensors[:10]
        )
        cells = ctx.saved_tensors[10:]
        cell_clip, projection_clip = ctx.clips
        projects, n_steps, dtype = w_out.numel() > 0, x.shape[1], x.dtype
        d_outputs = d_outputs.to(dtype)
        if projection_clip is not None:
            unclipped = outputs.abs() < projection_clip
        d_projected = torch.empty_like(outputs)
        d_h, d_c = torch.zeros_like(outputs[:, 0]), torch.zeros_like(cells[0])
        fused = fused_cells(d_c)
        go_back = cell_backward if fused is None else fused.cell_backward
        for t in reversed(range(n_steps)):
            kept = None if keep is None else keep[:, t, :, None]
            d_h = d_h.add_(d_outputs[:, t])
            if projection_clip is not None:
                d_h = d_h.mul_(unclipped[:, t])
            d_projected[:, t] = d_h
            d_out = torch.bmm(d_h, w_out) if projects else d_h
            around = (cells[t], cells[t + 1], tanh_cells[:, t])
            go_back(d_out, d_c, gates[:, t], around, kept, cell_clip)
            d_h = torch.bmm(gates[:, t], w_state)
            if kept is not None:
                d_h = d_h.mul_(kept.to(dtype))
        flat = gates.flatten(1, 2)  # gradients by now
        transposed = flat.transpose(1, 2)
        d_x = torch.bmm(flat, w_in).view_as(x).to(d_c.dtype)
        d_in = torch.bmm(transposed, x.flatten(1, 2)).to(d_c.dtype)
        d_state = torch.bmm(transposed, starts.flatten(1, 2)).to(d_c.dtype)
        # A product with ones: a sum that is as fast in bfloat16 as the products around it.
        ones = flat.new_ones(len(flat), 1, flat.shape[1])
        d_bias = torch.bmm(ones, flat).squeeze(1).to(d_c.dtype)
        d_projection = None
        if projects:
            d_projection = torch.bmm(
                d_projected.flatten(1, 2).transpose(1, 2), unprojected.flatten(1, 2)
            ).to(d_c.dtype)
        return d_x, None, None, None, d_in, d_state, d_bias, d_projection, None, None
