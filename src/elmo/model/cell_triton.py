"""A cell between the two matrix products of a step, as one Triton kernel.

`cell_step` says what `elmo.model.cell.cell_step` says, `cell_forward` and `cell_backward` what the
functions of these names in `elmo.model.lstm_window` say: the numbers are theirs up to rounding, and
gates, cells and outputs pass through memory once. Import it through `elmo.model.cell.fused_cells`,
which knows whether Triton is there. Axes: directions, rows, hidden.

Between the rows of a tensor there is no gap; between its directions there may be one (`…_apart`),
as a step is a slice of a window. Arithmetic is in float32; what is stored is rounded to the dtype
of where it goes.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_BLOCK = 1024
"""Cells that one program computes, all of one row."""


def cell_step(
    gates: Tensor, cells: Tensor, real: Tensor, cell_clip: float | None, out: Tensor
) -> None:
    """As `elmo.model.cell.cell_step`."""
    _launch(
        _step,
        cells,
        (gates, cells, real, out),
        (_apart(gates), _apart(cells), _apart(out)),
        cell_clip,
    )


def cell_forward(
    gates: Tensor,
    last_c: Tensor,
    keep: Tensor | None,
    cell_clip: float | None,
    into: tuple[Tensor, Tensor, Tensor],
) -> None:
    """As `elmo.model.lstm_window.cell_forward`."""
    c, tanh_c, out = into
    _launch(
        _forward,
        c,
        (gates, last_c, gates if keep is None else keep, c, tanh_c, out),
        (*map(_apart, (gates, last_c, c, tanh_c, out)), *_keep_strides(keep)),
        cell_clip,
        KEEPS=keep is not None,
    )


def cell_backward(
    d_out: Tensor,
    d_c: Tensor,
    gates: Tensor,
    cells: tuple[Tensor, Tensor, Tensor],
    keep: Tensor | None,
    cell_clip: float | None,
) -> None:
    """As `elmo.model.lstm_window.cell_backward`."""
    last_c, c, tanh_c = cells
    _launch(
        _backward,
        c,
        (d_out, d_c, gates, last_c, c, tanh_c, gates if keep is None else keep),
        (*map(_apart, (d_out, d_c, gates, last_c, c, tanh_c)), *_keep_strides(keep)),
        cell_clip,
        KEEPS=keep is not None,
    )


@no_type_check  # a kernel is called with its grid in brackets
def _launch(kernel, cells, tensors, strides, cell_clip, **switches):
    n_directions, n_rows, hidden = cells.shape
    block = min(MAX_BLOCK, triton.next_power_of_2(hidden))
    grid = (n_directions * n_rows, triton.cdiv(hidden, block))
    clip = 0.0 if cell_clip is None else float(cell_clip)
    with torch.cuda.device_of(cells):
        kernel[grid](
            *tensors,
            *strides,
            n_rows,
            hidden,
            clip,
            CLIPS=cell_clip is not None,
            BLOCK=block,
            **switches,
        )


def _apart(x: Tensor) -> int:
    assert x.stride(2) == 1 and (x.stride(1) == x.shape[2] or x.shape[1] == 1)
    return x.stride(0)


def _keep_strides(keep: Tensor | None) -> tuple[int, int]:
    return (0, 0) if keep is None else (keep.stride(0), keep.stride(1))


# Kernels. `no_type_check`: they are Triton's language, not Python's.


@triton.jit
@no_type_check
def _tanh(x):
    # Triton has no tanh that all of its versions and its interpreter know.
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
@no_type_check
def _clipped(x, clip):
    # Not by minimum and maximum, which may turn NaN into a number.
    return tl.where(x > clip, clip, tl.where(x < -clip, -clip, x))


@triton.jit
@no_type_check
def _load(pointer, inside):
    return tl.load(pointer, mask=inside, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def _step(
    gates,
    cells,
    real,
    out,
    gates_apart,
    cells_apart,
    out_apart,
    n_rows,
    hidden,
    clip,
    CLIPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    direction, row = program // n_rows, program % n_rows
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < hidden
    gates += direction * gates_apart + row * 4 * hidden + place
    cells += direction * cells_apart + row * hidden + place
    out += direction * out_apart + row * hidden + place
    i = tl.sigmoid(_load(gates, inside))
    g = _tanh(_load(gates + hidden, inside))
    f = tl.sigmoid(_load(gates + 2 * hidden, inside))
    o = tl.sigmoid(_load(gates + 3 * hidden, inside))
    last = _load(cells, inside)
    new = f * last + i * g
    if CLIPS:
        new = _clipped(new, clip)
    tl.store(out, (o * _tanh(new)).to(out.dtype.element_ty), mask=inside)
    tl.store(cells, tl.where(tl.load(real + row) != 0, new, last), mask=inside)


@triton.jit
@no_type_check
def _forward(
    gates,
    last_c,
    keep,
    c,
    tanh_c,
    out,
    gates_apart,
    last_c_apart,
    c_apart,
    tanh_c_apart,
    out_apart,
    keep_apart,
    keep_row_apart,
    n_rows,
    hidden,
    clip,
    KEEPS: tl.constexpr,
    CLIPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    direction, row = program // n_rows, program % n_rows
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < hidden
    gates += direction * gates_apart + row * 4 * hidden + place
    here = row * hidden + place
    i = tl.sigmoid(_load(gates, inside))
    g = _tanh(_load(gates + hidden, inside))
    f = tl.sigmoid(_load(gates + 2 * hidden, inside))
    o = tl.sigmoid(_load(gates + 3 * hidden, inside))
    last = _load(last_c + direction * last_c_apart + here, inside)
    if KEEPS:
        last *= tl.load(keep + direction * keep_apart + row * keep_row_apart).to(tl.float32)
    new = f * last + i * g
    if CLIPS:
        new = _clipped(new, clip)
    tanh_new = _tanh(new)
    short = gates.dtype.element_ty
    tl.store(c + direction * c_apart + here, new, mask=inside)
    tl.store(tanh_c + direction * tanh_c_apart + here, tanh_new.to(short), mask=inside)
    tl.store(out + direction * out_apart + here, (o * tanh_new).to(short), mask=inside)
    tl.store(gates, i.to(short), mask=inside)
    tl.store(gates + hidden, g.to(short), mask=inside)
    tl.store(gates + 2 * hidden, f.to(short), mask=inside)
    tl.store(gates + 3 * hidden, o.to(short), mask=inside)


@triton.jit
@no_type_check
def _backward(
    d_out,
    d_c,
    gates,
    last_c,
    c,
    tanh_c,
    keep,
    d_out_apart,
    d_c_apart,
    gates_apart,
    last_c_apart,
    c_apart,
    tanh_c_apart,
    keep_apart,
    keep_row_apart,
    n_rows,
    hidden,
    clip,
    KEEPS: tl.constexpr,
    CLIPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    direction, row = program // n_rows, program % n_rows
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < hidden
    gates += direction * gates_apart + row * 4 * hidden + place
    here = row * hidden + place
    d_c += direction * d_c_apart + here
    i, g = _load(gates, inside), _load(gates + hidden, inside)
    f, o = _load(gates + 2 * hidden, inside), _load(gates + 3 * hidden, inside)
    tanh_new = _load(tanh_c + direction * tanh_c_apart + here, inside)
    last = _load(last_c + direction * last_c_apart + here, inside)
    d = _load(d_out + direction * d_out_apart + here, inside)
    d_new = _load(d_c, inside) + d * o * (1 - tanh_new * tanh_new)
    if CLIPS:
        new = _load(c + direction * c_apart + here, inside)
        d_new = tl.where(tl.abs(new) < clip, d_new, 0.0)
    d_last = d_new * f
    if KEEPS:
        kept = tl.load(keep + direction * keep_apart + row * keep_row_apart).to(tl.float32)
        last *= kept
        d_last *= kept
    short = gates.dtype.element_ty
    tl.store(gates, (d_new * g * i * (1 - i)).to(short), mask=inside)
    tl.store(gates + hidden, (d_new * i * (1 - g * g)).to(short), mask=inside)
    tl.store(gates + 2 * hidden, (d_new * last * f * (1 - f)).to(short), mask=inside)
    tl.store(gates + 3 * hidden, (d * tanh_new * o * (1 - o)).to(short), mask=inside)
    tl.store(d_c, d_last, mask=inside)
