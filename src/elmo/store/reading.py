"""Reading files of vectors, one sentence at a time."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from elmo.store.hdf5 import read_hdf5
from elmo.store.npz import read_npz
from elmo.store.parquet import read_parquet
from elmo.store.suffix import by_suffix

READERS: dict[str, Callable[[Path], Iterator[np.ndarray]]] = {
    ".hdf5": read_hdf5,
    ".h5": read_hdf5,
    ".npz": read_npz,
    ".parquet": lambda path: (vectors for _, vectors in read_parquet(path)),
}


def read_vectors(path: str | Path) -> Iterator[Float[np.ndarray, "layers tokens dim"]]:
    """Read the vectors of one sentence after the other, in order.

    Args:
        path: A file written by `VectorWriter`, or an HDF5 file written by bilm-tf.

    Returns:
        An iterator over float32 arrays of shape (layers, tokens, dim). It holds one sentence, in
        Parquet one row group, at a time.

    Raises:
        ValueError: For an unknown suffix; while reading, if the file is cut short, or not ours.
        FileNotFoundError: If it does not exist.
    """
    path = Path(path)
    read = by_suffix(path, READERS)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist, or is not a file")
    return read(path)


def read_sentences(
    path: str | Path,
) -> Iterator[tuple[list[str], Float[np.ndarray, "layers tokens dim"]]]:
    """Read tokens and vectors of one sentence after the other, from Parquet.

    Raises:
        ValueError: If the file is not Parquet, which alone stores the tokens; otherwise as
            `read_vectors`.
        FileNotFoundError: If it does not exist.
    """
    path = Path(path)
    if path.suffix.lower() != ".parquet":
        raise ValueError(
            f"{path} holds no tokens, only .parquet does; read_vectors reads its vectors"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist, or is not a file")
    return read_parquet(path)
