"""Sorted tables of types on disk, and merging them a piece at a time.

A table is two arrays: the UTF-8 of all types, one after the other, and where each ends. The first
two are `<S>` and `</S>`; the others are sorted by their bytes, which is the order of their
characters too.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np

from elmo.pretrain.blocks import DTYPES

N_SPECIALS = 2
CHUNK_TYPES = 4096
REMEMBERED = 50_000
"""Types that a table does not look up again."""


class TypeTable(Sequence[str]):
    """The types in a folder, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._text = map_array(folder, "types")
        self._ends = map_array(folder, "ends")
        self._read = lru_cache(REMEMBERED)(self._decoded)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, i: int) -> str: ...

    @overload
    def __getitem__(self, i: slice) -> list[str]: ...

    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"type {i} of {len(self):,}")
        return self._read(i % len(self))

    def _decoded(self, i: int) -> str:
        start = int(self._ends[i - 1]) if i else 0
        return bytes(self._text[start : self._ends[i]]).decode()


def map_array(folder: Path, name: str) -> np.ndarray:
    """An array in a file, read where it is looked at."""
    dtype = DTYPES[name.rpartition(".")[2]]
    if not (folder / name).stat().st_size:  # which no operating system maps
        return np.empty(0, dtype=dtype)
    return np.memmap(folder / name, dtype=dtype, mode="r").view(np.ndarray)


def type_chunks(folder: Path, first: int = 0) -> Iterator[list[bytes]]:
    """The types of a table from one on, some at a time."""
    with open(folder / "ends", "rb") as ends_file, open(folder / "types", "rb") as text_file:
        size = np.dtype(DTYPES["ends"]).itemsize
        start = 0
        if first:
            ends_file.seek((first - 1) * size)
            start = int(np.fromfile(ends_file, DTYPES["ends"], 1)[0])
            text_file.seek(start)
        while len(ends := np.fromfile(ends_file, DTYPES["ends"], CHUNK_TYPES)):
            text = text_file.read(int(ends[-1]) - start)
            bounds = [0, *(ends - start).tolist()]
            yield [text[a:b] for a, b in pairwise(bounds)]
            start = int(ends[-1])


def merge_tables(children: Sequence[Path], into: Path) -> None:
    """Merge tables with their counts into one, and tell each child the numbers of its types there.

    Only some types of each child are in memory at a time.
    """
    into.mkdir()
    counts_of = [map_array(child, "counts") for child in children]
    chunks = [type_chunks(child, N_SPECIALS) for child in children]
    waiting: list[list[bytes]] = [next(each, []) for each in chunks]
    taken = [N_SPECIALS] * len(children)
    specials = sum(counts[:N_SPECIALS] for counts in counts_of)
    n_types, end = N_SPECIALS, 0
    with ExitStack() as files:
        types_file, ends_file, counts_file, *numbers_files = (
            files.enter_context(open(path, "wb"))
            for path in (
                *(into / name for name in ("types", "ends", "counts")),
                *(child / "numbers" for child in children),
            )
        )

        def write(types: list[bytes], counts: np.ndarray) -> None:
            nonlocal end
            ends = end + np.cumsum([len(each) for each in types], dtype=DTYPES["ends"])
            types_file.write(b"".join(types))
            ends_file.write(ends.tobytes())
            counts_file.write(counts.astype(DTYPES["counts"]).tobytes())
            end = int(ends[-1])

        write([b"<S>", b"</S>"], np.asarray(specials))
        for file in numbers_files:
            file.write(np.arange(N_SPECIALS, dtype=DTYPES["numbers"]).tobytes())
        while any(waiting):
            # Nothing up to the smallest last one can come again.
            bound = min(some[-1] for some in waiting if some)
            cuts = [bisect_right(some, bound) for some in waiting]
            parts = [some[:cut] for some, cut in zip(waiting, cuts, strict=True)]
            distinct = sorted(set().union(*parts))
            number = {each: i for i, each in enumerate(distinct)}
            counts = np.zeros(len(distinct), dtype=np.int64)
            for k, part in enumerate(parts):
                places = np.fromiter(map(number.__getitem__, part), np.int64, len(part))
                counts[places] += counts_of[k][taken[k] : taken[k] + len(part)]
                numbers_files[k].write((places + n_types).astype(DTYPES["numbers"]).tobytes())
                taken[k] += len(part)
                waiting[k] = waiting[k][cuts[k] :] or next(chunks[k], [])
            write(distinct, counts)
            n_types += len(distinct)
