"""Task models trained by several processes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.tasks.toy_tagging import write_toy

from elmo.tasks.trained import WEIGHTS_FILE, Trained

RECIPE = """
task = "tagging"
output = "{folder}/runs"
encoder = "none"
seeds = [1]
data = {{ train = ["{folder}/train.txt"], dev = ["{folder}/train.txt"] }}
input = {{ word_dim = 12, char_filters = 8, dropout = 0.1, min_count = 1 }}
model = {{ hidden_dim = 12, n_layers = 1, dropout = 0.1 }}
optimiser = {{ name = "adam", learning_rate = 0.02, schedule = "constant", warmup = 0.0 }}
training = {{ batch_size = 2, n_epochs = 12, patience = 0, device = "cpu" }}
"""


@pytest.mark.slow
def test_two_processes_read_different_batches_and_end_with_one_model(tmp_path):
    write_toy(tmp_path / "train.txt", n=21)
    (tmp_path / "toy.toml").write_text(RECIPE.format(folder=tmp_path))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-port", str(port), "-m", "elmo", "train", str(tmp_path / "toy.toml")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("dev: f1") == 1  # one of them speaks
    results = json.loads((tmp_path / "runs" / "results.json").read_text())
    # 11 batches: 6 for each, one of them read by both.
    assert results["runs"]["1"]["n_steps"] == 12 * 6
    trained = Trained.load(tmp_path / "runs")
    examples = trained.task.read(Path(tmp_path / "train.txt"), trained.recipe.model)
    assert trained.evaluate(examples)["f1"] == pytest.approx(results["dev"]["mean"])
    assert results["dev"]["mean"] >= 95
    assert load_file(tmp_path / "runs" / "seed-1" / WEIGHTS_FILE)
