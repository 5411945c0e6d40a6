import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.model import product_int8, product_onednn
from elmo.model.product import ACTIVATIONS, PlainProduct
from elmo.model.product_int8 import LARGEST, ZERO, Int8Product, quantise
from elmo.model.product_onednn import TOLERANCE, OneDnnProduct, can_pack

DTYPES = list(TOLERANCE)
sizes = st.integers(1, 40)


def numbers(*shape, dtype=torch.float32):
    return (torch.randn(*shape) / 4).to(dtype)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_plain_product_is_that_of_the_formula(activation):
    weight, bias, x, y = numbers(5, 3), numbers(5), numbers(4, 3), numbers(4, 5)
    formula = {"none": lambda z: z, "relu": lambda z: z.clamp_min(0)}.get(
        activation, getattr(torch, activation, None)
    )
    product = PlainProduct(weight, bias, activation)
    expected = torch.einsum("oi,ri->ro", weight, x)
    torch.testing.assert_close(product(x), formula(expected + bias))
    torch.testing.assert_close(product.plus(x, y.clone()), expected + y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(
    n_rows=st.sampled_from([1, 2, 31, 64, 200]), n_in=sizes, n_out=sizes, with_bias=st.booleans()
)
def test_packed_weights_give_the_plain_product(dtype, n_rows, n_in, n_out, with_bias):
    if not can_pack(dtype):
        pytest.skip(f"oneDNN has no product of {dtype} for this processor")
    weight, x, y = (
        numbers(*shape, dtype=dtype) for shape in ((n_out, n_in), (n_rows, n_in), (n_rows, n_out))
    )
    bias = numbers(n_out, dtype=dtype) if with_bias else None
    for activation in ACTIVATIONS:
        ours, plain = (form(weight, bias, activation)(x) for form in (OneDnnProduct, PlainProduct))
        torch.testing.assert_close(ours, plain, atol=TOLERANCE[dtype], rtol=0.02)
    ours, plain = (form(weight).plus(x, y.clone()) for form in (OneDnnProduct, PlainProduct))
    torch.testing.assert_close(ours, plain, atol=TOLERANCE[dtype], rtol=0.02)


def test_float64_is_not_packed():
    assert not can_pack(torch.float64)


class Absent:
    """An operator library of a PyTorch in which what we call is not, or is another."""

    def __init__(self, error):
        self._error = error

    def __getattr__(self, name):
        raise self._error


@pytest.fixture(params=[AttributeError("no such operator"), RuntimeError("not built")], ids=str)
def without_operators(request, monkeypatch):
    for module in (product_onednn, product_int8):
        monkeypatch.setattr(module, "_operators", lambda: Absent(request.param))
    for check in (product_onednn.can_pack, product_int8.can_multiply_int8):
        check.cache_clear()
    yield
    for check in (product_onednn.can_pack, product_int8.can_multiply_int8):
        check.cache_clear()


def test_absent_operators_are_noticed(without_operators):
    assert not any(map(can_pack, DTYPES))
    assert not product_int8.can_multiply_int8()


def test_an_operator_that_computes_something_else_is_noticed(monkeypatch):
    can_pack.cache_clear()
    monkeypatch.setattr(OneDnnProduct, "plus", lambda self, x, y: y)
    assert not can_pack(torch.float32)
    can_pack.cache_clear()


def scaled(weight, x):
    """The product of rounded numbers, in float64."""
    (w, w_scale), (q, x_scale) = (
        tuple(part.double() for part in quantise(tensor)) for tensor in (weight, x)
    )
    return ((q - ZERO) @ (w - ZERO).T) * w_scale.T * x_scale


@given(n_rows=sizes, n_in=sizes, n_out=sizes)
def test_8_bit_products_are_exact_products_of_rounded_numbers(n_rows, n_in, n_out):
    weight, bias, x, y = (
        numbers(*shape) for shape in ((n_out, n_in), (n_out,), (n_rows, n_in), (n_rows, n_out))
    )
    product = Int8Product(weight, bias)
    expected = scaled(weight, x)
    torch.testing.assert_close(product(x).double(), expected + bias, atol=1e-5, rtol=0)
    torch.testing.assert_close(product.plus(x, y.clone()).double(), expected + y, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_8_bit_products_are_right_for_any_layout_and_dtype(dtype):
    weight, x = numbers(48, 32).to(dtype), numbers(300, 32).to(dtype)
    expected = scaled(weight, x)
    for layout in (weight, weight.T.contiguous().T):
        ours = Int8Product(layout)(x).double()
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(expected, x.double() @ weight.double().T, atol=0.1, rtol=0)


def test_8_bit_products_need_no_operator(without_operators):
    weight, bias, x = numbers(7, 5), numbers(7), numbers(3, 5)
    product = Int8Product(weight, bias)
    assert not product.fast
    torch.testing.assert_close(product(x).double(), scaled(weight, x) + bias, atol=1e-5, rtol=0)


@given(rows=st.lists(st.floats(1e-20, 1e20), min_size=1, max_size=4))
def test_the_largest_number_of_a_row_is_127_and_zeros_stay_zero(rows):
    x = torch.stack([torch.tensor([scale, -scale / 3, 0.0]) for scale in rows] + [torch.zeros(3)])
    integers, scales = quantise(x)
    assert integers[:-1, 0].tolist() == [ZERO + LARGEST] * len(rows)
    assert integers[-1].tolist() == [ZERO] * 3
    torch.testing.assert_close((integers.float() - ZERO) * scales, x, atol=0, rtol=0.02)


def test_a_vector_is_rounded_the_same_whatever_stands_beside_it():
    product, x = Int8Product(numbers(6, 4)), numbers(5, 4)
    x[2] *= 1000
    together = product(x)
    for row in range(5):
        torch.testing.assert_close(product(x[row : row + 1])[0], together[row], atol=0, rtol=1e-6)
