"""Products with weights in the order in which oneDNN reads them, activations in the same pass.

PyTorch's own `linear` hands float32 to MKL, which orders the weights anew at every call: with the
few rows of an LSTM step that costs more than the product. Axes: rows, in_dim, out_dim.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from elmo.model.product import ACTIVATIONS, PlainProduct, Product

TYPICAL_ROWS = 64
"""For which oneDNN chooses the order of the weights; others work too."""
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 4e-3}


class OneDnnProduct(Product):
    """As `PlainProduct`, by operators that PyTorch keeps for its own compiler.

    They are private: make one only where `can_pack` says that they are there and right.
    """

    def __init__(
        self,
        weight: Float[Tensor, "out_dim in_dim"],
        bias: Float[Tensor, " out_dim"] | None = None,
        activation: str = "none",
    ) -> None:
        self.weight = _operators()._reorder_linear_weight(weight.contiguous(), TYPICAL_ROWS)
        self.bias, self.activation = bias, activation
        self._linear = _operators()._linear_pointwise.default
        self._linear_plus = _operators()._linear_pointwise.binary

    def __call__(self, x: Float[Tensor, "rows in_dim"]) -> Float[Tensor, "rows out_dim"]:
        return self._linear(x, self.weight, self.bias, self.activation, [], "")

    def plus(
        self, x: Float[Tensor, "rows in_dim"], y: Float[Tensor, "rows out_dim"]
    ) -> Float[Tensor, "rows out_dim"]:
        return self._linear_plus(x, y, self.weight, None, "add")


@cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether `OneDnnProduct` works for tensors of this dtype here: tried on small ones."""
    if dtype not in TOLERANCE or not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    weight, bias, x, y = (
        torch.randn(*shape, generator=generator).div(4).to(dtype)
        for shape in ((48, 32), (48,), (5, 32), (5, 48))
    )
    try:
        with torch.inference_mode():
            plus = OneDnnProduct(weight).plus(x, y.clone())
            tried = [(plus, PlainProduct(weight).plus(x, y.clone()))] + [
                (form(weight, bias, name)(x) for form in (OneDnnProduct, PlainProduct))
                for name in ACTIVATIONS
            ]
            return all(torch.allclose(a, b, atol=TOLERANCE[dtype]) for a, b in tried)
    except (AttributeError, RuntimeError, TypeError):  # absent, not for this processor, or changed
        return False


def _operators() -> Any:
    return torch.ops.mkldnn
