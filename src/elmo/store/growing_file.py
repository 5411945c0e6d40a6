"""A file whose safe part stays as it was until a commit."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


class GrowingFile:
    """A file of which nothing before `safe_size` changes on disk until `settle`.

    What is written beyond goes straight to disk: a recovery cuts it off. What is written before is
    held in memory, in pages, until a commit has stored it elsewhere.

    A write never raises: HDF5 and Arrow call it from the midst of their own work, destructors
    included, where an error would be lost. The first is kept for `check`, and stops all later
    writes.
    """

    _PAGE = 1 << 10

    def __init__(
        self, path: Path, size: int = 0, pages: Sequence[tuple[int, bytes | bytearray]] = ()
    ) -> None:
        path.touch()
        if (found := path.stat().st_size) < size:
            raise ValueError(
                f"{path} is damaged: it has {found:,} bytes, but {size:,} were safe; pass "
                "force=True (--force) to start over"
            )
        self._file = path.open("r+b", buffering=0)
        for start, page in pages:
            self._write_at(start, memoryview(page))
        self._file.truncate(size)
        self.size = self.safe_size = size
        self._pages: dict[int, bytearray] = {}  # by offset // _PAGE
        self._position = 0
        self._fault: BaseException | None = None
        self._frozen = False

    @property
    def changed_in_place(self) -> bool:
        """Whether the safe part is not what it was."""
        return bool(self._pages) or self.size < self.safe_size

    @property
    def pages(self) -> list[tuple[int, bytes | bytearray]]:
        """What the safe part has become, where it has changed: (offset, bytes)."""
        pages = [(index * self._PAGE, self._pages[index]) for index in sorted(self._pages)]
        return [
            (start, page if start + len(page) <= self.size else page[: self.size - start])
            for start, page in pages
            if start < self.size
        ]

    def check(self) -> None:
        """Raise what stopped a write."""
        if self._fault is not None:
            raise self._fault

    def sync(self) -> None:
        """Force to disk what was written to it."""
        os.fsync(self._file.fileno())

    def settle(self) -> None:
        """Change the safe part on disk, and count all of the file to it."""
        for start, page in self.pages:
            self._write_at(start, memoryview(page))
        self._file.truncate(self.size)
        self._pages.clear()
        self.safe_size = self.size

    def freeze(self) -> None:
        """Ignore whatever is still written: HDF5 may, when it closes after an error."""
        self._frozen = True

    def close(self) -> None:
        self._file.close()

    # What zipfile, h5py and pyarrow ask of a file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass  # nothing waits in a buffer

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start = self._position
        self._position += len(view)
        self.size = max(self.size, self._position)
        if self._fault is None and not self._frozen:
            n_held = min(max(self.safe_size - start, 0), len(view))
            try:
                self._hold(start, view[:n_held])
                self._write_at(start + n_held, view[n_held:])
            except BaseException as error:
                self._fault = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        self.size = self._position if size is None else size
        if self._fault is None and not self._frozen:
            try:
                self._file.truncate(max(self.size, self.safe_size))
            except BaseException as error:
                self._fault = error
        return self.size

    def read(self, n_bytes: int = -1) -> bytes:
        left = max(self.size - self._position, 0)
        buffer = bytearray(left if n_bytes < 0 else min(n_bytes, left))
        self.readinto(buffer)
        return bytes(buffer)

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; beyond the end with zeros, as HDF5 expects."""
        view = memoryview(buffer).cast("B")
        start = self._position
        self._position += len(view)
        self._file.seek(start)
        n_read = 0
        while n_read < len(view) and (n_more := self._file.readinto(view[n_read:])):
            n_read += n_more
        view[n_read:] = bytes(len(view) - n_read)
        for index, at, part in self._parts(start, len(view)) if self._pages else ():
            if index in self._pages:
                held = self._pages[index][at : at + part.stop - part.start]
                view[part.start : part.start + len(held)] = held
        return len(view)

    def _parts(self, start: int, n_bytes: int) -> Iterator[tuple[int, int, slice]]:
        """Cut a range into pages: index of the page, offset in it, slice of the range."""
        n_done = 0
        while n_done < n_bytes:
            index, at = divmod(start + n_done, self._PAGE)
            n_here = min(self._PAGE - at, n_bytes - n_done)
            yield index, at, slice(n_done, n_done + n_here)
            n_done += n_here

    def _hold(self, start: int, data: memoryview) -> None:
        for index, at, part in self._parts(start, len(data)):
            if index not in self._pages:
                first = index * self._PAGE
                self._file.seek(first)
                page = self._file.read(min(self._PAGE, self.safe_size - first))
                self._pages[index] = bytearray(page)
            self._pages[index][at : at + part.stop - part.start] = data[part]

    def _write_at(self, start: int, data: memoryview) -> None:
        self._file.seek(start)
        while data:
            data = data[self._file.write(data) :]
