import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests import reference

from elmo import ScalarMix

LAYERS, BATCH, TOKENS, DIM = 3, 2, 5, 4
floats = st.floats(-3, 3, width=32)
# Any but all: a layer at −inf has no part.
three_weights = npst.arrays("float32", LAYERS, elements=floats | st.just(-np.inf)).filter(
    lambda weights: np.isfinite(weights).any()
)


@given(weights=three_weights, gamma=floats)
def test_mixing_copies_of_one_layer_only_scales_it(weights, gamma):
    mix = ScalarMix(LAYERS, weights=weights.tolist(), gamma=gamma)
    layer = torch.randn(BATCH, TOKENS, DIM)
    mixed = mix(layer.expand(LAYERS, -1, -1, -1))
    torch.testing.assert_close(mixed, gamma * layer, atol=1e-5, rtol=1e-5)


@given(
    weights=three_weights,
    gamma=floats,
    norm=st.booleans(),
    lengths=st.lists(st.integers(1, TOKENS), min_size=BATCH, max_size=BATCH),
    masked=st.booleans(),
)
def test_it_is_the_formula(weights, gamma, norm, lengths, masked):
    # Layers of different mean and size, so that normalising them matters.
    scale, shift = np.array([1.0, 5.0, 0.1]), np.array([0.0, 2.0, -1.0])
    layers = np.random.default_rng(0).normal(size=(BATCH, TOKENS, DIM, LAYERS)) * scale + shift
    layers = np.moveaxis(layers, -1, 0)
    mask = np.arange(TOKENS) < np.array(lengths)[:, None]
    if not masked:
        mask[:] = True
    expected = reference.scalar_mix(layers, weights.astype(float), gamma, mask if norm else None)
    mix = ScalarMix(LAYERS, weights=weights.tolist(), gamma=gamma, layer_norm=norm).double()
    given_mask = torch.from_numpy(mask) if masked else None
    mixed = mix(torch.from_numpy(layers), given_mask).detach().numpy()
    np.testing.assert_allclose(mixed[mask], expected[mask], atol=1e-5)  # weights are float32


def test_layer_norm_makes_mean_0_and_variance_1_of_the_numbers_of_real_tokens():
    layers = torch.randn(LAYERS, BATCH, TOKENS, DIM) * 7 + 3
    mask = torch.arange(TOKENS) < torch.tensor([[5], [3]])
    for layer in range(LAYERS):
        weights = [0.0 if j == layer else -torch.inf for j in range(LAYERS)]
        numbers = ScalarMix(LAYERS, weights=weights, layer_norm=True)(layers, mask)[mask]
        assert numbers.mean().item() == pytest.approx(0, abs=1e-6)
        assert numbers.var(correction=0).item() == pytest.approx(1, abs=1e-5)


def test_what_stands_outside_the_mask_does_not_count():
    layers, mask = torch.randn(LAYERS, BATCH, TOKENS, DIM), torch.ones(BATCH, TOKENS, dtype=bool)
    mask[1, 3:] = False
    mix = ScalarMix(LAYERS, layer_norm=True)
    before = mix(layers, mask)
    layers[:, ~mask] = 100.0
    torch.testing.assert_close(mix(layers, mask)[mask], before[mask])


def test_one_sentence_is_mixed_as_in_a_batch_without_layer_norm():
    layers = torch.randn(LAYERS, BATCH, TOKENS, DIM)
    mix = ScalarMix(LAYERS, weights=[0.1, -2.0, 0.5], gamma=1.5)
    torch.testing.assert_close(mix(layers[:, 1]), mix(layers)[1])


def test_an_even_mix_is_what_one_begins_with():
    layers = torch.randn(LAYERS, BATCH, TOKENS, DIM)
    torch.testing.assert_close(ScalarMix(LAYERS)(layers), layers.mean(dim=0))


def test_one_layer_is_given_as_it_is():
    layers = torch.randn(LAYERS, BATCH, TOKENS, DIM)
    for layer in (0, 2, -1):
        mix = ScalarMix.single(layer, LAYERS)
        assert torch.equal(mix(layers), layers[layer])
        assert not any(p.requires_grad for p in mix.parameters())
        assert mix.penalty() == 0


def test_weights_and_gamma_learn():
    mix = ScalarMix(LAYERS)
    mix(torch.randn(LAYERS, BATCH, TOKENS, DIM)).square().sum().backward()
    assert mix.weights.grad.abs().sum() > 0 and mix.gamma.grad.abs() > 0


def test_the_shares_are_the_softmax_of_the_weights():
    shares = ScalarMix(LAYERS, weights=[0.0, np.log(3.0), -np.inf]).normalised_weights
    torch.testing.assert_close(shares.detach(), torch.tensor([0.25, 0.75, 0.0]))


def test_the_penalty_is_lambda_times_the_squares():
    mix = ScalarMix(LAYERS, weights=[1.0, -2.0, 0.5], l2=0.1)
    assert mix.penalty().item() == pytest.approx(0.1 * 5.25)
    mix.penalty().backward()
    torch.testing.assert_close(mix.weights.grad, 0.2 * mix.weights.detach())
    assert mix.gamma.grad is None


def test_wrong_numbers_of_layers_are_refused():
    with pytest.raises(ValueError, match="2 weights were given for 3 layers"):
        ScalarMix(3, weights=[0.0, 1.0])
    with pytest.raises(ValueError, match="weights for 3 layers, but was given 2"):
        ScalarMix(3)(torch.randn(2, BATCH, TOKENS, DIM))
    for layer in (3, -4):
        with pytest.raises(ValueError, match=f"layer is {layer}, but the model has layers 0 to 2"):
            ScalarMix.single(layer, 3)
