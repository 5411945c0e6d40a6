import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference

from elmo.model.highway import Highway

DIM, ROWS = 5, 3


def random_highway(n_layers):
    layers = Highway(DIM, n_layers).double()
    for parameter in layers.parameters():
        torch.nn.init.normal_(parameter)
    return layers


@given(n_layers=st.integers(0, 3), leading=st.sampled_from([(), (ROWS,), (2, ROWS)]))
def test_it_is_the_formula_layer_after_layer(n_layers, leading):
    layers, x = random_highway(n_layers), torch.randn(*leading, DIM, dtype=torch.float64)
    expected = x.numpy().reshape(-1, DIM)
    for transform, gate in zip(layers.transforms, layers.gates, strict=True):
        parts = [p.detach().numpy() for linear in (gate, transform) for p in linear.parameters()]
        expected = np.array([reference.highway(*parts, row) for row in expected])
    ours = layers(x).detach().numpy()
    np.testing.assert_allclose(ours, expected.reshape(*leading, DIM), atol=1e-13)


@pytest.mark.parametrize(("bias", "wanted"), [(100.0, "transformed"), (-100.0, "passed")])
def test_an_open_gate_transforms_and_a_closed_one_passes_the_input(bias, wanted):
    layers, x = random_highway(1), torch.randn(ROWS, DIM, dtype=torch.float64)
    torch.nn.init.constant_(layers.gates[0].bias, bias)
    transformed = torch.relu(layers.transforms[0](x))
    assert not torch.equal(transformed, x)
    torch.testing.assert_close(layers(x), transformed if wanted == "transformed" else x)


def test_a_new_one_passes_most_of_its_input():
    layers = Highway(200, 2)
    layers.reset_parameters()
    for transform, gate in zip(layers.transforms, layers.gates, strict=True):
        assert (gate.bias == -2).all() and not transform.bias.any()
        for linear in (transform, gate):
            np.testing.assert_allclose(linear.weight.std().item(), 200**-0.5, rtol=0.05)
