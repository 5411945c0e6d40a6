"""Products of 8-bit numbers: a quarter of the memory to read, which is what one sentence waits for.

Each row of the weights, and each vector it is multiplied by, is scaled so that its largest number
is 127, and rounded; sums are exact. A vector is scaled by itself, so that it does not depend on the
rows beside it. Axes: rows, in_dim, out_dim.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from elmo.model.product import Product

LARGEST = 127
ZERO = 128
"""What stands for zero in vectors: oneDNN is fast at products of unsigned by signed numbers."""
SMALLEST_SCALE = 1e-30
"""So that a row of zeros can be divided by its scale."""


def quantise(
    x: Float[Tensor, "rows dim"],
) -> tuple[UInt8[Tensor, "rows dim"], Float[Tensor, "rows 1"]]:
    """Integers from 1 to 255, where 128 is zero, and what their distances from it are times of."""
    x = x.float().contiguous()  # what it is multiplied as is laid out in rows
    scale = torch.linalg.vector_norm(x, torch.inf, dim=1, keepdim=True)
    scale.mul_(1 / LARGEST).clamp_min_(SMALLEST_SCALE)
    return (x / scale).add_(ZERO + 0.5).to(torch.uint8), scale  # which cuts off what is behind .0


class Int8Product(Product):
    """As `PlainProduct` without an activation, of rounded weights and vectors, in float32.

    Where oneDNN's operator for it is absent, the same integers are multiplied as float32 numbers.
    """

    def __init__(
        self,
        weight: Float[Tensor, "out_dim in_dim"],
        bias: Float[Tensor, " out_dim"] | None = None,
        activation: str = "none",
    ) -> None:
        assert activation == "none"
        unsigned, scale = quantise(weight)
        self.scale = scale.squeeze(1)
        self.bias = torch.zeros_like(self.scale) if bias is None else bias.float()
        self.fast = can_multiply_int8()
        signed = (unsigned.short() - ZERO).to(torch.int8)
        self.weight = _operators().qlinear_prepack(signed, None) if self.fast else signed
        self._zeros = torch.zeros(len(scale), dtype=torch.int64)

    def __call__(self, x: Float[Tensor, "rows in_dim"]) -> Float[Tensor, "rows out_dim"]:
        integers, scale = quantise(x)
        return torch.addcmul(self.bias, self._multiply(integers), scale)

    def plus(
        self, x: Float[Tensor, "rows in_dim"], y: Float[Tensor, "rows out_dim"]
    ) -> Float[Tensor, "rows out_dim"]:
        integers, scale = quantise(x)
        return y.addcmul_(self._multiply(integers), scale)

    def _multiply(self, x: UInt8[Tensor, "rows in_dim"]) -> Float[Tensor, "rows out_dim"]:
        if self.fast:
            return _multiply(x, self.weight, self.scale, self._zeros)
        return ((x.float() - ZERO) @ self.weight.T.float()).mul_(self.scale)


def _multiply(x: Tensor, packed: Tensor, scale: Tensor, zeros: Tensor) -> Tensor:
    settings: tuple[Any, ...] = (None, 1.0, 0, torch.float32, "none", [], "")
    return _operators().qlinear_pointwise(x, 1.0, ZERO, packed, scale, zeros, *settings)


@cache
def can_multiply_int8() -> bool:
    """Whether oneDNN's product of 8-bit numbers works here: tried on a small one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(1, 256, (5, 32), generator=generator, dtype=torch.uint8)
    weight = torch.randint(-127, 128, (48, 32), generator=generator, dtype=torch.int8)
    scale, zeros = (
        torch.linspace(0.5, 2, 48, dtype=torch.float32),
        torch.zeros(48, dtype=torch.int64),
    )
    try:
        with torch.inference_mode():
            tried = _multiply(x, _operators().qlinear_prepack(weight, None), scale, zeros)
            return torch.allclose(tried, (x.float() - ZERO) @ weight.T.float() * scale)
    except (AttributeError, RuntimeError, TypeError):  # absent, not for this processor, or changed
        return False


def _operators() -> Any:
    return torch.ops.onednn
