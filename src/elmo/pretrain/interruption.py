"""Ctrl-C and SIGTERM as requests to end after the current step."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second one is as always."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[int, Any] = {}

    def request(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before[number])
        stop.set()

    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        before[number] = signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
