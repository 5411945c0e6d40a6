"""What a measured number needs to be read later: hardware, versions, commit and date."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch


def circumstances(n_threads: int, device: torch.device | None = None) -> dict[str, str]:
    """Of a run that happens now, on this machine (and GPU, if one is given), in this checkout."""
    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    hardware = f"{processor}, {n_threads} threads"
    if device is not None and device.type == "cuda":
        hardware = f"{torch.cuda.get_device_name(device)} (CUDA {torch.version.cuda}); {hardware}"
    return {
        "hardware": hardware,
        "torch": torch.__version__,
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
    }
