"""HDF5 as bilm-tf writes it: a dataset (layers, tokens, dim) per sentence, named by its number.

Its index is that of version 1.8 of the library (2008), not the earliest, which is one block that
every commit would write anew. Peak memory, measured on two cores with sentences of 3 tokens, 3
layers, dim 16: 111 MB after 100,000 sentences, 138 MB after 1,000,000, 154 MB after 2,000,000, of
which Python and its libraries are 55 MB.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from elmo.store.formats import Format, Sentence, unreadable
from elmo.store.growing_file import GrowingFile


class Hdf5(Format):
    """A dataset per sentence."""

    stores_tokens = False

    def __init__(self, file: GrowingFile, directory: GrowingFile, n_layers: int, dim: int) -> None:
        mode = "r+" if file.size else "w"
        self._h5 = h5py.File(file, mode, libver=("v108", "v108"))

    def write(self, first: int, sentences: Sequence[Sentence]) -> None:
        # As self._h5.create_dataset(str(index), data=vectors), in half the time.
        options = h5p.create(h5p.DATASET_CREATE)
        options.set_obj_track_times(False)
        for index, (_, vectors) in enumerate(sentences, first):
            space = h5s.create_simple(vectors.shape)
            name = str(index).encode()
            dataset = h5d.create(self._h5.id, name, h5t.IEEE_F32LE, space, options)
            dataset.write(h5s.ALL, h5s.ALL, vectors)
        self._h5.flush()

    def finish(self, n_sentences: int) -> None:
        self._h5.close()

    def close(self) -> None:
        # After a failed write HDF5 may miss what it believes it wrote.
        with suppress(OSError, RuntimeError):
            self._h5.close()


def read_hdf5(path: Path) -> Iterator[np.ndarray]:
    """One array after the other."""
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise unreadable(path, "HDF5", error) from None
    with file:
        index = 0
        # By number: HDF5 lists names as strings, "10" before "2".
        while (name := str(index)) in file:
            dataset = file[name]
            if not isinstance(dataset, h5py.Dataset) or dataset.ndim != 3:
                raise unreadable(path, "HDF5", f'"{name}" is no array (layers, tokens, dim)')
            if dataset.dtype != np.float32:
                raise unreadable(path, "HDF5", f'"{name}" is {dataset.dtype}, not float32')
            try:
                vectors = dataset[()]
            except OSError as error:
                raise unreadable(path, "HDF5", error) from None
            yield vectors
            index += 1
        if len(file) > index and (beyond := sum(name.isdigit() for name in file) - index):
            raise unreadable(path, "HDF5", f'"{index}" is missing, but {beyond} others follow')
