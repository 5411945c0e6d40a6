"""Two halves of the work at the same time, each with half of PyTorch's threads.

A step of an LSTM is too small to keep many threads busy, and the two directions of a biLM do not
wait for each other until both are read.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def side_by_side(work: Callable[[int], Result]) -> tuple[Result, Result]:
    """`work(0)` and `work(1)`, in threads that stay for the next call; without gradients.

    With a single thread allowed (`torch.set_num_threads(1)`), one after the other.
    """
    n_threads = torch.get_num_threads()
    if n_threads < 2:
        return work(0), work(1)

    inference = torch.is_inference_mode_enabled()

    def alone(half: int) -> Result:
        with torch.inference_mode() if inference else torch.no_grad():
            return work(half)

    first, second = _pool(n_threads).map(alone, (0, 1))
    return first, second


def _pool(n_threads: int) -> ThreadPoolExecutor:
    with _lock:
        if n_threads not in _pools:
            pool = ThreadPoolExecutor(
                2, "elmo", initializer=torch.set_num_threads, initargs=(n_threads // 2,)
            )
            both_started = threading.Barrier(2)
            list(pool.map(lambda _: both_started.wait(), range(2)))
            # A thread's setting is also what later threads begin with: put that back.
            torch.set_num_threads(n_threads)
            _pools[n_threads] = pool
        return _pools[n_threads]


# Threads do not live on in a forked process; nor may a lock that one of them held.
def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
