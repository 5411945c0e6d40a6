"""Notice that weights have changed, so that what was made of them is made anew."""

from collections.abc import Iterable

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
        self._seen = self._versions()
        self._sample = self._sampled()

    def since_last_asked(self) -> bool:
        """Whether any weight has changed since the last call, or since watching began."""
        versions, sample = self._versions(), self._sampled()
        changed = versions != self._seen or not torch.equal(sample, self._sample)
        self._seen, self._sample = versions, sample
        return changed

    def _parameters(self) -> Iterable[nn.Parameter]:
        return (p for module in self._modules for p in module.parameters())

    def _versions(self) -> list[tuple[int, torch.dtype, int]]:
        """Differs whenever a weight is moved, replaced or, as autograd sees it, changed."""
        return [
            (p.data_ptr(), p.dtype, 0 if p.is_inference() else p._version)
            for p in self._parameters()
        ]

    @torch.no_grad()
    def _sampled(self) -> Tensor:
        """Some numbers of each weight: fused optimisers change them behind autograd's back."""
        flat = (p.reshape(-1) for p in self._parameters())
        return torch.cat([p[:: max(1, len(p) // SAMPLED)] for p in flat])
