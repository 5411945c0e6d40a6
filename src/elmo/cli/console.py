"""What all commands share: output, progress, and errors as one line."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)
"""What a user can do something about; anything else is a fault of ours and shows its trace."""
INTERRUPTED = 130

console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
messages = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def report_errors(*, traceback: bool) -> Iterator[None]:
    """Turn an expected error into one line on stderr and exit code 2."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        yield
    except BrokenPipeError:
        # Who read our output has had enough; nothing else may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (*EXPECTED, RuntimeError) as error:
        if traceback or not (isinstance(error, EXPECTED) or _is_of_memory(error)):
            raise
        messages.print(f"error: {_told(error)}")
        raise SystemExit(2) from None


def _is_of_memory(error: Exception) -> bool:
    """Whether there was not enough; PyTorch has no error of its own for that on a CPU."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    said = str(error).lower()
    return "can't allocate memory" in said or "out of memory" in said


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"  # as the system says it, without its number
    said = " ".join(str(error).split()) or type(error).__name__
    return f"not enough memory: {said}" if _is_of_memory(error) else said


@contextmanager
def counting(label: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """A bar that counts, with the time left; what it gives is called with the number newly done."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=messages,
        disable=not messages.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task(label, total=total)
        yield lambda n: bar.advance(task, n)


@contextmanager
def downloading() -> Iterator[Callable[[int, int | None], None]]:
    """A bar for bytes, shown from the first one on."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=messages,
        disable=not messages.is_terminal,
        transient=True,
    ) as bar:
        tasks: list[TaskID] = []

        def advance(done: int, total: int | None) -> None:
            if not tasks:
                tasks.append(bar.add_task("Downloading", total=total))
            bar.update(tasks[0], completed=done, total=total)

        yield advance


class _TimeLeft(TimeRemainingColumn):
    """What whoever does the work says is left; where it does not say, what the bar's speed says."""

    def render(self, task: Task) -> Text:
        seconds = task.fields["seconds_left"]
        if seconds is None:
            return super().render(task)
        return Text(str(timedelta(seconds=round(seconds))), style="progress.remaining")


class ShowShare(Protocol):
    """Shows how much of some work is done."""

    def __call__(
        self, label: str, share: float, beside: str, *, seconds_left: float | None = None
    ) -> None:
        """Renew a bar, or begin it.

        Args:
            label: Of the work: each has a bar.
            share: From 0 to 1.
            beside: A text beside the bar.
            seconds_left: None to tell by the speed so far.
        """


@contextmanager
def shares_done() -> Iterator[ShowShare]:
    """Bars for shares from 0 to 1: one for each kind of work, from the first call for it on."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        _TimeLeft(),
        TextColumn("{task.fields[beside]}"),
        console=messages,
        disable=not messages.is_terminal,
    ) as bar:
        tasks: dict[str, TaskID] = {}

        def show(
            label: str, share: float, beside: str, *, seconds_left: float | None = None
        ) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(label, total=1.0, beside="", seconds_left=None)
            bar.update(tasks[label], completed=share, beside=beside, seconds_left=seconds_left)

        yield show
