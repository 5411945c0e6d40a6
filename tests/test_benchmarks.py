"""Benchmarks run, on next to nothing: what they print is checked when they are used."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

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


def test_the_gpu_benchmark_measures_whatever_device_it_is_given(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "config_of", lambda size: TINY)
    for name, value in {"N_WORDS": 60, "N_NEGATIVES": 20, "N_STEPS": 4, "GEMM": 8}.items():
        monkeypatch.setattr(gpu, name, value)
    settings = {"sentences": None, "n_sentences": 30, "repeat": 1, "steps": 2, "sizes": "small"}
    few = {
        "batch_tokens": "64",
        "rows": "3",
        "dtypes": "float32",
        "what": ["inference", "training"],
    }
    arguments = argparse.Namespace(**settings, **few, profile=None, out=None)
    result = gpu.measure(arguments, torch.device("cpu"))
    assert len(result["rows"]) == 6 + 2
    assert all(row["tokens_per_second"] > 0 for row in result["rows"])
    assert "CudaReader, from text to host" in capsys.readouterr().out
    table = tmp_path / "kernels.txt"
    gpu.Measuring(torch.device("cpu"), 1, table).kernels("a sum", torch.ones(2).sum)
    assert table.read_text().startswith("a sum") and "aten::sum" in table.read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_the_gpu_benchmark_says_so_in_one_line(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(
        SystemExit, match=r"^gpu\.py measures a GPU, but PyTorch sees no CUDA device"
    ):
        importlib.import_module("gpu").main()
