"""Products of 8-bit numbers: a quarter of the memory to read, which is what one sentence waits for.

Each row of the weights, and each vector it is multiplied by, is scaled so that its largest number
is 127, and rounded; sums are exact. A vector is scaled by itself, so that it does not depend on the
rows beside it. Axes: rows, in_dim, out_dim.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.model.product import Product

LARGEST = 127
SMALLEST_SCALE = 1e-30
"""So that a row of zeros can be divided by its scale."""


def quantise(
    x: Float[Tensor, "rows dim"],
) -> tuple[Int[Tensor, "rows dim"], Float[Tensor, "rows 1"]]:
    """Integers from −127 to 127, and what to multiply each row by to have its numbers again."""
    scale = (x.abs().amax(dim=1, keepdim=True) / LARGEST).clamp_min_(SMALLEST_SCALE)
    return (x / scale).round_().to(torch.int8), scale


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
        integers, scale = quantise(weight.float())
        self.scale = scale.squeeze(1)
        self.bias = torch.zeros_like(self.scale) if bias is None else bias.float()
        self.fast = can_multiply_int8()
        self.weight = _operators().qlinear_prepack(integers, None) if self.fast else integers
        self._zero_points = torch.zeros(len(scale), dtype=torch.int64)

    def __call__(self, x: Float[Tensor, "rows in_dim"]) -> Float[Tensor, "rows out_dim"]:
        integers, scale = quantise(x)
        return torch.addcmul(self.bias, self._multiply(integers), scale)

    def plus(
        self, x: Float[Tensor, "rows in_dim"], y: Float[Tensor, "rows out_dim"]
    ) -> Float[Tensor, "rows out_dim"]:
        integers, scale = quantise(x)
        return y.addcmul_(self._multiply(integers), scale)

    def _multiply(self, x: Int[Tensor, "rows in_dim"]) -> Float[Tensor, "rows out_dim"]:
        if not self.fast:
            return (x.float() @ self.weight.T.float()).mul_(self.scale)
        return _operators().qlinear_pointwise(
            x, 1.0, 0, self.weight, self.scale, self._zero_points,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip


@cache
def can_multiply_int8() -> bool:
    """Whether oneDNN's product of signed 8-bit numbers works here: tried on a small one."""
    generator = torch.Generator().manual_seed(0)
    x, weight = (
        torch.randint(-LARGEST, LARGEST + 1, shape, generator=generator, dtype=torch.int8)
        for shape in ((5, 32), (48, 32))
    )
    scale = torch.linspace(0.5, 2, 48)
    try:
        with torch.inference_mode():
            tried = _operators().qlinear_pointwise(
                x, 1.0, 0, _operators().qlinear_prepack(weight, None), scale,
                torch.zeros(48, dtype=torch.int64), None, 1.0, 0, torch.float32, "none", [], "",
            )  # fmt: skip
            return torch.allclose(tried, (x.float() @ weight.T.float()) * scale)
    except (AttributeError, RuntimeError, TypeError):
        return False


def _operators() -> Any:
    return torch.ops.onednn
