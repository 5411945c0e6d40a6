"""Examples run as a reader runs them, and the default model keeps its promise."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEFAULT = ROOT / "src" / "elmo" / "default_model" / "config.json"


@pytest.mark.skipif(not DEFAULT.exists(), reason="this checkout has no default model")
def test_the_demo_tells_senses_of_at_least_six_of_eight_words_apart(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["polysemy.py"])
    runpy.run_path(str(ROOT / "examples" / "polysemy.py"), run_name="__main__")
    said = capsys.readouterr().out
    at_some_layer = re.search(r"at some layer: (\d) of 8", said)
    assert at_some_layer and int(at_some_layer[1]) >= 6
    # Characters alone cannot tell senses apart; that layer is printed as it is.
    assert "layer 0: 0 of 8" in said
    assert said.count("closest pairs") == 8 * 3
