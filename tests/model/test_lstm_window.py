import inspect
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lstms import lstm_shapes, random_lstm, random_state

from elmo.config import LstmConfig
from elmo.model import lstm_window, softmax_chunked
from elmo.model.lstm import LayerState
from elmo.model.lstm_window import read_window
from elmo.pretrain.learner import compiled_cells

CLIPPED = LstmConfig(1, 7, 5, cell_clip=0.3, projection_clip=0.2)
STEPS, ROWS = 6, 3


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
    parts = zip(*last, strict=True)
    return torch.stack(outputs), LayerState(*(torch.stack(part) for part in parts))


def check(config, *, resets, steps=STEPS, rows=ROWS, seed=0):
    """Outputs, state and gradients of a random window, in float64, against the definition."""
    lstms = (random_lstm(config, 2 * seed), random_lstm(config, 2 * seed + 1))
    x = torch.randn(2, steps, rows, config.dim, dtype=torch.float64, requires_grad=True)
    state = random_state(config, 2, rows)
    keep = (torch.rand(2, steps, rows) > 0.3).double() if resets else None
    before = [part.clone() for part in (x, *state)]
    out, last = read_window(lstms, x, state, keep, torch.float64)
    plain, plain_last = by_definition(lstms, x, state, keep)
    torch.testing.assert_close(out, plain, atol=1e-12, rtol=0)
    torch.testing.assert_close(last.h, plain_last.h.detach(), atol=1e-12, rtol=0)
    torch.testing.assert_close(last.c, plain_last.c.detach(), atol=1e-12, rtol=0)
    parameters = [x, *(p for lstm in lstms for p in lstm.parameters())]
    weighting = torch.randn_like(out)
    for ours, theirs in zip(
        torch.autograd.grad((out * weighting).sum(), parameters),
        torch.autograd.grad((plain * weighting).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-11, rtol=1e-10)
    for given_before, now in zip(before, (x, *state), strict=True):
        assert torch.equal(given_before, now)


@settings(max_examples=50)
@given(
    shape=lstm_shapes(),
    resets=st.booleans(),
    steps=st.integers(1, 5),
    rows=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_outputs_state_and_gradients_are_those_of_the_definition(shape, resets, steps, rows, seed):
    check(LstmConfig(**shape), resets=resets, steps=steps, rows=rows, seed=seed)


def test_a_row_that_begins_anew_forgets_what_came_before():
    config = LstmConfig(1, 7, 5, cell_clip=None, projection_clip=None)
    lstms = (random_lstm(config), random_lstm(config, 1))
    x, keep = torch.randn(2, STEPS, ROWS, 5).double(), torch.ones(2, STEPS, ROWS).double()
    keep[1, 2, 0] = 0.0
    one, other = (
        read_window(lstms, x, random_state(config, 2, ROWS), keep, torch.float64)[0]
        for _ in range(2)
    )
    same = (one == other).all(dim=-1)  # (directions, steps, rows)
    assert same[1, 2:, 0].all()
    same[1, 2:, 0] = False
    assert not same.any()


def test_gradients_end_where_the_window_does():
    lstms = (random_lstm(CLIPPED), random_lstm(CLIPPED, 1))
    state = LayerState(*(part.requires_grad_() for part in random_state(CLIPPED, 2, ROWS)))
    x = torch.randn(2, STEPS, ROWS, 5).double()
    out, last = read_window(lstms, x, state, None, torch.float64)
    assert not last.h.requires_grad and not last.c.requires_grad
    out.sum().backward()
    assert state.h.grad is None and state.c.grad is None


def test_a_second_backward_pass_is_refused_and_not_wrong():
    # The first one writes over what the forward pass left.
    lstms = (random_lstm(CLIPPED), random_lstm(CLIPPED, 1))
    x = torch.randn(2, STEPS, ROWS, 5).double()
    out, _ = read_window(lstms, x, random_state(CLIPPED, 2, ROWS), None, torch.float64)
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_bfloat16_products_stay_near_float32():
    lstms = (random_lstm(CLIPPED).float(), random_lstm(CLIPPED, 1).float())
    for lstm in lstms:
        lstm.reset_parameters()
    x = torch.randn(2, STEPS, ROWS, 5)
    state = LayerState(torch.zeros(2, ROWS, 5), torch.zeros(2, ROWS, 7))
    exact, _ = read_window(lstms, x, state)
    short, last = read_window(lstms, x, state, None, torch.bfloat16)
    assert short.dtype == last.h.dtype == last.c.dtype == torch.float32
    torch.testing.assert_close(short, exact, atol=0.02, rtol=0)
    assert not torch.equal(short, exact)
    weighting = torch.randn_like(exact)
    parameters = [p for lstm in lstms for p in lstm.parameters()]
    for near, wanted in zip(
        torch.autograd.grad((short * weighting).sum(), parameters),
        torch.autograd.grad((exact * weighting).sum(), parameters),
        strict=True,
    ):
        assert near.dtype == torch.float32
        cosine = torch.nn.functional.cosine_similarity(near.flatten(), wanted.flatten(), dim=0)
        assert cosine > 0.99


@pytest.mark.slow
@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))),
    reason="torch.compile needs a C++ compiler",
)
# PyTorch warns of its own use of TorchScript when it compiles.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_compiled_as_pre_training_compiles_it_is_the_definition_still(monkeypatch):
    # Compiled in-place code once lost its writes, as two arguments were views of one storage.
    for module, name in (
        (lstm_window, "cell_forward"),
        (lstm_window, "cell_backward"),
        (softmax_chunked, "probabilities"),
    ):
        # Without the type checks of the tests, as a run has them; undone after the test.
        monkeypatch.setattr(module, name, inspect.unwrap(getattr(module, name)))
    eager = lstm_window.cell_forward
    with compiled_cells():
        assert lstm_window.cell_forward is not eager
        for config in (
            LstmConfig(1, 64, 48, cell_clip=0.3, projection_clip=0.2),
            LstmConfig(1, 48, 48, cell_clip=None, projection_clip=None, projection=False),
        ):
            for resets in (False, True):
                # Memory that was freed holds such numbers: what is not written will show.
                freed = [torch.full((2, STEPS + 1, 16, 64), 1e6).double() for _ in range(8)]
                del freed
                check(config, resets=resets, rows=16)
    assert lstm_window.cell_forward is eager
