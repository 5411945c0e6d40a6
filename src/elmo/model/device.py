"""Where to compute."""

from contextlib import AbstractContextManager

import torch


def named_device(name: str | torch.device) -> torch.device:
    """The device of that name; `auto` is a GPU if there is one.

    Raises:
        ValueError: If there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}, but expected auto, cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device is {name!r}, but PyTorch sees no CUDA device here: choose cpu or auto, or "
            "install a PyTorch with CUDA"
        )
    return device


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which a caller's autocast does not change what is computed in."""
    return torch.autocast(device.type, enabled=False)
