"""Notice that weights have changed, so that what was made of them is made anew."""

import threading

import torch
from torch import Tensor, nn

SAMPLED = 64
"""About as many numbers of each weight are looked at, to see whether it has changed."""


class WeightChanges:
    """Watches weights of some modules: moved, replaced, or written to.

    Any change by autograd's own means is seen; a write behind its back, as by `.data` or a fused
    optimiser, if it changes one of the numbers that are looked at.

    Args:
        modules: Whose parameters are watched.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self._roots = modules
        self._n_changes = 0
        self._lock = threading.Lock()
        self._modules: list[nn.Module] = []
        self._versions: list[tuple[object, ...]] = []
        self._samples: list[Tensor] = []
        self._sampled = torch.empty(0)

    def count(self) -> int:
        """How often weights were found changed: what was made at another count is out of date."""
        with self._lock:
            versions = [_version(p) for m in self._modules for p in m._parameters.values()]
            # Asked before every batch: only what is cheap is looked at each time.
            if versions != self._versions or self._tree() != self._modules:
                self._modules = self._tree()
                parameters = [p for m in self._modules for p in m._parameters.values()]
                self._versions = list(map(_version, parameters))
                self._samples = [_sample(p) for p in parameters if p is not None]
            elif torch.allclose(torch.cat(self._samples), self._sampled, 0, 0, equal_nan=True):
                return self._n_changes
            self._sampled = torch.cat(self._samples)
            self._n_changes += 1
            return self._n_changes

    def _tree(self) -> list[nn.Module]:
        modules = list(self._roots)
        for module in modules:  # grows while it is read
            modules.extend(m for m in module._modules.values() if m is not None)
        return modules


def _version(parameter: Tensor | None) -> tuple[object, ...]:
    """Differs whenever a weight is moved, replaced or, as autograd sees it, changed."""
    if parameter is None:
        return ()
    n_writes = 0 if parameter.is_inference() else parameter._version
    return id(parameter), parameter.data_ptr(), parameter.dtype, n_writes


def _sample(parameter: Tensor) -> Tensor:
    """Some numbers of a weight: fused optimisers change them behind autograd's back."""
    # A view, so that it always shows what the weight is now.
    flat = parameter.detach()
    flat = flat.view(-1) if flat.is_contiguous() else flat
    while flat.ndim > 1:
        flat = flat.diagonal()
    return flat[:: max(1, len(flat) // SAMPLED)]
