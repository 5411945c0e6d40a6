"""Files that are one model: replaced together, and known if they were replaced while being read.

One of them is the mark: a folder without it holds no model. When a model takes the place of
another, the mark leaves first and comes last. Whoever looks meanwhile, or after a process was
killed, finds no model rather than parts of two.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

UNIQUE = "[0-9a-f]" * 8
"""Of what is beside a file: its part of the name, as a pattern."""


@contextmanager
def replaced_together(
    folder: Path, mark: str, others: Sequence[str]
) -> Iterator[Callable[[str], Path]]:
    """Put the files of a model in the place of an older one's when all of them are written.

    A file of the older model that the new one has not is deleted. If anything fails, the older
    model is there as before. What remains: a process killed between two renames leaves a folder
    without the mark, in which the older files are called `*.old`.

    Args:
        folder: Made if it is missing.
        mark: The file without which the others are no model.
        others: All other files that a model of this format may have.

    Yields:
        Where to write the file of a name, until it gets that name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = (mark, *others)
    unique = secrets.token_hex(4)  # what a killed process left is never taken for ours
    new = {file: folder / f"{file}.{unique}.tmp" for file in files}
    old = {file: folder / f"{file}.{unique}.old" for file in files}
    try:
        yield new.__getitem__
        written = [file for file in files if new[file].exists()]
        try:
            for file in files:
                if (folder / file).exists():
                    os.replace(folder / file, old[file])
            for file in reversed(written):
                os.replace(new[file], folder / file)
        except BaseException:
            if new[mark].exists():  # the last step is still to come: take all others back
                for file in reversed(files):
                    if old[file].exists():
                        os.replace(old[file], folder / file)
                    elif file in written and not new[file].exists():
                        (folder / file).unlink()
            raise
    finally:
        if not new[mark].exists():  # it has its name, or nothing was moved
            for path in old.values():
                path.unlink(missing_ok=True)
        for path in new.values():
            path.unlink(missing_ok=True)


def take_back(folder: Path, mark: str, others: Sequence[str]) -> None:
    """Clear away what killed processes left of `replaced_together`.

    Where one was killed between two renames, the older model is put back. No other process may be
    writing into the folder. A file that the newer model has and the older has not would be left.

    Args:
        folder: Where the model is.
        mark: As for `replaced_together`.
        others: Likewise.
    """
    files = (mark, *others)
    if not (folder / mark).exists():
        marks = folder.glob(f"{mark}.{UNIQUE}.old")
        for last in sorted(marks, key=lambda path: path.stat().st_mtime)[-1:]:
            for file in reversed(files):
                old = folder / f"{file}{last.name.removeprefix(mark)}"
                if old.exists():
                    os.replace(old, folder / file)
    for file in files:
        for kind in ("tmp*", "old"):  # who writes into the one may have one beside it
            for path in folder.glob(f"{file}.{UNIQUE}.{kind}"):
                path.unlink()


@contextmanager
def not_replaced(mark: Path) -> Iterator[None]:
    """Refuse what is read in this context if another model took the place of the one it was of.

    Raises:
        ValueError: If the mark is another file at the end than at the beginning.
    """
    before = _identity(mark)
    yield
    if _identity(mark) != before:
        raise ValueError(f"{mark.parent} got another model while it was read: read it again")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
