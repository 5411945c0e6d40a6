import shutil

import pytest
import torch

from elmo.config import LstmConfig
from elmo.model import lstm_window
from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_window import read_window

STEPS, ROWS, DIM = 6, 3, 5
CONFIGS = {
    "clipped": LstmConfig(1, 7, DIM, cell_clip=0.3, projection_clip=0.2),
    "unclipped": LstmConfig(1, 7, DIM, cell_clip=None, projection_clip=None),
    "no projection": LstmConfig(1, DIM, DIM, 0.3, None, projection=False),
}


def by_definition(lstms, x, state, keep):
    """Each direction step by step with `Lstm`, its state set to zero where `keep` says so."""
    outputs, last = [], []
    for d, lstm in enumerate(lstms):
        now, steps = LayerState(state.h[d], state.c[d]), []
        for t in range(x.shape[1]):
            if keep is not None:
                kept = keep[d, t].unsqueeze(1)
                now = LayerState(now.h * kept, now.c * kept)
            mask = torch.ones(x.shape[2], 1, dtype=torch.bool)
            out, now = lstm(x[d, t].unsqueeze(1), mask, now)
            steps.append(out[:, 0])
        outputs.append(torch.stack(steps))
        last.append(now)
    return torch.stack(outputs), LayerState(
        *(torch.stack(part) for part in zip(*last, strict=True))
    )


def check(config, resets, steps=STEPS, rows=ROWS):
    lstms = tuple(Lstm(config).double() for _ in range(2))
    for lstm in lstms:
        lstm.reset_parameters()
        torch.nn.init.normal_(lstm.bias)
    x = torch.randn(2, steps, rows, config.dim, dtype=torch.float64, requires_grad=True)
    state = LayerState(
        torch.randn(2, rows, config.dim).double(), torch.randn(2, rows, config.hidden_dim).double()
    )
    keep = (torch.rand(2, steps, rows) > 0.3).double() if resets else None
    out, last = read_window(lstms, x, state, keep)
    plain, plain_last = by_definition(lstms, x, state, keep)
    torch.testing.assert_close(out, plain, atol=1e-13, rtol=0)
    torch.testing.assert_close(last.h, plain_last.h, atol=1e-13, rtol=0)
    torch.testing.assert_close(last.c, plain_last.c, atol=1e-13, rtol=0)
    parameters = [x, *(p for lstm in lstms for p in lstm.parameters())]
    weighting = torch.randn_like(out)
    for ours, theirs in zip(
        torch.autograd.grad((out * weighting).sum(), parameters),
        torch.autograd.grad((plain * weighting).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-10)
    return out


@pytest.fixture(autouse=True)
def double_products(monkeypatch):
    """Products in float64 here, so that any difference is a fault and not rounding."""
    original = lstm_window.read_window
    monkeypatch.setitem(
        globals(), "read_window", lambda *arguments: original(*arguments, torch.float64)
    )


@pytest.mark.parametrize("resets", [False, True], ids=["carried", "reset"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_outputs_state_and_gradients_are_those_of_the_definition(config, resets):
    check(config, resets)


def test_bfloat16_products_stay_near_float32():
    lstms = tuple(Lstm(CONFIGS["clipped"]) for _ in range(2))
    for lstm in lstms:
        lstm.reset_parameters()
    x = torch.randn(2, STEPS, ROWS, DIM)
    state = LayerState(torch.zeros(2, ROWS, DIM), torch.zeros(2, ROWS, 7))
    exact, _ = lstm_window.read_window(lstms, x, state)
    short, last = lstm_window.read_window(lstms, x, state, None, torch.bfloat16)
    assert short.dtype == last.c.dtype == torch.float32
    torch.testing.assert_close(short, exact, atol=0.02, rtol=0)
    assert not torch.equal(short, exact)


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")),
    reason="torch.compile needs a C++ compiler",
)
def test_compiled_gates_are_those_of_the_definition(monkeypatch):
    # Compiled in-place code once lost its writes, as two arguments were views of one storage.
    for name in ("cell_forward", "cell_backward"):
        monkeypatch.setattr(lstm_window, name, torch.compile(getattr(lstm_window, name)))
    config = LstmConfig(1, 64, 48, cell_clip=0.3, projection_clip=0.2)
    for resets in (False, True):
        # Memory that was freed holds numbers, not zeros: what is not written shows.
        torch.full((2_000_000,), 1e6).sum()
        check(config, resets, rows=16)
