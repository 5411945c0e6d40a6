"""Embeddings as task networks begin them."""

from torch import nn


def embedding(n: int, dim: int) -> nn.Embedding:
    """Vectors of small random numbers, of standard deviation 0.1; PyTorch's have 1."""
    vectors = nn.Embedding(n, dim)
    nn.init.normal_(vectors.weight, std=0.1)
    return vectors
