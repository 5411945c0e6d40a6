"""Weights averaged over the steps of training."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """The exponential moving average of a model's parameters.

    After step n the average moves by 1 - min(decay, n / (n + 9)) towards the parameters, so that it
    does not remember the random numbers that it began with.

    Args:
        parameters: That learn.
        decay: How much of the average stays at each step, in [0, 1); 0 for no average at all.

    Source:
        Clark & Gardner (2018), section 4; the slow start is that of TensorFlow's.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters, self.decay = list(parameters), decay
        self.values = [p.detach().clone() for p in self.parameters] if decay else []

    def update(self, n_steps: int) -> None:
        """Take in the parameters as step `n_steps` (from 1) left them."""
        if self.values:
            kept = min(self.decay, n_steps / (n_steps + 9))
            learned = [p.detach() for p in self.parameters]
            torch._foreach_lerp_(self.values, learned, 1 - kept)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the model have the averages in place of its parameters."""
        learned = [p.detach().clone() for p in self.parameters] if self.values else []
        self._set(self.values)
        try:
            yield
        finally:
            self._set(learned)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages, to go on with later."""
        return {str(i): value for i, value in enumerate(self.values)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with averages as `state_dict` gave them."""
        for i, value in enumerate(self.values):
            value.copy_(state[str(i)])

    def _set(self, values: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.parameters, values, strict=False):
                parameter.copy_(value)
