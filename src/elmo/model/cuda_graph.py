"""CUDA graphs: many small launches, recorded once and launched again as one.

A recorded function reads and writes where it did when it was recorded. So what goes in and out lies
in memory that stays, and belongs to whoever records.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Pool(NamedTuple):
    """What functions that are recorded with it share: they must not be replayed at one time.

    Attributes:
        memory: For what lives within one of them.
        stream: To record on; with it goes the memory that products work in.
    """

    memory: Any
    stream: torch.cuda.Stream


def new_pool() -> Pool:
    """A pool on the current device."""
    return Pool(torch.cuda.graph_pool_handle(), torch.cuda.Stream())


def capture(*functions: Callable[[], object], pool: Pool) -> list[Callable[[], None]]:
    """Record what each of some functions launches; to call a result is to launch that again.

    All are run in turn first: libraries make ready, and kernels are compiled, when they are first
    used, which no recording may contain.

    Raises:
        RuntimeError: If a function does what cannot be recorded, as to wait for the device.
    """
    here = torch.cuda.current_stream()
    pool.stream.wait_stream(here)
    with torch.cuda.stream(pool.stream):
        for function in functions:
            function()
    here.wait_stream(pool.stream)
    recorded = []
    for function in functions:
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on to use the device meanwhile.
        with torch.cuda.graph(
            graph, pool=pool.memory, stream=pool.stream, capture_error_mode="thread_local"
        ):
            function()
        recorded.append(graph.replay)
    return recorded
