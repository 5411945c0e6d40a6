"""An encoder whose vectors are written down, or drawn from a hash of the token and its place."""

import hashlib

import numpy as np

from elmo.encoders.encoder import LayersModule
from elmo.encoders.static import StaticEncoder


class TableEncoder:
    """Vectors (layers, dim) that a function gives for a sentence and a place in it."""

    def __init__(self, vector, n_layers, dim):
        self.name, self.identity = "table", "0" * 64
        self.vector, self.n_layers, self.dim = vector, n_layers, dim
        self.read: list[tuple[str, ...]] = []

    def encode_layers(self, sentences):
        self.read += [tuple(sentence) for sentence in sentences]
        return [
            np.stack([self.vector(list(s), i) for i in range(len(s))], axis=1).astype(np.float32)
            for s in sentences
        ]

    def trainable(self) -> LayersModule:
        raise ValueError("none")


def hashed(n_layers=2, dim=3, *, contextual=True) -> TableEncoder:
    """Every token has its own vectors in every sentence; or the same ones everywhere."""

    def vector(tokens, place):
        told = f"{tokens if contextual else ''} {place if contextual else ''} {tokens[place]}"
        seed = int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).normal(size=(n_layers, dim)) + 0.5

    return TableEncoder(vector, n_layers, dim)


def static(words) -> StaticEncoder:
    """Static vectors: a list of numbers for each word."""
    return StaticEncoder(list(words), np.array(list(words.values()), dtype=np.float32))
