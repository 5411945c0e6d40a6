"""The published sizes, and the arithmetic that they need: products alone, counted once each."""

from collections.abc import Iterable, Sequence

import numpy as np

from elmo import BiLMConfig, CharCnnConfig, LstmConfig

SIZES = {"small": (1024, 128, 1), "medium": (2048, 256, 1), "original": (4096, 512, 2)}
"""Hidden and output size of an LSTM, and highway layers, of the released models."""


def config_of(size: str) -> BiLMConfig:
    """A released model's architecture."""
    hidden, dim, n_highway = SIZES[size]
    return BiLMConfig(
        CharCnnConfig(dim=dim, n_highway=n_highway), LstmConfig(hidden_dim=hidden, dim=dim)
    )


def lstm_flops(config: LstmConfig) -> float:
    """Of a token, in all layers and both directions."""
    projection = config.hidden_dim * config.dim if config.projection else 0
    return 2.0 * 2 * config.n_layers * (8 * config.hidden_dim * config.dim + projection)


def cnn_flops(config: CharCnnConfig, tokens: Iterable[str]) -> float:
    """Of tokens, each as often as it is given: a window begins at every character that is there."""
    convolutions = sum(width * n * config.char_dim for width, n in config.filters)
    projection = config.n_filters * config.dim if config.projection else 0
    rest = 2 * config.n_highway * config.n_filters**2 + projection
    lengths = [min(len(token.encode()) + 2, config.max_chars) for token in tokens]
    return 2.0 * (sum(lengths) * convolutions + len(lengths) * rest)


def training_flops(
    config: BiLMConfig, types: Sequence[str], inputs: np.ndarray, n_drawn: int
) -> float:
    """Of a window (directions, steps, rows), forward and, twice as much, backward."""
    softmax = 2 * (n_drawn + 1) * config.lstm.dim * inputs.size
    cnn = cnn_flops(config.char_cnn, [types[i] for i in np.unique(inputs)])
    return 3 * (inputs.size / 2 * lstm_flops(config.lstm) + softmax + cnn)
