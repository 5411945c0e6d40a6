"""One run at a time in a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

LOCK_FILE = ".lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; the operating system lets go of it if we are killed.

    Raises:
        ValueError: If another run is in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise ValueError(
            f"another run is writing into {folder}: wait for it, or give another output"
        ) from None
    try:
        yield
    finally:
        lock.release()
