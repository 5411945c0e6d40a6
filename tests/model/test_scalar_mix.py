import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from elmo import ScalarMix

LAYERS, BATCH, TOKENS, DIM = 3, 2, 5, 4
floats = st.floats(-3, 3, width=32)


@given(weights=npst.arrays("float32", LAYERS, elements=floats), gamma=floats)
def test_mixing_copies_of_one_layer_only_scales_it(weights, gamma):
    mix = ScalarMix(LAYERS, weights=weights.tolist(), gamma=gamma)
    layer = torch.randn(BATCH, TOKENS, DIM)
    mixed = mix(layer.expand(LAYERS, -1, -1, -1))
    torch.testing.assert_close(mixed, gamma * layer, atol=1e-5, rtol=1e-5)


@given(weights=npst.arrays("float32", LAYERS, elements=floats), gamma=floats, norm=st.booleans())
def test_it_is_the_formula(weights, gamma, norm):
    layers = np.random.default_rng(0).normal(2, 3, (LAYERS, BATCH, TOKENS, DIM))
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    share = np.exp(weights.astype(float)) / np.exp(weights.astype(float)).sum()
    expected = np.zeros((BATCH, TOKENS, DIM))
    for j, layer in enumerate(layers):
        if norm:  # one mean and one variance over all numbers of real tokens
            numbers = layer[mask]
            layer = (layer - numbers.mean()) / np.sqrt(numbers.var() + 1e-13)
        expected += share[j] * layer
    mix = ScalarMix(LAYERS, weights=weights.tolist(), gamma=gamma, layer_norm=norm)
    mixed = mix(torch.from_numpy(layers).float(), torch.from_numpy(mask)).detach().numpy()
    np.testing.assert_allclose(mixed[mask], gamma * expected[mask], atol=1e-4)


def test_what_stands_outside_the_mask_does_not_count():
    layers, mask = torch.randn(LAYERS, BATCH, TOKENS, DIM), torch.ones(BATCH, TOKENS, dtype=bool)
    mask[1, 3:] = False
    mix = ScalarMix(LAYERS, layer_norm=True)
    before = mix(layers, mask)
    layers[:, ~mask] = 100.0
    torch.testing.assert_close(mix(layers, mask)[mask], before[mask])


def test_one_layer_is_given_as_it_is():
    layers = torch.randn(LAYERS, BATCH, TOKENS, DIM)
    for layer in (0, 2, -1):
        mix = ScalarMix.single(layer, LAYERS)
        torch.testing.assert_close(mix(layers), layers[layer])
        assert not any(p.requires_grad for p in mix.parameters())


def test_weights_and_gamma_learn():
    mix = ScalarMix(LAYERS)
    mix(torch.randn(LAYERS, BATCH, TOKENS, DIM)).square().sum().backward()
    assert mix.weights.grad.abs().sum() > 0 and mix.gamma.grad.abs() > 0


def test_the_penalty_is_lambda_times_the_squares():
    mix = ScalarMix(LAYERS, weights=[1.0, -2.0, 0.5], l2=0.1)
    assert mix.penalty().item() == pytest.approx(0.1 * 5.25)


def test_wrong_numbers_of_layers_are_refused():
    with pytest.raises(ValueError, match="2 weights were given for 3 layers"):
        ScalarMix(3, weights=[0.0, 1.0])
    with pytest.raises(ValueError, match="weights for 3 layers, but was given 2"):
        ScalarMix(3)(torch.randn(2, BATCH, TOKENS, DIM))
    with pytest.raises(ValueError, match="layer is 3, but the model has layers 0 to 2"):
        ScalarMix.single(3, 3)
