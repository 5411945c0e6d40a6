import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import config_of, random_bilm, shapes

from elmo.model.char_cnn_window import encode_groups
from elmo.text import char_ids

WORDS = ["a", "The", "naïve", "—", "x" * 60, "3.5", "</S>"]
groups_of_words = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=3
)


@settings(max_examples=40)
@given(shape=shapes(), groups=groups_of_words, seed=st.integers(0, 9))
def test_vectors_and_gradients_are_those_of_the_definition(shape, groups, seed):
    cnn = random_bilm(config_of(shape), scale=1.0, seed=seed).char_cnn.double()
    ids = [torch.from_numpy(char_ids(words)) for words in groups]
    results = []
    for encode in (
        lambda: encode_groups(cnn, ids, torch.float64),
        lambda: torch.cat([cnn(part) for part in ids]),
    ):
        vectors = encode()
        # Random weights of the sum, the same both times.
        weights = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(1)).double()
        gradients = torch.autograd.grad((vectors * weights).sum(), list(cnn.parameters()))
        results.append((vectors, *gradients))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


@pytest.mark.parametrize("n_tokens", [1, 7, 19])  # 19: products are given 20 rows
def test_bfloat16_products_keep_float32_weights_and_gradients(n_tokens):
    cnn = random_bilm(scale=1.0).char_cnn
    ids = torch.from_numpy(char_ids((3 * WORDS)[:n_tokens]))
    vectors, exact = encode_groups(cnn, [ids], torch.bfloat16), cnn(ids)
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors, exact, atol=0.05, rtol=0.05)
    parameters = list(cnn.parameters())
    ours, theirs = (torch.autograd.grad(part.sum(), parameters) for part in (vectors, exact))
    assert {gradient.dtype for gradient in ours} == {torch.float32}
    for gradient, wanted in zip(ours, theirs, strict=True):
        assert (gradient - wanted).norm() < 0.05 * wanted.norm()


def test_the_first_of_equal_windows_gets_the_gradient():
    cnn = random_bilm().char_cnn
    with torch.no_grad():
        for convolution in cnn.convolutions:
            convolution.weight.zero_()
    (gradient,) = torch.autograd.grad(
        encode_groups(cnn, [torch.from_numpy(char_ids(["ab"]))]).sum(), cnn.convolutions[0].bias
    )
    assert gradient.isfinite().all() and gradient.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_pooling_tells_the_place_of_the_first_maximum_in_a_window(dtype):
    # What `_PooledConvolution` relies on, in the memory layout that it uses.
    y = torch.randn(3, 5, 4).to(dtype)
    y[0, 1] = y[0, 3] = 9.0
    as_image = y.view(3, 5, 1, 4).permute(0, 3, 1, 2)
    largest, places = torch.nn.functional.max_pool2d(as_image, (5, 1), return_indices=True)
    expected = y.max(dim=1)
    assert torch.equal(largest.view(3, 4), expected.values)
    assert torch.equal(places.view(3, 4)[1:], expected.indices[1:])
    assert places.view(3, 4)[0].tolist() == [1] * 4
