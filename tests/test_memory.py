import resource
import subprocess
import sys

import pytest

from elmo import memory
from elmo.memory import of_usage, peak_memory


def test_the_peak_of_this_process_is_in_bytes(monkeypatch, tmp_path):
    assert 2**24 < peak_memory() < 2**40
    monkeypatch.setattr(memory, "STATUS", tmp_path / "absent")
    assert 2**24 < peak_memory() < 2**40


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is what the system counts")
def test_the_peak_of_whoever_started_it_is_not_that_of_a_process():
    begin = "import subprocess, sys; held = bytearray(b'1') * 300_000_000; subprocess.run"
    own = "from elmo.memory import peak_memory; print(peak_memory())"
    command = [sys.executable, "-c", f"{begin}([sys.executable, '-c', {own!r}])"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(told) < 250_000_000


@pytest.mark.parametrize(("platform", "n_bytes"), [("darwin", 3000), ("linux", 3000 * 1024)])
def test_the_unit_is_that_of_the_system(monkeypatch, platform, n_bytes):
    monkeypatch.setattr(sys, "platform", platform)
    usage = resource.struct_rusage([0, 0, 3000, *[0] * 13])
    assert of_usage(usage) == n_bytes
