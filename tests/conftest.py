"""What every test stands on: checked shapes, fixed seeds, few threads, the golden files."""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch
from jaxtyping import install_import_hook

# Every annotation of the package is checked when it is called, the axes of tensors included. The
# hook sees only what is imported after it.
assert "elmo" not in sys.modules, "elmo was imported before its annotations could be checked"
install_import_hook("elmo", "beartype.beartype")

# Tensors are small here: more threads would only wait for each other.
torch.set_num_threads(1)


class TorchRandom:
    """Torch's generator, so that Hypothesis resets it before each example as it does NumPy's."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # Hypothesis keeps a weak reference
hypothesis.register_random(TORCH_RANDOM)

# No deadline: the first call of an operation is slow. On a server the same examples every time, so
# that a commit passes or fails for what it changed; elsewhere new ones, to find what those miss.
hypothesis.settings.register_profile("developer", deadline=None)
hypothesis.settings.register_profile("server", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("server" if os.environ.get("CI") else "developer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(autouse=True)
def seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def no_tf32() -> Iterator[None]:
    """Float32 in convolutions on a GPU, where PyTorch computes in TF32 unless told otherwise."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the checkout with golden files, corpora and data sets."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs {folder}, which is not part of the repository")
    return folder
