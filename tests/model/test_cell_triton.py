"""The kernels against the plain functions.

Triton's interpreter runs them without a GPU, in a process of its own, as Triton decides when it is
imported; on a GPU the same comparison runs as it is. As a program, this file is that comparison.
"""

import importlib.util
import os
import subprocess
import sys
from itertools import product

import pytest
import torch

from elmo.model import cell, lstm_window
from elmo.model.cell import fused_cells

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed; it comes with PyTorch's CUDA wheels",
)
STEPS, T = 3, 1
SHAPES = [(5, 3), (1030, 2), (16, 1)]
"""(hidden, rows): a block not full, two blocks to a row, a full one."""
# The interpreter cuts bfloat16 off where a device rounds, at 2**-8 of a number.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 5e-2}


def compare(device):
    from elmo.model import cell_triton

    for (hidden, rows), clip, keeps, dtype in product(
        SHAPES, (None, 0.3), (False, True), TOLERANCE
    ):
        tolerance = TOLERANCE[dtype]
        inputs = random_inputs(hidden, rows, keeps, dtype, device)
        # Kernels compute in float32 whatever they store, so that this is what they should give.
        exact = [None if part is None else part.float() for part in inputs]
        plain, ours = train(lstm_window, clip, *exact), train(cell_triton, clip, *inputs)
        for name in plain:
            torch.testing.assert_close(ours[name].float(), plain[name], atol=tolerance, rtol=0)
        assert not torch.equal(ours["gates"], plain["activated"])
        plain, ours = (step(cells, clip, *inputs) for cells in (cell, cell_triton))
        for name in plain:
            torch.testing.assert_close(ours[name], plain[name], atol=tolerance, rtol=0)
    gates = torch.full((2, 1, 8), torch.nan, device=device)
    c, out = torch.zeros(2, 1, 2, device=device), torch.zeros(2, 1, 2, device=device)
    cell_triton.cell_step(gates, c, torch.ones(1, dtype=torch.bool, device=device), 3.0, out)
    assert c.isnan().all() and out.isnan().all(), "a clip hides what is not a number"


def random_inputs(hidden, rows, keeps, dtype, device):
    generator = torch.Generator().manual_seed(hidden)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).to(device)

    gates = (2 * normal(2, STEPS, rows, 4 * hidden)).to(dtype)
    # Each row of `keep` is not one piece of memory: a window's rows are transposed.
    keep = (normal(2, rows, STEPS) > 0).float().transpose(1, 2) if keeps else None
    d_out = normal(2, rows, hidden).to(dtype)
    return gates, normal(2, 1, rows, hidden)[:, 0], keep, d_out, normal(2, rows, hidden)


def train(cells, clip, gates, last_c, keep, d_out, d_c):
    """All that the pair for training writes, one step of a window."""
    gates, d_c, before = gates.clone(), d_c.clone(), last_c.clone()
    kept = None if keep is None else keep[:, T, :, None]
    c = torch.full_like(last_c, 9.0)
    tanh_c, out = (gates.new_full((*gates.shape[:3], c.shape[-1]), 9.0) for _ in range(2))
    cells.cell_forward(gates[:, T], last_c, kept, clip, (c, tanh_c[:, T], out[:, T]))
    activated = gates.clone()
    cells.cell_backward(d_out, d_c, gates[:, T], (last_c, c, tanh_c[:, T]), kept, clip)
    assert torch.equal(last_c, before)
    return {
        "activated": activated,
        "c": c,
        "tanh_c": tanh_c,
        "out": out,
        "gates": gates,
        "d_c": d_c,
    }


def step(cells, clip, gates, last_c, _keep, d_out, _d_c):
    """All that a step of inference writes, of rows that end and rows that do not."""
    c, out = last_c.clone(), torch.full_like(gates, 9.0)[..., : last_c.shape[-1]].contiguous()
    real = torch.arange(c.shape[1], device=c.device) % 2 == 0
    cells.cell_step(gates[:, T], c, real, clip, out[:, T])
    assert torch.equal(c[:, ~real], last_c[:, ~real])
    return {"c": c, "out": out}


@needs_triton
def test_kernels_say_what_the_plain_functions_say():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.gpu
@needs_triton
def test_kernels_say_it_on_a_gpu():
    compare("cuda")


@pytest.mark.gpu
@needs_triton
def test_a_gpu_with_triton_takes_the_kernels():
    assert fused_cells(torch.zeros(2, 3, 4, device="cuda")) is not None
    assert fused_cells(torch.zeros(2, 3, 4, device="cuda", dtype=torch.float64)) is None


def test_without_a_gpu_the_plain_functions_are_taken():
    assert fused_cells(torch.zeros(2, 3, 4)) is None


if __name__ == "__main__":
    compare("cpu")
