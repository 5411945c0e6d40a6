"""A zip of NumPy arrays for `numpy.load`: (layers, tokens, dim) per sentence, named by its number.

Stored, not deflated: deflating saves a tenth at 25 MB/s, less than an encoder yields. To read it
takes memory for each name in it (`numpy.load` too: 0.6 GB per million).
"""

import os
import shutil
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from elmo.store.formats import Format, Sentence, unreadable
from elmo.store.growing_file import GrowingFile


class Npz(Format):
    """Every commit is a small archive, whose central directory is moved to the end of the file."""

    stores_tokens = False
    _END = struct.Struct("<4s4H2LH")
    _END_64 = struct.Struct("<4sQ2H2L4Q")
    _LOCATOR_64 = struct.Struct("<4sLQL")

    def __init__(self, file: GrowingFile, directory: GrowingFile, n_layers: int, dim: int) -> None:
        self._file = file
        self._directory = directory

    def write(self, first: int, sentences: Sequence[Sentence]) -> None:
        self._file.seek(0, os.SEEK_END)
        with zipfile.ZipFile(self._file, "w") as archive:
            for index, (_, vectors) in enumerate(sentences, first):
                # Dated 1980, so that the same vectors make the same file.
                member = zipfile.ZipInfo(f"{index}.npy")
                large = vectors.nbytes >= 1 << 30
                with archive.open(member, "w", force_zip64=large) as stream:
                    np.lib.format.write_array(stream, vectors, allow_pickle=False)
            end = self._file.tell()
        self._file.seek(end)
        tail = self._file.read()
        directory_size = self._END.unpack(tail[-self._END.size :])[5]
        self._directory.seek(0, os.SEEK_END)
        self._directory.write(tail[:directory_size])
        self._file.truncate(end)

    def finish(self, n_sentences: int) -> None:
        start, size = self._file.size, self._directory.size
        self._file.seek(start)
        self._directory.seek(0)
        shutil.copyfileobj(self._directory, self._file)
        # Sections 4.3.14 to 4.3.16 of PKWARE's APPNOTE: what does not fit into the old record is
        # all ones there, and stands in the 64-bit one.
        if n_sentences >= 0xFFFF or start + size >= 0xFFFFFFFF:
            counts = (n_sentences, n_sentences, size, start)
            self._file.write(self._END_64.pack(b"PK\6\6", 44, 45, 45, 0, 0, *counts))
            self._file.write(self._LOCATOR_64.pack(b"PK\6\7", 0, start + size, 1))
        n_shown = min(n_sentences, 0xFFFF)
        sizes = (min(size, 0xFFFFFFFF), min(start, 0xFFFFFFFF))
        self._file.write(self._END.pack(b"PK\5\6", 0, 0, n_shown, n_shown, *sizes, 0))

    def close(self) -> None:
        pass


def read_npz(path: Path) -> Iterator[np.ndarray]:
    """One array after the other."""
    try:
        with zipfile.ZipFile(path) as archive:
            for index in range(n_arrays := len(archive.infolist())):
                name = f"{index}.npy"
                try:
                    stream = archive.open(name)
                except KeyError:
                    found = f"{name} is missing among {n_arrays} arrays"
                    raise unreadable(path, "npz", found) from None
                with stream:
                    vectors = np.lib.format.read_array(stream, allow_pickle=False)
                if vectors.ndim != 3 or vectors.dtype != np.float32:
                    found = f"{name} is {vectors.dtype} of shape {vectors.shape}"
                    raise unreadable(path, "npz", f"{found}, not float32 (layers, tokens, dim)")
                yield vectors
    except (zipfile.BadZipFile, EOFError) as error:
        raise unreadable(path, "npz", error) from None
