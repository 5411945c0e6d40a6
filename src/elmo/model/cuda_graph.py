"""CUDA graphs: many small launches, recorded once and launched again as one.

A recorded function reads and writes where it did when it was recorded. So what goes in and out lies
in memory that stays, and belongs to whoever records.
"""

from collections.abc import Callable
from typing import Any

import torch


def new_pool() -> Any:
    """Memory that functions recorded with it share for what lives within one of them."""
    return torch.cuda.graph_pool_handle()


def capture(*functions: Callable[[], object], pool: Any) -> list[Callable[[], None]]:
    """Record what each of some functions launches; to call a result is to launch that again.

    All are run in turn first: libraries make ready, and kernels are compiled, when they are first
    used, which no recording may contain. Both take some milliseconds.

    Raises:
        RuntimeError: If a function does what cannot be recorded, as to wait for the device.
    """
    stream, here = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        for function in functions:
            function()
    here.wait_stream(stream)
    recorded = []
    for function in functions:
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on to use the device meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            function()
        recorded.append(graph.replay)
    return recorded
