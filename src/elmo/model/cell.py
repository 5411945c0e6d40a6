"""A cell between the two matrix products of a step, for inference; and who can do it in one kernel.

The plain form is the definition. `cell_triton` says the same in one kernel per step, for this and
for the pair that training uses (`lstm_window`). Axes: directions, rows, hidden, gates = 4 × hidden.
"""

from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from jaxtyping import Bool, Float
from torch import Tensor

OLDEST_CAPABILITY = (7, 0)
"""Of the devices that Triton compiles for."""


def cell_step(
    gates: Float[Tensor, "directions rows gates"],
    cells: Float[Tensor, "directions rows hidden"],
    real: Bool[Tensor, " rows"],
    cell_clip: float | None,
    out: Float[Tensor, "directions rows hidden"],
) -> None:
    """Take a step: the cells change in place where a row is real, the output goes into `out`.

    Args:
        gates: Before activation, in the order i, g, f, o, all biases added.
        cells: In float32 at least, whatever the gates are in.
        real: Where a row still has a token; elsewhere its cell stays, and its output says nothing.
        cell_clip: Cells are clipped to ±cell_clip; None for no clipping.
        out: Output before projection, in the dtype of the gates.
    """
    i, g, f, o = gates.to(cells.dtype).chunk(4, dim=-1)
    new = torch.sigmoid(f) * cells + torch.sigmoid(i) * torch.tanh(g)
    if cell_clip is not None:
        new = new.clamp(-cell_clip, cell_clip)
    out.copy_(torch.sigmoid(o) * torch.tanh(new))
    cells.copy_(torch.where(real.unsqueeze(-1), new, cells))


def fused_cells(cells: Tensor) -> ModuleType | None:
    """`elmo.model.cell_triton` if it can compute these cells here, else None."""
    if not cells.is_cuda or cells.dtype != torch.float32:
        return None
    return _triton_for(cells.device)


@cache
def _triton_for(device: torch.device) -> ModuleType | None:
    # Triton comes with PyTorch's CUDA wheels for Linux, but not with every PyTorch.
    if torch.cuda.get_device_capability(device) < OLDEST_CAPABILITY or find_spec("triton") is None:
        return None
    from elmo.model import cell_triton

    return cell_triton
