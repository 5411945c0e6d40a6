"""Vectors on disk: sentences in order, each one float32 array (layers, tokens, dim).

The suffix of the file chooses its format; all are read without this package:

- `.hdf5`, `.h5`: as bilm-tf writes, a dataset (layers, tokens, dim) per sentence, named "0", "1", …
- `.npz`: for `numpy.load`, an array (layers, tokens, dim) per sentence, named "0", "1", …
- `.parquet`: a row per sentence: its index, its tokens, its vectors flattened in C order.

How a file grows. `VectorWriter` collects sentences up to 64 MiB, then commits them: they are
appended to the file itself, which until the end lies in the folder `<file>.partial` beside its
place. Then it is renamed: nobody sees half a file under the final name, nothing is copied at the
end, and every vector is on disk once. (Shards joined at the end would need room for two.) The
folder holds:

- `vectors`: the file that grows;
- `directory`: what the format writes last (zip's central directory, Parquet's row groups), kept
  on disk so that memory does not grow with the number of sentences;
- `commit`: how many sentences are safe, and how long both files then were; replaced atomically;
- `lock`: held by the process that writes.

Whatever moment a run is killed at, it must be able to go on. Zip and Parquet only append, so that
going on means to cut off what the last commit does not know of. HDF5 also changes what it wrote
before (its index of names), and a file that it was killed over may be lost. So it never changes the
safe part of the file itself: its changes to that part are held in memory, stored in `commit`, and
written to the file after that; from `commit` again, if a kill came between.

Choices, and what they rest on (two cores, sentences of 3 tokens, 3 layers, dim 16):

- HDF5's index is that of version 1.8 of the library (2008), not the earliest, which is one block
  that every commit would write anew. Peak memory is 111 MB after 100,000 sentences, 138 MB after
  1,000,000, 154 MB after 2,000,000, of which Python and its libraries are 55 MB.
- `.npz` is stored, not deflated: deflating saves a tenth at 25 MB/s, less than an encoder yields.
  To read it takes memory for each name in it (`numpy.load` too: 0.6 GB per million).
- Parquet's vectors are regrouped by byte (BYTE_STREAM_SPLIT) and compressed with zstd: 0.60 to 0.83
  of the size at 310 MB/s, against 0.70 to 0.90 without regrouping, and 560 MB/s uncompressed. Peak
  memory is 190 to 240 MB, whatever the number of sentences; but a sentence larger than a commit
  takes six times its size, since Arrow never divides a row: for very long ones choose HDF5, which
  takes it once.
"""

import errno
import json
import logging
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar

import h5py
import numpy as np
from filelock import FileLock, Timeout
from h5py import h5d, h5p, h5s, h5t
from jaxtyping import Float

logger = logging.getLogger(__name__)

# A commit costs some flushes to disk; what it has not seen is lost in a kill: 64 MiB are 5,461
# tokens of the original model, seconds of work. It is also a row group of Parquet, which readers
# load whole.
_COMMIT_BYTES = 64 << 20
# What a sentence costs beside its vectors: a name, a place in an index. It bounds how many
# sentences, perhaps without a token, wait for a commit.
_SENTENCE_BYTES = 2 << 10
_TOKEN_BYTES = 64  # a token, as a Python string, beside its characters
# Numbers in a row of Parquet: Arrow puts a row into one page, the size of which is 32-bit.
_MOST_IN_A_LIST = (1 << 29) - (1 << 20)
_RECORD_VERSION = 1
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class VectorWriter:
    """A file of vectors that is written sentence by sentence, and is whole or not there.

    Leaving the `with` block finishes the file and gives it its name. Leaving it by an exception, or
    being killed in it, keeps what is written in the folder `<path>.partial`, for `resume`.
    Memory does not grow with the number of sentences, only with the longest one.

    Args:
        path: The file. Its suffix chooses the format: `.hdf5` or `.h5`, `.npz`, `.parquet`.
        n_layers: Layers of every sentence.
        dim: Dimension of every vector.
        fingerprint: Whatever the vectors depend on (model, settings, input), in one string. Only
            a run with the same one can be resumed.
        force: Replace the file if it exists, at the moment when the new one is finished. Without
            `resume`, also throw away what an unfinished run left.
        resume: Go on after the last safe sentence of an unfinished run; if there is none, begin.

    Raises:
        ValueError: For another suffix; if the unfinished run has another fingerprint, `n_layers`
            or `dim`, or is damaged.
        FileNotFoundError: If the folder of `path` does not exist.
        FileExistsError: If the file exists and not `force`; if an unfinished run is there and
            neither `resume` nor `force`.
        BlockingIOError: If another process is writing the same file.
        ImportError: For `.parquet` without pyarrow.

    Example:
        >>> with VectorWriter("out.hdf5", n_layers=3, dim=1024, fingerprint="", resume=True) as out:
        ...     for tokens in sentences[out.n_sentences :]:
        ...         out.append(tokens, encode(tokens))
    """

    def __init__(
        self,
        path: str | Path,
        *,
        n_layers: int,
        dim: int,
        fingerprint: str,
        force: bool = False,
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        format_class = _by_suffix(self.path, _FORMATS)
        if n_layers < 1 or dim < 1:
            raise ValueError(f"n_layers and dim are at least 1, but are {n_layers} and {dim}")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {self.path}: the folder {self.path.parent} does not exist; create "
                "it first"
            )
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path} is a folder; choose the name of a file")
        self._force = force
        self._pending: list[_Sentence] = []
        self._pending_bytes = 0
        self._closed = self._broken = False
        self._partial = _Partial(self.path)
        try:
            self._refuse_to_lose(force=force, resume=resume)
            start = _Record(fingerprint, int(n_layers), int(dim))
            self._record = self._partial.open(start, resume=resume)
            self._format = format_class(
                self._partial.vectors, self._partial.directory, n_layers, dim
            )
        except BaseException:
            self._partial.release()
            raise
        self._n_tokens = self._record.n_tokens

    @property
    def n_sentences(self) -> int:
        """Sentences of the file until now: at first, those that a resumed run has to skip."""
        return self._record.n_sentences + len(self._pending)

    @property
    def n_tokens(self) -> int:
        """Tokens of these sentences."""
        return self._n_tokens

    def append(
        self, sentence_tokens: Sequence[str], vectors: Float[np.ndarray, "layers tokens dim"]
    ) -> None:
        """Add the next sentence.

        Args:
            sentence_tokens: Its tokens, perhaps none. Only Parquet stores them.
            vectors: float32. Copied, so that the caller may use the array again.

        Raises:
            ValueError: If the array does not fit or is not finite; if the format cannot hold it;
                if the writer is closed. The file is as before then.
            OSError: If the disk is full or fails. Says how many sentences are safe.
        """
        index = self.n_sentences
        if self._closed or self._broken:
            raise ValueError(f"{self.path} is closed: sentence {index} cannot be added")
        wanted = (self._record.n_layers, len(sentence_tokens), self._record.dim)
        if vectors.shape != wanted or vectors.dtype != np.float32:
            raise ValueError(
                f"the vectors of sentence {index} are {vectors.dtype} of shape {vectors.shape}, "
                f"but {self.path} wants float32 of shape {wanted}: (layers, tokens, dim)"
            )
        for layer, of_layer in enumerate(vectors):
            if not np.isfinite(of_layer).all():
                raise ValueError(
                    f"the vectors of sentence {index} hold NaN or infinity in layer {layer}; "
                    "look for such values in the weights"
                )
        self._format.admit(index, sentence_tokens, vectors)

        n_bytes = _SENTENCE_BYTES + vectors.nbytes
        tokens: list[str] = []
        if self._format.stores_tokens:
            tokens = list(sentence_tokens)
            n_bytes += sum(_TOKEN_BYTES + len(token) for token in tokens)
        if self._pending_bytes + n_bytes > _COMMIT_BYTES:
            self._commit()
        if n_bytes < _COMMIT_BYTES:
            vectors = vectors.copy()
        self._pending.append(_Sentence(tokens, vectors))
        self._pending_bytes += n_bytes
        self._n_tokens += len(sentence_tokens)
        if n_bytes >= _COMMIT_BYTES:  # not copied, so not kept
            self._commit()

    def __enter__(self) -> "VectorWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exception is None:
                self._finish()
            elif not self._broken:
                try:
                    self._commit()
                except Exception as error:  # the first exception is the one to report
                    logger.warning("%s", error)
        finally:
            self._closed = True
            self._partial.vectors.freeze()
            self._format.close()
            self._partial.release()

    def _refuse_to_lose(self, *, force: bool, resume: bool) -> None:
        """Raise before anything is replaced that the caller did not say to replace."""
        folder, unfinished = self._partial.folder, self._partial.is_unfinished
        if self.path.exists() and not force:
            if not resume:
                hint = "pass force=True (--force) to replace it, or choose another name"
            elif unfinished:
                hint = (
                    f"pass force=True (--force) too, to go on with {folder} and replace it, or "
                    "choose another name"
                )
            else:
                hint = (
                    "there is nothing to resume; pass force=True (--force) to replace it, or "
                    "choose another name"
                )
            raise FileExistsError(f"{self.path} exists; {hint}")
        if unfinished and not resume and not force:
            raise FileExistsError(
                f"{folder} holds an unfinished run; pass resume=True (--resume) to go on with it, "
                "or force=True (--force) to start over"
            )

    def _commit(self) -> None:
        """Make all sentences until now safe."""
        if not self._pending:
            return
        with self._failures_reported():
            try:
                self._format.write(self._record.n_sentences, self._pending)
            finally:
                # A failed write explains whatever the format made of it.
                self._partial.check()
            self._record = self._partial.commit(
                self._record._replace(n_sentences=self.n_sentences, n_tokens=self.n_tokens)
            )
            self._pending = []
            self._pending_bytes = 0

    def _finish(self) -> None:
        if self._broken:
            raise OSError(f"{self.path} is not finished: an error before stopped it")
        self._commit()
        if self.path.exists() and not self._force:
            raise FileExistsError(
                f"{self.path} has appeared meanwhile; all is in {self._partial.folder}: pass "
                "resume=True and force=True (--resume --force) to replace it"
            )
        with self._failures_reported():
            try:
                self._format.finish(self.n_sentences)
            finally:
                self._partial.check()
            self._partial.finish(self._record)

    @contextmanager
    def _failures_reported(self) -> Iterator[None]:
        """Whatever happens while files change, they are left as they are for a resumed run."""
        try:
            yield
        except OSError as error:
            self._broken = True
            message = f"cannot write {self.path}: {error.strerror or error}. " + (
                f"{self._record.n_sentences:,} sentences are safe in {self._partial.folder}; "
                f"{'make room' if error.errno in _NO_ROOM else 'see to the disk'}, then go on "
                "with resume=True (--resume)"
            )
            raise (OSError(error.errno, message) if error.errno else OSError(message)) from error
        except BaseException:
            self._broken = True
            raise


def check_room(path: str | Path, n_bytes: int) -> None:
    """Refuse a file for which there clearly is no room.

    Args:
        path: The file to be written; its folder exists.
        n_bytes: What it will take, as far as the caller can tell.

    Raises:
        OSError: (ENOSPC) If the disk has fewer bytes free.
    """
    n_free = shutil.disk_usage(Path(path).parent).free
    if n_bytes > n_free:
        raise OSError(
            errno.ENOSPC,
            f"{path} needs about {n_bytes / 1e9:,.1f} GB, but its disk has {n_free / 1e9:,.1f} GB "
            "free; make room, or choose another place",
        )


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
    read = _by_suffix(path, _READERS)
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
    return _read_parquet(path)


class _Sentence(NamedTuple):
    """A sentence that waits for the next commit."""

    tokens: list[str]  # none where the format does not store them
    vectors: np.ndarray


# The file that grows


class _GrowingFile:
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


# The folder of an unfinished file


class _Record(NamedTuple):
    """What a commit knows to be safe, and of which run."""

    fingerprint: str
    n_layers: int
    dim: int
    n_sentences: int = 0
    n_tokens: int = 0
    vectors_size: int = 0  # bytes
    directory_size: int = 0


class _Partial:
    """The folder beside the target that holds all of it until it is finished."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.folder = target.with_name(f"{target.name}.partial")
        self._commit_path = self.folder / "commit"
        self._vectors_path = self.folder / "vectors"
        self._directory_path = self.folder / "directory"
        self._lock_path = self.folder / "lock"
        self._files: list[_GrowingFile] = []
        try:
            self.folder.mkdir(exist_ok=True)
        except FileExistsError:
            raise FileExistsError(
                f"{self.folder} is in the way: it has to be a folder; rename it"
            ) from None
        self._lock = FileLock(self._lock_path)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(
                f"another process is writing {target}; wait for it, or choose another name"
            ) from None

    @property
    def is_unfinished(self) -> bool:
        """Whether sentences are safe here. Neither before the first commit nor after the last."""
        return self._commit_path.exists() and self._vectors_path.exists()

    @property
    def vectors(self) -> _GrowingFile:
        return self._files[0]

    @property
    def directory(self) -> _GrowingFile:
        return self._files[1]

    def open(self, start: _Record, *, resume: bool) -> _Record:
        """Open both files where they are safe, or, if there are none to resume, empty."""
        record, pages = start, list[tuple[int, bytes | bytearray]]()
        if resume and self.is_unfinished:
            record, pages = self._read_commit()
            for name in ("fingerprint", "n_layers", "dim"):
                if (before := getattr(record, name)) != (now := getattr(start, name)):
                    raise ValueError(
                        f"cannot resume {self.folder}: its {name} is {before!r}, that of this run "
                        f"{now!r}; pass force=True (--force) without resume to start over, or "
                        "choose another name"
                    )
            logger.info("going on after %d sentences in %s", record.n_sentences, self.folder)
        else:
            self._remove_files()
        self._files.append(_GrowingFile(self._vectors_path, record.vectors_size, pages))
        self._files.append(_GrowingFile(self._directory_path, record.directory_size))
        return record

    def check(self) -> None:
        """Raise what stopped a write."""
        for file in self._files:
            file.check()

    def commit(self, record: _Record) -> _Record:
        """Make what both files hold safe. A kill leaves this commit, or the one before."""
        record = record._replace(vectors_size=self.vectors.size, directory_size=self.directory.size)
        # This also forces to disk what the commit before changed in place: `commit`, which is
        # replaced now, was the only other copy.
        for file in self._files:
            file.sync()
        pages = self.vectors.pages
        content = {"version": _RECORD_VERSION, **record._asdict()}
        content["pages"] = [(start, len(page)) for start, page in pages]
        new = self.folder / "commit.new"
        with new.open("wb") as stream:
            stream.write(json.dumps(content).encode() + b"\n")
            stream.writelines(page for _, page in pages)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, self._commit_path)
        _sync_folder(self.folder)
        for file in self._files:
            file.settle()
        return record

    def finish(self, record: _Record) -> None:
        """Give the file its name."""
        if self.vectors.changed_in_place:
            self.commit(record)
        self.vectors.sync()
        self.vectors.close()  # an open file cannot be renamed on Windows
        os.replace(self._vectors_path, self._target)
        _sync_folder(self._target.parent)

    def release(self) -> None:
        """Let others write. Without a safe sentence, the folder goes."""
        for file in self._files:
            file.close()
        if self.is_unfinished:
            self._lock.release()
            return
        self._remove_files()
        # While it is held: who waits for this lock must not get it. (Windows cannot, and need not.)
        with suppress(PermissionError):
            self._lock_path.unlink(missing_ok=True)
        self._lock.release()
        with suppress(OSError):  # another process has begun, or a user has put something there
            self.folder.rmdir()

    def _read_commit(self) -> tuple[_Record, list[tuple[int, bytes | bytearray]]]:
        try:
            with self._commit_path.open("rb") as stream:
                content = json.loads(stream.readline())
                if (version := content.pop("version")) != _RECORD_VERSION:
                    raise ValueError(f"its version is {version}, not {_RECORD_VERSION}")
                pages = content.pop("pages")
                return _Record(**content), [(start, stream.read(size)) for start, size in pages]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"cannot resume {self.folder}: {self._commit_path.name} cannot be read ({error}); "
                "pass force=True (--force) without resume to start over"
            ) from None

    def _remove_files(self) -> None:
        # The commit first: what follows is nothing without it.
        for path in (
            self._commit_path,
            self.folder / "commit.new",
            self._directory_path,
            self._vectors_path,
        ):
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Force to disk which names a folder has."""
    if os.name == "nt":
        return  # Windows opens no folders, and needs no such call
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# The formats


class _Format(Protocol):
    """How sentences become bytes at the end of a growing file."""

    stores_tokens: bool

    def admit(self, index: int, tokens: Sequence[str], vectors: np.ndarray) -> None:
        """Raise ValueError for a sentence that the format cannot hold."""

    def write(self, first: int, sentences: Sequence[_Sentence]) -> None:
        """Append sentences, the first of which has this index."""

    def finish(self, n_sentences: int) -> None:
        """Append what belongs at the end."""

    def close(self) -> None:
        """Let go of the file."""


class _Hdf5(_Format):
    stores_tokens = False

    def __init__(
        self, file: _GrowingFile, directory: _GrowingFile, n_layers: int, dim: int
    ) -> None:
        mode = "r+" if file.size else "w"
        self._h5 = h5py.File(file, mode, libver=("v108", "v108"))

    def write(self, first: int, sentences: Sequence[_Sentence]) -> None:
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


class _Npz(_Format):
    """Every commit is a small archive, whose central directory is moved to the end of the file."""

    stores_tokens = False
    _END = struct.Struct("<4s4H2LH")
    _END_64 = struct.Struct("<4sQ2H2L4Q")
    _LOCATOR_64 = struct.Struct("<4sLQL")

    def __init__(
        self, file: _GrowingFile, directory: _GrowingFile, n_layers: int, dim: int
    ) -> None:
        self._file = file
        self._directory = directory

    def write(self, first: int, sentences: Sequence[_Sentence]) -> None:
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


class _Parquet(_Format):
    """Every commit is a row group, whose footer is cut off and kept, to be merged at the end."""

    stores_tokens = True
    _LENGTH = struct.Struct("<L")

    def __init__(
        self, file: _GrowingFile, directory: _GrowingFile, n_layers: int, dim: int
    ) -> None:
        pa = _pyarrow()
        self._file = file
        self._directory = directory
        self._n_layers = n_layers
        self._dim = dim
        layout = "vectors: float32 of shape (layers, tokens, dim), flattened in C order"
        self._schema = pa.schema(
            [
                ("sentence", pa.int64()),
                ("tokens", pa.list_(pa.string())),
                ("layers", pa.int32()),
                ("dim", pa.int32()),
                ("vectors", pa.list_(pa.float32())),
            ],
            metadata={"layout": layout},
        )

    def admit(self, index: int, tokens: Sequence[str], vectors: np.ndarray) -> None:
        if vectors.size > _MOST_IN_A_LIST:
            raise ValueError(
                f"sentence {index} has {vectors.size:,} numbers, but a row of Parquet holds at "
                f"most {_MOST_IN_A_LIST:,}; write .hdf5 or .npz, or split it"
            )
        for token in tokens:
            try:
                token.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"sentence {index} has the token {token!r} with a lone surrogate, which "
                    "Parquet's UTF-8 cannot hold; replace it, or write .hdf5 or .npz"
                ) from None

    def write(self, first: int, sentences: Sequence[_Sentence]) -> None:
        pa = _pyarrow()
        import pyarrow.parquet as pq

        n = len(sentences)
        flat = [vectors.reshape(-1) for _, vectors in sentences]
        offsets = np.cumsum([0, *map(len, flat)], dtype=np.int32)
        values = flat[0] if n == 1 else np.concatenate([np.zeros(0, np.float32), *flat])
        columns = [
            pa.array(range(first, first + n), pa.int64()),
            pa.array([tokens for tokens, _ in sentences], pa.list_(pa.string())),
            pa.array([self._n_layers] * n, pa.int32()),
            pa.array([self._dim] * n, pa.int32()),
            pa.ListArray.from_arrays(pa.array(offsets), pa.array(values)),
        ]
        footers: list[Any] = []
        sink = _AppendingSink(self._file)
        with pa.PythonFile(sink, mode="w") as stream:
            writer = pq.ParquetWriter(
                stream,
                self._schema,
                compression="zstd",
                use_dictionary=["tokens.list.element"],
                column_encoding={"vectors.list.element": "BYTE_STREAM_SPLIT"},
                write_statistics=["sentence"],
                metadata_collector=footers,
            )
            with writer:
                # Arrow counts offsets from 0 and refuses to append, so it is led to believe that
                # it has written what is there already. The zeros are never looked at.
                zeros = np.zeros(1 << 26, np.uint8)
                while sink.n_to_skip:
                    stream.write(zeros[: sink.n_to_skip])
                writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self._file.seek(-8, os.SEEK_END)
        (footer_size,) = self._LENGTH.unpack(self._file.read(4))
        self._file.truncate(self._file.size - 8 - footer_size)

        footer = pa.BufferOutputStream()
        footers[0].write_metadata_file(footer)
        content = footer.getvalue().to_pybytes()
        self._directory.seek(0, os.SEEK_END)
        self._directory.write(self._LENGTH.pack(len(content)) + content)

    def finish(self, n_sentences: int) -> None:
        if not n_sentences:
            self.write(0, [])
        pa = _pyarrow()
        import pyarrow.parquet as pq

        merged: Any = None
        self._directory.seek(0)
        while length := self._directory.read(self._LENGTH.size):
            content = self._directory.read(self._LENGTH.unpack(length)[0])
            footer = pq.read_metadata(pa.BufferReader(content))
            if merged is None:
                merged = footer
            else:
                merged.append_row_groups(footer)
        stream = pa.BufferOutputStream()
        merged.write_metadata_file(stream)
        self._file.seek(0, os.SEEK_END)
        self._file.write(stream.getvalue()[4:])  # without the mark of a file's beginning

    def close(self) -> None:
        pass


class _AppendingSink:
    """What Arrow writes to: ignores as many bytes as the file has already, appends the others."""

    closed = False

    def __init__(self, file: _GrowingFile) -> None:
        self._file = file
        self.n_to_skip = file.size
        file.seek(0, os.SEEK_END)

    def write(self, data: Any) -> int:
        n_bytes = memoryview(data).nbytes
        if self.n_to_skip:
            self.n_to_skip -= n_bytes
        else:
            self._file.write(data)
        return n_bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            '.parquet needs pyarrow; install it with: pip install "elmo-torch[parquet]"'
        ) from None
    return pyarrow


# Reading


def _read_hdf5(path: Path) -> Iterator[np.ndarray]:
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise _unreadable(path, "HDF5", error) from None
    with file:
        index = 0
        # By number: HDF5 lists names as strings, "10" before "2".
        while (name := str(index)) in file:
            dataset = file[name]
            if not isinstance(dataset, h5py.Dataset) or dataset.ndim != 3:
                raise _unreadable(path, "HDF5", f'"{name}" is no array (layers, tokens, dim)')
            if dataset.dtype != np.float32:
                raise _unreadable(path, "HDF5", f'"{name}" is {dataset.dtype}, not float32')
            try:
                vectors = dataset[()]
            except OSError as error:
                raise _unreadable(path, "HDF5", error) from None
            yield vectors
            index += 1
        if len(file) > index and (beyond := sum(name.isdigit() for name in file) - index):
            raise _unreadable(path, "HDF5", f'"{index}" is missing, but {beyond} others follow')


def _read_npz(path: Path) -> Iterator[np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            for index in range(n_arrays := len(archive.infolist())):
                name = f"{index}.npy"
                try:
                    stream = archive.open(name)
                except KeyError:
                    found = f"{name} is missing among {n_arrays} arrays"
                    raise _unreadable(path, "npz", found) from None
                with stream:
                    vectors = np.lib.format.read_array(stream, allow_pickle=False)
                if vectors.ndim != 3 or vectors.dtype != np.float32:
                    found = f"{name} is {vectors.dtype} of shape {vectors.shape}"
                    raise _unreadable(path, "npz", f"{found}, not float32 (layers, tokens, dim)")
                yield vectors
    except (zipfile.BadZipFile, EOFError) as error:
        raise _unreadable(path, "npz", error) from None


def _read_parquet(path: Path) -> Iterator[tuple[list[str], np.ndarray]]:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    names = ["sentence", "tokens", "layers", "dim", "vectors"]
    try:
        with pq.ParquetFile(path) as file:
            if missing := set(names) - set(file.schema_arrow.names):
                raise _unreadable(path, "Parquet", f"it has no column {min(missing)!r}")
            if file.schema_arrow.field("vectors").type != pa.list_(pa.float32()):
                raise _unreadable(path, "Parquet", "its vectors are no lists of float32")
            index = 0
            for group in range(file.num_row_groups):
                for batch in file.read_row_group(group, columns=names).to_batches():
                    n_layers, dim = (batch[name].to_numpy() for name in ("layers", "dim"))
                    offsets = batch["vectors"].offsets.to_numpy()
                    values = batch["vectors"].values.to_numpy()
                    for row, sentence in enumerate(batch["sentence"].to_pylist()):
                        if sentence != index:
                            found = f"sentence {sentence} stands where {index} should"
                            raise _unreadable(path, "Parquet", found)
                        flat = values[offsets[row] : offsets[row + 1]]
                        vectors = flat.reshape(n_layers[row], -1, dim[row]).copy()
                        yield batch["tokens"][row].as_py(), vectors
                        index += 1
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, "Parquet", error) from None


def _unreadable(path: Path, kind: str, reason: object) -> ValueError:
    first_line = str(reason).partition("\n")[0]
    return ValueError(
        f"{path} cannot be read as {kind}: {first_line}. It may be cut short, or not ours; write "
        "it again"
    )


_Choice = TypeVar("_Choice")

_FORMATS: dict[str, Callable[[_GrowingFile, _GrowingFile, int, int], _Format]] = {
    ".hdf5": _Hdf5,
    ".h5": _Hdf5,
    ".npz": _Npz,
    ".parquet": _Parquet,
}

_READERS: dict[str, Callable[[Path], Iterator[np.ndarray]]] = {
    ".hdf5": _read_hdf5,
    ".h5": _read_hdf5,
    ".npz": _read_npz,
    ".parquet": lambda path: (vectors for _, vectors in _read_parquet(path)),
}


def _by_suffix(path: Path, choices: Mapping[str, _Choice]) -> _Choice:
    try:
        return choices[path.suffix.lower()]
    except KeyError:
        raise ValueError(
            f"{path} ends in {path.suffix!r}, which names no format; choose one of "
            ".hdf5 (or .h5), .npz, .parquet"
        ) from None
