"""A corpus of three sentences over and over, and a recipe that learns it in a second."""

import json

import numpy as np
import torch

from elmo.checkpoints.folder import load_folder

RECIPE = """
output = "{folder}/model"
[corpus]
train = ["{folder}/train.txt"]
heldout = ["{folder}/heldout.txt"]
min_count = 1
[model]
dropout = 0.0
[model.char_cnn]
char_dim = 4
filters = [[1, 4], [2, 8]]
n_highway = 1
dim = 8
[model.lstm]
n_layers = 2
hidden_dim = 16
dim = 8
[optimiser]
learning_rate = 2e-2
[training]
n_rows = 8
n_steps = 6
n_negatives = 6
n_epochs = 25
carry = false
device = "cpu"
[validation]
every_tokens = 1_000_000
[log]
every_steps = 5
tensorboard = false
"""
PATTERNS = ["the cat sat down .", "a dog ran off .", "one bird flew away ."]


def write_toy(folder):
    """Text and recipe in a folder."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 150), ("heldout", 40)):
        lines = rng.choice(PATTERNS, n)
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "toy.toml").write_text(RECIPE.format(folder=folder))


def weights(folder):
    """All numbers of a model."""
    checkpoint = load_folder(folder)
    return torch.cat(
        [
            v.flatten()
            for m in (checkpoint.bilm, checkpoint.softmax)
            for v in m.state_dict().values()
        ]
    )


def log_lines(folder):
    """The metric log of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
