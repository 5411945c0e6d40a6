"""How much memory a process had."""

import resource
import sys


def peak_memory(usage: resource.struct_rusage | None = None) -> int:
    """Bytes of memory that a process had at most: this one, or the one whose usage is given.

    The system counts them in kilobytes, but macOS in bytes.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF) if usage is None else usage
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
