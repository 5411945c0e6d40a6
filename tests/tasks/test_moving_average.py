"""The moving average of weights, against its formula."""

import pytest
import torch
from torch import nn

from elmo.tasks.moving_average import MovingAverage


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_the_average_follows_its_formula(decay):
    parameter = nn.Parameter(torch.tensor([1.0, -2.0]))
    average, expected = MovingAverage([parameter], decay), parameter.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            parameter.copy_(torch.randn(2))
        average.update(step)
        kept = min(decay, step / (step + 9))
        expected = kept * expected + (1 - kept) * parameter.detach()
        torch.testing.assert_close(average.values[0], expected)


def test_the_model_has_the_averages_only_while_they_are_used():
    layer = nn.Linear(2, 1)
    average = MovingAverage(list(layer.parameters()), 0.9)
    first = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight.add_(1)
    learned = layer.weight.detach().clone()
    with pytest.raises(KeyError), average.used():
        assert torch.equal(layer.weight, first)
        raise KeyError
    assert torch.equal(layer.weight, learned)


def test_without_decay_nothing_is_kept_and_nothing_changes():
    layer = nn.Linear(2, 1)
    average, before = MovingAverage(list(layer.parameters()), 0.0), layer.weight.detach().clone()
    average.update(1)
    with average.used():
        assert torch.equal(layer.weight, before)
    assert average.state_dict() == {}
