"""How much memory a process had."""

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")
"""Of Linux. What it tells by `getrusage` begins with the peak of whoever started the process."""


def peak_memory() -> int:
    """Bytes of memory that this process had at most."""
    if STATUS.exists():
        fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return of_usage(resource.getrusage(resource.RUSAGE_SELF))


def of_usage(usage: resource.struct_rusage) -> int:
    """Bytes of memory that a process had at most: counted in kilobytes, but by macOS in bytes."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
