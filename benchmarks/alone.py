"""Each way that is measured in a process of its own: memory is its own, and nothing is warm."""

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import torch

from elmo.memory import peak_memory


def alone(work: Callable[..., dict[str, Any]], n_threads: int, *arguments: Any) -> dict[str, Any]:
    """What `work` gives, and the most memory its process had (MiB); or that it failed, and why."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply(_measured, (work, n_threads, arguments))
        except Exception as error:  # the table goes on without this row
            return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}


def _measured(
    work: Callable[..., dict[str, Any]], n_threads: int, arguments: tuple[Any, ...]
) -> dict[str, Any]:
    torch.set_num_threads(n_threads)
    result = work(*arguments)
    return {**result, "peak_mib": peak_memory() // 2**20}


def timed(run: Callable[[], object], n_runs: int) -> float:
    """Median seconds of a run, after one that does not count."""
    run()
    return sorted(seconds_of(run) for _ in range(n_runs))[n_runs // 2]


def seconds_of(run: Callable[[], object]) -> float:
    """How long it takes, once."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
