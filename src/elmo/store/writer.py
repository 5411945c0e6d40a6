"""Writing a file of vectors, sentence by sentence."""

import errno
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Float

from elmo.store.formats import Format, Sentence
from elmo.store.growing_file import GrowingFile
from elmo.store.hdf5 import Hdf5
from elmo.store.npz import Npz
from elmo.store.parquet import Parquet
from elmo.store.partial import Partial, Record
from elmo.store.suffix import by_suffix

logger = logging.getLogger(__name__)

# A commit costs some flushes to disk; what it has not seen is lost in a kill: 64 MiB are 5,461
# tokens of the original model, seconds of work. It is also a row group of Parquet, which readers
# load whole.
COMMIT_BYTES = 64 << 20
# What a sentence costs beside its vectors: a name, a place in an index. It bounds how many
# sentences, perhaps without a token, wait for a commit.
SENTENCE_BYTES = 2 << 10
TOKEN_BYTES = 64  # a token, as a Python string, beside its characters
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

FORMATS: dict[str, Callable[[GrowingFile, GrowingFile, int, int], Format]] = {
    ".hdf5": Hdf5,
    ".h5": Hdf5,
    ".npz": Npz,
    ".parquet": Parquet,
}


class VectorWriter:
    """A file of vectors that is written sentence by sentence, and is whole or not there.

    Leaving the `with` block finishes the file and gives it its name. Leaving it by an exception, or
    being killed in it, keeps what is written in the folder `<path>.partial`, for `resume`.
    Memory does not grow with the number of sentences, only with the longest one.

    Args:
        path: The file. Its suffix chooses the format: `.hdf5` or `.h5`, `.npz`, `.parquet`.
        n_layers: Layers of every sentence.
        dim: Dimension of every vector.
        settings: Whatever the vectors depend on (model, settings, input), as JSON can hold it. Only
            a run with the same ones can be resumed.
        force: Replace the file if it exists, at the moment when the new one is finished. Without
            `resume`, also throw away what an unfinished run left.
        resume: Go on after the last safe sentence of an unfinished run; if there is none, begin.

    Raises:
        ValueError: For another suffix; if the unfinished run has other settings, `n_layers` or
            `dim`, or is damaged.
        FileNotFoundError: If the folder of `path` does not exist.
        FileExistsError: If the file exists and not `force`; if an unfinished run is there and
            neither `resume` nor `force`.
        BlockingIOError: If another process is writing the same file.
        ImportError: For `.parquet` without pyarrow.

    Example:
        >>> with VectorWriter("out.hdf5", n_layers=3, dim=1024, settings={}, resume=True) as out:
        ...     for tokens in sentences[out.n_sentences :]:
        ...         out.append(tokens, encode(tokens))
    """

    def __init__(
        self,
        path: str | Path,
        *,
        n_layers: int,
        dim: int,
        settings: Mapping[str, object],
        force: bool = False,
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        format_class = by_suffix(self.path, FORMATS)
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
        self._pending: list[Sentence] = []
        self._pending_bytes = 0
        self._closed = self._broken = False
        self._partial = Partial(self.path)
        try:
            self._refuse_to_lose(force=force, resume=resume)
            start = Record(dict(settings), int(n_layers), int(dim))
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

        n_bytes = SENTENCE_BYTES + vectors.nbytes
        tokens: list[str] = []
        if self._format.stores_tokens:
            tokens = list(sentence_tokens)
            n_bytes += sum(TOKEN_BYTES + len(token) for token in tokens)
        if self._pending_bytes + n_bytes > COMMIT_BYTES:
            self._commit()
        if n_bytes < COMMIT_BYTES:
            vectors = vectors.copy()
        self._pending.append(Sentence(tokens, vectors))
        self._pending_bytes += n_bytes
        self._n_tokens += len(sentence_tokens)
        if n_bytes >= COMMIT_BYTES:  # not copied, so not kept
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
                f"{'make room' if error.errno in NO_ROOM else 'see to the disk'}, then go on "
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
