"""Small models with random weights, and how Hypothesis draws them."""

import torch
from hypothesis import strategies as st

from elmo import BiLM, BiLMConfig, CharCnnConfig, LstmConfig

TINY = BiLMConfig(
    char_cnn=CharCnnConfig(char_dim=4, filters=((1, 3), (2, 5)), n_highway=1, dim=6),
    lstm=LstmConfig(n_layers=2, hidden_dim=7, dim=6),
)


def random_bilm(config: BiLMConfig = TINY, *, scale: float = 2.0, seed: int = 0) -> BiLM:
    """A biLM in evaluation mode, its weights large enough that every part matters."""
    generator = torch.Generator().manual_seed(seed)
    bilm = BiLM(config)
    with torch.no_grad():
        for parameter in bilm.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * scale * fan_in**-0.5)
        bilm.char_cnn.embedding.weight[0] = 0.0
    return bilm.eval()


@st.composite
def shapes(draw):
    """Anything an options.json can say, small: what `config_of` makes a config of.

    (A config made while Hypothesis draws would disturb it: type checks look at random items.)
    """
    dim = draw(st.integers(2, 5))
    widths = sorted(draw(st.sets(st.integers(1, 4), min_size=1, max_size=3)))
    filters = tuple((width, draw(st.integers(1, 3))) for width in widths)
    lstm_projects = draw(st.booleans())
    clips = st.none() | st.sampled_from([0.05, 0.3, 3.0])
    char_cnn = {
        "char_dim": draw(st.integers(1, 4)),
        "filters": filters,
        "n_highway": draw(st.integers(0, 2)),
        "dim": dim,
        "projection": draw(st.booleans()) or sum(n for _, n in filters) != dim,
        "activation": draw(st.sampled_from(["relu", "tanh"])),
    }
    lstm = {
        "n_layers": draw(st.integers(1, 3)),
        "hidden_dim": draw(st.integers(2, 6)) if lstm_projects else dim,
        "dim": dim,
        "projection": lstm_projects,
        "cell_clip": draw(clips),
        "projection_clip": draw(clips) if lstm_projects else None,
        "skip_connections": draw(st.booleans()),
    }
    return char_cnn, lstm


def config_of(shape) -> BiLMConfig:
    char_cnn, lstm = shape
    return BiLMConfig(CharCnnConfig(**char_cnn), LstmConfig(**lstm))
