"""Notice that weights have changed, so that what was made of them is made anew."""

import threading

import torch
from torch import Tensor, nn

SAMPLED = 64
"""About as many numbers of each weight are looked at, to see whether it has changed."""


class WeightChanges:
    """Watches weights of some modules: moved, replaced, or written to.

    Args:
        modules: Whose parameters are watched.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self._modules = modules
        self._n_changes = 0
        self._lock = threading.Lock()
        self._versions: list[tuple[int, torch.dtype, int]] = []
        self._sample = torch.empty(0)

    def count(self) -> int:
        """How often weights were found changed: what was made at another count is out of date."""
        with self._lock:
            parameters = [p for module in self._modules for p in module.parameters()]
            versions = list(map(_version, parameters))
            sample = torch.cat(list(map(_sampled, parameters)))
            if versions != self._versions or not torch.equal(sample, self._sample):
                self._versions, self._sample = versions, sample
                self._n_changes += 1
            return self._n_changes


def _version(parameter: nn.Parameter) -> tuple[int, torch.dtype, int]:
    """Differs whenever a weight is moved, replaced or, as autograd sees it, changed."""
    n_writes = 0 if parameter.is_inference() else parameter._version
    return parameter.data_ptr(), parameter.dtype, n_writes


def _sampled(parameter: nn.Parameter) -> Tensor:
    """Some numbers of a weight: fused optimisers change them behind autograd's back."""
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, len(flat) // SAMPLED)]
