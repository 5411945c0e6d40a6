"""LSTM layers with random weights and states, and how Hypothesis draws their settings."""

import torch
from hypothesis import strategies as st

from elmo.config import LstmConfig
from elmo.model.lstm import LayerState, Lstm

DIM = 4


@st.composite
def lstm_shapes(draw):
    """Arguments of an `LstmConfig` (made later: type checks would disturb Hypothesis)."""
    projects, clips = draw(st.booleans()), st.none() | st.sampled_from([0.05, 0.3, 3.0])
    return {
        "n_layers": 1,
        "hidden_dim": draw(st.integers(2, 6)) if projects else DIM,
        "dim": DIM,
        "cell_clip": draw(clips),
        "projection_clip": draw(clips),
        "projection": projects,
    }


def random_lstm(config: LstmConfig, seed: int = 0) -> Lstm:
    """In float64, so that any difference from another form is a fault and not rounding."""
    generator = torch.Generator().manual_seed(seed)
    lstm = Lstm(config).double()
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return lstm


def random_state(config: LstmConfig, *leading: int) -> LayerState:
    """Of float64 normal numbers; `leading` are the axes before the last."""
    return LayerState(
        *(torch.randn(*leading, dim).double() for dim in (config.dim, config.hidden_dim))
    )
