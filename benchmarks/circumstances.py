"""What a measured number needs to be read later: hardware, versions, commit and date."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch


def circumstances(n_threads: int) -> dict[str, str]:
    """Of a run that happens now, on this machine, in this checkout."""
    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "hardware": f"{processor}, {n_threads} threads",
        "torch": torch.__version__,
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
    }
