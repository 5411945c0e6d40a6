"""Benchmarks run, on next to nothing: what they print is checked when they are used."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from elmo import BiLM, BiLMConfig, CharCnnConfig, LstmConfig
from elmo.checkpoints.folder import Checkpoint, save_folder

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = BiLMConfig(
    char_cnn=CharCnnConfig(char_dim=4, filters=((1, 3), (2, 5)), n_highway=1, dim=6),
    lstm=LstmConfig(n_layers=2, hidden_dim=7, dim=6),
)
CONLLU = "# text = It works\n1\tIt\t_\n2\tworks\t_\n\n1-2\tcannot\t_\n1\tcan\t_\n2\tnot\t_\n"


@pytest.fixture
def model(tmp_path) -> Path:
    bilm = BiLM(TINY)
    bilm.reset_parameters()
    save_folder(Checkpoint(bilm), tmp_path / "model")
    return tmp_path / "model"


def test_the_inference_benchmark_compares_with_the_plain_reading(
    model, tmp_path, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(BENCHMARKS)
    (tmp_path / "a.conllu").write_text(CONLLU)
    out = tmp_path / "out.json"
    arguments = [str(tmp_path / "a.conllu"), "--model", str(model), "--out", str(out)]
    monkeypatch.setattr(
        sys, "argv", ["inference.py", *arguments, "--repeat", "1", "--threads", "2"]
    )
    importlib.import_module("inference").main()
    result = json.loads(out.read_text())
    assert (result["n_sentences"], result["n_tokens"]) == (2, 4)
    assert result["largest_difference"] < 1e-5
    assert {"hardware", "torch", "commit", "date"} <= set(result)
    assert "tokens/s" in capsys.readouterr().out
