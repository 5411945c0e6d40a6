"""The suffix of a file chooses its format."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

Choice = TypeVar("Choice")


def by_suffix(path: Path, choices: Mapping[str, Choice]) -> Choice:
    """What the suffix of a file chooses, or ValueError with what there is."""
    try:
        return choices[path.suffix.lower()]
    except KeyError:
        raise ValueError(
            f"{path} ends in {path.suffix!r}, which names no format; choose one of "
            ".hdf5 (or .h5), .npz, .parquet"
        ) from None
