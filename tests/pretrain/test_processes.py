"""Two processes that train together."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from tests.pretrain.toy import log_lines, weights, write_toy

from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain
from elmo.training_state import read_state


@pytest.fixture
def folder(tmp_path):
    write_toy(tmp_path)
    return tmp_path


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def together(folder, *settings, resume=False):
    """Two processes, as torchrun starts them; what the first one said."""
    port = free_port()
    sets = [x for setting in settings for x in ("--set", setting)]
    command = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={port}"]
    run = ["-m", "elmo", "pretrain", str(folder / "toy.toml"), *sets]
    done = subprocess.run(
        [sys.executable, *command, *run, *(["--resume"] if resume else [])],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def curve(folder):
    numbers = [
        [value for key, value in line.items() if "loss" in key or "perplexity" in key]
        for line in log_lines(folder)
    ]
    return np.array(numbers)


@pytest.mark.parametrize(
    "settings",
    [
        ["training.carry=true"],
        pytest.param(["training.n_accumulate=2", "training.carry=false"], marks=pytest.mark.slow),
        pytest.param(["training.batches=sentences"], marks=pytest.mark.slow),
        pytest.param(["training.softmax=full"], marks=pytest.mark.slow),
        pytest.param(
            ["training.softmax=adaptive", "adaptive_softmax={cutoffs = [4, 9], shrink = 2}"],
            marks=pytest.mark.slow,
        ),
        pytest.param(["optimiser.name=adagrad"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_two_processes_learn_as_one_with_twice_the_rows(folder, settings):
    # Adam divides rounding errors by small gradients; a low rate keeps them from growing.
    slowly = [] if "optimiser.name=adagrad" in settings else ["optimiser.learning_rate=3e-3"]
    short = [*settings, *slowly, "training.n_epochs=4", "validation.every_tokens=500"]
    said = together(folder, *short, "training.n_rows=4", f"output={folder}/two")
    assert said.count("Trained") == 1  # one of them speaks
    pretrain(read_recipe(folder / "toy.toml", [*short, f"output={folder}/one"]))
    assert curve(folder / "one").shape == curve(folder / "two").shape
    np.testing.assert_allclose(curve(folder / "two"), curve(folder / "one"), rtol=2e-4)
    torch.testing.assert_close(weights(folder / "two"), weights(folder / "one"), rtol=0, atol=1e-3)


@pytest.mark.parametrize("interrupted", [0, 1])
def test_a_request_to_end_that_reaches_one_process_ends_both_with_everything_saved(
    folder, interrupted
):
    settings = ["training.n_epochs=9999", "validation.every_tokens=999_999_999"]
    command = ["-m", "elmo", "pretrain", str(folder / "toy.toml")]
    command += [x for setting in settings for x in ("--set", setting)]
    address = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    both = [
        subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **address, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    try:
        log, deadline = folder / "model" / "metrics.jsonl", time.monotonic() + 300
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        both[interrupted].send_signal(signal.SIGTERM)
        assert [process.wait(timeout=300) for process in both] == [130, 130]
    finally:
        for process in both:
            process.kill()
    assert read_state(folder / "model").about["step"] > 0


@pytest.mark.slow
def test_two_processes_go_on_where_they_stopped_with_the_same_bits(folder):
    settings = ["model.dropout=0.2", "optimiser.schedule=constant", "optimiser.warmup=0.0"]
    together(folder, *settings, "training.n_epochs=4", f"output={folder}/whole")
    for n_epochs in (2, 4):
        budget = [f"training.n_epochs={n_epochs}", f"output={folder}/broken"]
        together(folder, *settings, *budget, resume=True)
    assert torch.equal(weights(folder / "whole"), weights(folder / "broken"))


@pytest.mark.slow
def test_a_corpus_with_fewer_sentences_than_rows_keeps_nobody_waiting(folder):
    (folder / "train.txt").write_text("the cat sat down .\na dog ran off .\none bird flew .\n")
    for batches in ("windows", "sentences"):
        said = together(folder, f"output={folder}/{batches}", f"training.batches={batches}")
        assert "Trained" in said
