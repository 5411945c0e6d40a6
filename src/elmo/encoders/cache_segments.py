"""A part of the cache of layers: a file of arrays, and an index of those that are safe.

`000001.layers` holds float32 arrays (layers, tokens, dim), one after the other; `000001.index` a
record of 32 bytes for each: key, offset, tokens, and a checksum of these three. A record is written
after the array that it tells of is on disk: what a killed process left is whole as far as its index
goes, and the rest is cut off. Both files have their full length from the start, so that others see
how much of the bound is spoken for.
"""

import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

LAYERS, INDEX = ".layers", ".index"
_RECORD, _CHECKSUM = Struct("<16sQI"), Struct("<I")
RECORD_BYTES = _RECORD.size + _CHECKSUM.size


class Record(NamedTuple):
    """Where an array begins, in bytes, and of how many tokens it is."""

    key: bytes
    offset: int
    n_tokens: int


def key_of(sentence: Sequence[str]) -> bytes:
    """A digest of 16 bytes of a sentence's tokens."""
    made = blake2b(digest_size=16)
    for token in sentence:
        text = token.encode("utf-8", "surrogatepass")
        made.update(len(text).to_bytes(4, "little") + text)
    return made.digest()


class Segment:
    """What is safe in a pair of files, mapped.

    Attributes:
        path: Of the arrays.
        records: By key.
        values: All numbers of the file.
    """

    def __init__(self, path: Path, token_bytes: int) -> None:
        self.path, self._token_bytes = path, token_bytes
        self.records = read_index(path, token_bytes)
        n = path.stat().st_size // 4
        self.values: np.ndarray = (
            np.memmap(path, dtype="<f4", mode="r", shape=(n,)).view(np.ndarray)
            if n
            else np.zeros(0, dtype=np.float32)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it is mapped anew, not copied."""
        return Segment, (self.path, self._token_bytes)

    def touch(self) -> None:
        """Remember that it was used now."""
        with suppress(OSError):  # deleted meanwhile, or of a read-only cache
            os.utime(self.path.with_suffix(INDEX))


def read_index(path: Path, token_bytes: int) -> dict[bytes, Record]:
    """Records of the arrays that are safe, by key; those after a damaged one do not count.

    Raises:
        FileNotFoundError: If one of the files is missing.
    """
    packed = path.with_suffix(INDEX).read_bytes()
    size = path.stat().st_size
    records = {}
    for start in range(0, len(packed) - RECORD_BYTES + 1, RECORD_BYTES):
        body = packed[start : start + _RECORD.size]
        (check,) = _CHECKSUM.unpack_from(packed, start + _RECORD.size)
        record = Record(*_RECORD.unpack(body))
        if check != zlib.crc32(body) or record.offset + record.n_tokens * token_bytes > size:
            break
        records[record.key] = record
    return records


def repair(path: Path, token_bytes: int) -> None:
    """Cut off what is not safe; only the holder of the lock may."""
    try:
        records = read_index(path, token_bytes)
    except FileNotFoundError:
        records = {}
    if not records:
        delete(path)
        return
    _cut(path, max(r.offset + r.n_tokens * token_bytes for r in records.values()))
    _cut(path.with_suffix(INDEX), len(records) * RECORD_BYTES)


def delete(path: Path) -> None:
    """Delete a segment, its index first: without it the arrays are nothing."""
    for file in (path.with_suffix(INDEX), path):
        # Windows deletes no file that is mapped; it is tried again when room is wanted again.
        with suppress(FileNotFoundError, PermissionError):
            file.unlink()


def n_bytes(path: Path) -> int:
    """Of both files."""
    total = 0
    for file in (path, path.with_suffix(INDEX)):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def last_used(path: Path) -> int:
    """When, in nanoseconds; 0 without an index."""
    try:
        return path.with_suffix(INDEX).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


class SegmentWriter:
    """A new segment of a folder; to be closed.

    Args:
        folder: Where; the process holds its lock.
        n_sentences: How many arrays are to come.
        n_tokens: Of how many tokens together.
        token_bytes: Bytes per token.
    """

    def __init__(self, folder: Path, n_sentences: int, n_tokens: int, token_bytes: int) -> None:
        numbers = [int(p.stem) for p in folder.glob(f"*{LAYERS}") if p.stem.isdigit()]
        self.path = folder / f"{max(numbers, default=0) + 1:06}{LAYERS}"
        self._token_bytes, self._end = token_bytes, 0
        self._layers = self.path.open("xb")
        self._layers.truncate(n_tokens * token_bytes)
        self._index = self.path.with_suffix(INDEX).open("wb")
        self._index.truncate(n_sentences * RECORD_BYTES)  # zeros: no record has such a checksum

    def append(self, arrays: Iterable[tuple[bytes, np.ndarray]]) -> None:
        """Make arrays safe, each under its key."""
        packed = []
        end = self._end
        for key, array in arrays:
            body = _RECORD.pack(key, end, array.shape[1])
            packed.append(body + _CHECKSUM.pack(zlib.crc32(body)))
            data = np.ascontiguousarray(array, dtype="<f4").data
            self._layers.write(data)
            end += data.nbytes
        _sync(self._layers)
        self._index.write(b"".join(packed))
        _sync(self._index)
        self._end = end

    def close(self) -> None:
        """Give back what was not needed."""
        self._index.close()
        self._layers.close()
        repair(self.path, self._token_bytes)


def _cut(path: Path, size: int) -> None:
    if path.stat().st_size > size:
        os.truncate(path, size)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
