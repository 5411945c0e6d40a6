"""The folder of an unfinished file: what makes a run resumable, whatever moment it is killed at.

`VectorWriter` collects sentences up to 64 MiB, then commits them: they are appended to the file
itself. Until the end it lies in the folder `<file>.partial` beside its place, and then it is
renamed: nobody sees half a file under the final name, nothing is copied at the end, and every
vector is on disk once. (Shards joined at the end would need room for two.) The folder holds:

- `vectors`: the file that grows;
- `directory`: what the format writes last (zip's central directory, Parquet's row groups), kept
  on disk so that memory does not grow with the number of sentences;
- `commit`: how many sentences are safe, and how long both files then were; replaced atomically;
- `lock`: held by the process that writes.

Zip and Parquet only append, so that going on means to cut off what the last commit does not know
of. HDF5 also changes what it wrote before (its index of names), and a file that it was killed over
may be lost. So it never changes the safe part of the file itself: its changes to that part are held
in memory, stored in `commit`, and written to the file after that; from `commit` again, if a kill
came between.
"""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from elmo.store.growing_file import GrowingFile

logger = logging.getLogger(__name__)

RECORD_VERSION = 2


class Record(NamedTuple):
    """What a commit knows to be safe, and of which run."""

    settings: dict[str, Any]
    n_layers: int
    dim: int
    n_sentences: int = 0
    n_tokens: int = 0
    vectors_size: int = 0  # bytes
    directory_size: int = 0


class Partial:
    """The folder beside the target that holds all of it until it is finished."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.folder = target.with_name(f"{target.name}.partial")
        self._commit_path = self.folder / "commit"
        self._vectors_path = self.folder / "vectors"
        self._directory_path = self.folder / "directory"
        self._lock_path = self.folder / "lock"
        self._files: list[GrowingFile] = []
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
    def vectors(self) -> GrowingFile:
        return self._files[0]

    @property
    def directory(self) -> GrowingFile:
        return self._files[1]

    def open(self, start: Record, *, resume: bool) -> Record:
        """Open both files where they are safe, or, if there are none to resume, empty."""
        record, pages = start, list[tuple[int, bytes | bytearray]]()
        if resume and self.is_unfinished:
            record, pages = self._read_commit()
            if differences := _differences(record, start):
                raise ValueError(
                    f"cannot resume {self.folder}: {differences}; pass force=True (--force) "
                    "without resume to start over, or choose another name"
                )
            logger.info("going on after %d sentences in %s", record.n_sentences, self.folder)
        else:
            self._remove_files()
        self._files.append(GrowingFile(self._vectors_path, record.vectors_size, pages))
        self._files.append(GrowingFile(self._directory_path, record.directory_size))
        return record

    def check(self) -> None:
        """Raise what stopped a write."""
        for file in self._files:
            file.check()

    def commit(self, record: Record) -> Record:
        """Make what both files hold safe. A kill leaves this commit, or the one before."""
        record = record._replace(vectors_size=self.vectors.size, directory_size=self.directory.size)
        # This also forces to disk what the commit before changed in place: `commit`, which is
        # replaced now, was the only other copy.
        for file in self._files:
            file.sync()
        pages = self.vectors.pages
        content = {"version": RECORD_VERSION, **record._asdict()}
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

    def finish(self, record: Record) -> None:
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

    def _read_commit(self) -> tuple[Record, list[tuple[int, bytes | bytearray]]]:
        try:
            with self._commit_path.open("rb") as stream:
                content = json.loads(stream.readline())
                if (version := content.pop("version")) != RECORD_VERSION:
                    raise ValueError(f"its version is {version}, not {RECORD_VERSION}")
                pages = content.pop("pages")
                return Record(**content), [(start, stream.read(size)) for start, size in pages]
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


def _differences(before: Record, now: Record) -> str:
    """What another run was given, for a reader; nothing where it is the same."""
    said = []
    given = [{"n_layers": r.n_layers, "dim": r.dim, **r.settings} for r in (before, now)]
    for name in given[0] | given[1]:
        then, today = (values.get(name) for values in given)
        if then != today:
            shown = f"was {then!r} then and is {today!r} now"
            said.append(f"{name} {shown if len(shown) < 80 else 'was another then'}")
    return ", ".join(said)


def _sync_folder(folder: Path) -> None:
    """Force to disk which names a folder has."""
    if os.name == "nt":
        return  # Windows opens no folders, and needs no such call
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
