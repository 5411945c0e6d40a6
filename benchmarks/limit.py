"""What the processor can do: FLOP/s of large products, by whatever multiplies fastest."""

from collections.abc import Callable

import torch
from alone import seconds_of

from elmo.model.product import PlainProduct
from elmo.model.product_int8 import Int8Product, can_multiply_int8, quantise
from elmo.model.product_onednn import OneDnnProduct, can_pack

SIZES = ((512, 1024, 16384), (2048, 1024, 4096), (2048, 2048, 2048))
"""Rows, in_dim, out_dim."""
N_RUNS = 7


def gemm_limits() -> dict[str, float]:
    """FLOP/s by dtype: the best of several shapes and forms, of which the best run counts."""
    limits: dict[str, float] = {}
    for dtype in (torch.float32, torch.bfloat16):
        for n_rows, n_in, n_out in SIZES:
            weight, x = torch.randn(n_out, n_in).to(dtype), torch.randn(n_rows, n_in).to(dtype)
            products: list[Callable[[torch.Tensor], torch.Tensor]] = [PlainProduct(weight)]
            if can_pack(dtype):
                products.append(OneDnnProduct(weight))
            for product in products:
                seconds = min(seconds_of(lambda: product(x)) for _ in range(N_RUNS))  # noqa: B023
                name = str(dtype).removeprefix("torch.")
                limits[name] = max(limits.get(name, 0), 2 * n_rows * n_in * n_out / seconds)
    if can_multiply_int8():
        for n_rows, n_in, n_out in SIZES:
            product, x = Int8Product(torch.randn(n_out, n_in)), torch.randn(n_rows, n_in)
            integers, _ = quantise(x)
            seconds = min(seconds_of(lambda: product._multiply(integers)) for _ in range(N_RUNS))  # noqa: B023
            limits["int8"] = max(limits.get("int8", 0), 2 * n_rows * n_in * n_out / seconds)
    return limits
