import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.lstms import DIM, lstm_shapes, random_lstm, random_state

from elmo.config import LstmConfig
from elmo.model.lstm import Lstm

STEPS = 5


@given(
    shape=lstm_shapes(),
    lengths=st.lists(st.integers(0, STEPS), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_each_row_is_read_as_the_equations_say(shape, lengths, seed):
    config = LstmConfig(**shape)
    lstm, state = random_lstm(config, seed), random_state(config, len(lengths))
    x = torch.randn(len(lengths), STEPS, DIM).double()
    mask = torch.arange(STEPS) < torch.tensor(lengths).unsqueeze(1)
    outputs, last = lstm(x, mask, state)
    weights = {f"lstm.{name}": value for name, value in reference.weights_of(lstm).items()}
    for row, length in enumerate(lengths):
        h, c = state.h[row].numpy(), state.c[row].numpy()
        for t in range(length):
            h, c = reference.lstm_step(weights, "lstm", config, x[row, t].numpy(), h, c)
            np.testing.assert_allclose(outputs[row, t].detach(), h, atol=1e-12)
        assert not outputs[row, length:].any()
        np.testing.assert_allclose(last.h[row].detach(), h, atol=1e-12)
        np.testing.assert_allclose(last.c[row].detach(), c, atol=1e-12)


def test_clips_bound_cells_and_outputs():
    config = LstmConfig(1, 6, DIM, cell_clip=0.3, projection_clip=0.2)
    x, mask = torch.randn(3, STEPS, DIM).double(), torch.ones(3, STEPS, dtype=torch.bool)
    outputs, last = random_lstm(config)(x, mask, random_state(config, 3))
    assert outputs.abs().amax() == 0.2 and last.c.abs().amax() == 0.3


def test_without_a_projection_its_clip_has_no_effect():
    clipped, plain = (
        LstmConfig(1, DIM, DIM, None, clip, projection=False) for clip in (0.01, None)
    )
    x, mask = torch.randn(3, STEPS, DIM).double(), torch.ones(3, STEPS, dtype=torch.bool)
    state = random_state(plain, 3)
    ours, wanted = (random_lstm(config)(x, mask, state)[0] for config in (clipped, plain))
    assert torch.equal(ours, wanted) and wanted.abs().amax() > 0.01


def test_drawn_weights_are_those_of_tensorflow():
    lstm = Lstm(LstmConfig(1, 60, 20))
    lstm.reset_parameters()
    assert not lstm.bias.any()
    # Glorot: uniform over ±√(6 / (rows + columns)), of the whole kernel (inputs and state).
    bound = (6 / (240 + 40)) ** 0.5
    for weight in (lstm.input_weight, lstm.state_weight):
        assert 0.99 * bound < weight.abs().max() <= bound
    bound = (6 / (60 + 20)) ** 0.5
    assert 0.98 * bound < lstm.projection_weight.abs().max() <= bound


@pytest.mark.parametrize("gate", range(4))
def test_the_constant_is_added_to_the_forget_gate_alone(gate):
    lstm = random_lstm(LstmConfig(1, 6, DIM))
    added = (lstm.full_bias - lstm.bias).unflatten(0, (4, 6))[gate]
    torch.testing.assert_close(added, torch.full_like(added, 1.0 if gate == 2 else 0.0))
