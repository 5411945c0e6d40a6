"""Encoders whose vectors a test writes down."""

from collections.abc import Callable, Sequence

import numpy as np


class ToyEncoder:
    """Vectors by a function of a sentence and a place in it: layers of numbers."""

    name, identity = "toy", "0" * 64

    def __init__(self, of: Callable[[Sequence[str], int], object], n_layers: int, dim: int) -> None:
        self.n_layers, self.dim, self._of = n_layers, dim, of
        self.read: list[list[str]] = []

    def encode_layers(self, sentences):
        self.read += [list(sentence) for sentence in sentences]
        shape = (-1, self.n_layers, self.dim)
        return [
            np.array([self._of(s, i) for i in range(len(s))], dtype=np.float32)
            .reshape(shape)
            .transpose(1, 0, 2)
            for s in sentences
        ]

    def trainable(self):
        raise ValueError("none")


def random_encoder(n_layers: int = 3, dim: int = 4) -> ToyEncoder:
    """Vectors drawn for each sentence and place."""

    def of(sentence: Sequence[str], i: int) -> object:
        seed = sum(hash_of(token) for token in sentence) * 31 + i
        return np.random.default_rng(seed).normal(size=(n_layers, dim))

    return ToyEncoder(of, n_layers, dim)


def hash_of(token: str) -> int:
    """As `hash`, the same in every process."""
    return int.from_bytes(token.encode()[:6], "little")
