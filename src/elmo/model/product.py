"""A matrix that stays the same, made ready to be multiplied by many vectors: the plain form.

Faster forms with the same numbers stand beside it: `product_onednn` (weights in the processor's
order) and `product_int8` (weights of 8 bits). Axes: rows, in_dim, out_dim.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu_,
    "sigmoid": torch.sigmoid_,
    "tanh": torch.tanh_,
}


class Product(ABC):
    """y = activation(W x + b), for one W, b and activation.

    Args:
        weight: W. It must not change afterwards.
        bias: b; None for none.
        activation: One of `ACTIVATIONS`.
    """

    @abstractmethod
    def __init__(
        self,
        weight: Float[Tensor, "out_dim in_dim"],
        bias: Float[Tensor, " out_dim"] | None = None,
        activation: str = "none",
    ) -> None: ...

    @abstractmethod
    def __call__(self, x: Float[Tensor, "rows in_dim"]) -> Float[Tensor, "rows out_dim"]:
        """The product as a new tensor."""

    @abstractmethod
    def plus(
        self, x: Float[Tensor, "rows in_dim"], y: Float[Tensor, "rows out_dim"]
    ) -> Float[Tensor, "rows out_dim"]:
        """W x + y, without b and activation; `y` may be written over."""


class PlainProduct(Product):
    """By PyTorch's own operations: the definition, on any device and in any dtype."""

    def __init__(
        self,
        weight: Float[Tensor, "out_dim in_dim"],
        bias: Float[Tensor, " out_dim"] | None = None,
        activation: str = "none",
    ) -> None:
        self.weight, self.transposed = weight, weight.T
        self.bias, self.activation = bias, ACTIVATIONS[activation]

    def __call__(self, x: Float[Tensor, "rows in_dim"]) -> Float[Tensor, "rows out_dim"]:
        return self.activation(functional.linear(x, self.weight, self.bias))

    def plus(
        self, x: Float[Tensor, "rows in_dim"], y: Float[Tensor, "rows out_dim"]
    ) -> Float[Tensor, "rows out_dim"]:
        return y.addmm_(x, self.transposed)
