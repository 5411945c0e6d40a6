import resource
import sys

import pytest

from elmo.memory import peak_memory


def test_the_peak_of_this_process_is_in_bytes():
    assert 2**24 < peak_memory() < 2**40


@pytest.mark.parametrize(("platform", "n_bytes"), [("darwin", 3000), ("linux", 3000 * 1024)])
def test_the_unit_is_that_of_the_system(monkeypatch, platform, n_bytes):
    monkeypatch.setattr(sys, "platform", platform)
    usage = resource.struct_rusage([0, 0, 3000, *[0] * 13])
    assert peak_memory(usage) == n_bytes
