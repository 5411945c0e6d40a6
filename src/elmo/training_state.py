"""Everything a run needs to go on as if it had never stopped, in one file.

`training.safetensors` in the run's folder: weights, what the optimiser remembers, the LSTM state,
the position in the corpus; in its metadata the step, the budget used, the best perplexity so far
and the recipe. Random numbers are drawn from the seed and the step, so they have no state. One
file, written beside, flushed to the disk and renamed: it is whole at any moment, or the one before.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

STATE_FILE = "training.safetensors"
ABOUT = "training"
SAFETENSORS_TEMPORARY = ".tmp??????"
"""What safetensors calls a file that it is writing, as a pattern."""


@dataclass(frozen=True)
class TrainingState:
    """A run between two steps.

    Attributes:
        tensors: By name: `model.…`, `optimiser.…`, `lm_state.…`, `position.…`.
        about: Plain values: `step`, `n_tokens`, `seconds`, `best`, …, `recipe`, `corpus`.
    """

    tensors: Mapping[str, Tensor]
    about: Mapping[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix` and a point, named by the rest."""
        start = f"{prefix}."
        return {k.removeprefix(start): v for k, v in self.tensors.items() if k.startswith(start)}

    def write(self, folder: Path) -> None:
        """Replace the state in a folder, or leave the older one if anything fails."""
        beside = folder / f"{STATE_FILE}.{secrets.token_hex(4)}.tmp"
        tensors = {
            name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()
        }
        try:
            beside.touch()
            mode = beside.stat().st_mode  # safetensors lets nobody else read it; the umask may
            save_file(tensors, beside, {ABOUT: json.dumps(self.about)})
            beside.chmod(mode)
            _flush(beside)
            os.replace(beside, folder / STATE_FILE)
            _flush(folder)
        except SafetensorError as error:  # what the disk said is only in its text
            raise OSError(f"{folder / STATE_FILE} could not be written: {error}") from None
        finally:
            beside.unlink(missing_ok=True)


def read_state(folder: Path) -> TrainingState | None:
    """The state in a folder; None where there is none.

    Raises:
        ValueError: If the file is damaged.
    """
    path = folder / STATE_FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {})[ABOUT])
            return TrainingState({name: file.get_tensor(name) for name in file.keys()}, about)  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}): begin again in another output") from None


def sweep_state(folder: Path) -> None:
    """Clear away what killed processes left of writing a state; nobody else may write there."""
    for pattern in (f"{STATE_FILE}.*tmp", SAFETENSORS_TEMPORARY):
        for path in folder.glob(pattern):
            path.unlink()


def _flush(path: Path) -> None:
    """Make sure that the disk has it: a renamed file may else be empty after a power cut."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
