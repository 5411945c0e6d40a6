import json
import re

import numpy as np
import pytest
import torch
from tests.pretrain.test_recipe import RECIPES

from elmo.checkpoints.folder import load_folder
from elmo.pretrain.corpus import build_corpus, read_sentences
from elmo.pretrain.ngram import NGram, ngram_perplexity
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain

TOY = """
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
[log]
every_steps = 5
tensorboard = false
"""
PATTERNS = ["the cat sat down .", "a dog ran off .", "one bird flew away ."]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("train", 150), ("heldout", 40)):
        lines = rng.choice(PATTERNS, n)
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "toy.toml").write_text(TOY.format(folder=tmp_path))
    return tmp_path


def test_it_learns_what_a_unigram_model_cannot(folder):
    reports = []
    _, measured = pretrain(read_recipe(folder / "toy.toml"), report=reports.append)
    train, heldout = (
        build_corpus(read_sentences([folder / f"{name}.txt"])) for name in ("train", "heldout")
    )
    heldout = build_corpus(read_sentences([folder / "heldout.txt"]), train.vocabulary)
    unigram = ngram_perplexity(NGram(train, order=1), NGram(train, order=1, reverse=True), heldout)
    # Three sentences: only the first word is open, 3 ** (1/6) = 1.2 at best.
    assert measured.forward_lm < 2 < unigram.forward_lm / 4
    assert measured.backward_lm < 2 < unigram.backward_lm / 4
    assert reports[-1].share == 1.0 and reports[0].forward_lm > reports[-1].forward_lm
    lines = [json.loads(x) for x in (folder / "model" / "metrics.jsonl").read_text().splitlines()]
    assert "train/forward_exp_loss_sampled" in lines[0]
    assert lines[-1]["heldout/forward_perplexity_full"] == pytest.approx(measured.forward_lm)


def weights(folder):
    checkpoint = load_folder(folder)
    return torch.cat(
        [
            v.flatten()
            for m in (checkpoint.bilm, checkpoint.softmax)
            for v in m.state_dict().values()
        ]
    )


def test_two_runs_with_one_seed_are_bit_identical_and_another_seed_is_not(folder):
    short = ["training.n_epochs=1"]
    runs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = [*short, f"output={folder / name}", f"seed={seed}"]
        pretrain(read_recipe(folder / "toy.toml", settings))
        runs.append(weights(folder / name))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize(
    "settings",
    [
        ["optimiser.name=adagrad", "optimiser.learning_rate=1.0"],
        ["training.n_negatives=0"],
        ["training.carry=false"],
        ["training.dtype=bfloat16"],
    ],
    ids=" ".join,
)
def test_every_way_of_training_gets_better(folder, settings):
    reports = []
    short = ["training.n_epochs=10", "log.every_steps=2"]
    recipe = read_recipe(folder / "toy.toml", [*short, *settings])
    _, measured = pretrain(recipe, report=reports.append)
    assert np.isfinite(measured.forward_lm)
    assert reports[-1].forward_lm < reports[0].forward_lm * 0.8
    assert reports[-1].backward_lm < reports[0].backward_lm * 0.8


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_learns_on_a_gpu(folder, dtype, caplog):
    settings = ["training.device=cuda", f"training.dtype={dtype}"]
    model, measured = pretrain(read_recipe(folder / "toy.toml", settings))
    assert measured.forward_lm < 2 and measured.backward_lm < 2
    assert {p.device.type for p in model.parameters()} == {"cuda"}
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert "without CUDA graphs" not in caplog.text
    assert torch.isfinite(weights(folder / "model")).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_absent_is_refused_before_anything_is_read(folder):
    (folder / "train.txt").unlink()
    for name, message in (("cuda", "PyTorch sees no CUDA device here"), ("gpu0", "expected auto")):
        recipe = read_recipe(folder / "toy.toml", [f"training.device={name}"])
        with pytest.raises(ValueError, match=message):
            pretrain(recipe)


def test_an_interrupted_run_keeps_its_model(folder):
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(read_recipe(folder / "toy.toml"), report=interrupt)
    assert torch.isfinite(weights(folder / "model")).all()


def test_held_out_text_that_is_also_trained_on_is_refused(folder):
    twice = [f"corpus.heldout=['{folder}/train.txt']"]
    with pytest.raises(ValueError, match=re.escape("both in corpus.train and in corpus.heldout")):
        pretrain(read_recipe(folder / "toy.toml", twice))


def test_a_gradient_that_is_not_finite_stops_the_run(folder, monkeypatch):
    monkeypatch.setattr("elmo.pretrain.run.Optimiser.step", lambda *_: float("nan"))
    with pytest.raises(ValueError, match="step 1: the gradient is not finite"):
        pretrain(read_recipe(folder / "toy.toml"))


def test_a_corpus_too_small_for_a_window_still_trains(folder):
    (folder / "train.txt").write_text("the cat sat down .\n")
    _, measured = pretrain(read_recipe(folder / "toy.toml", ["training.n_epochs=1"]))
    assert np.isfinite(measured.forward_lm)


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_of_ours_runs_on_toy_data(path, folder):
    settings = [
        f"output={folder / 'model'}",
        f"corpus.train=['{folder}/train.txt']",
        f"corpus.heldout=['{folder}/heldout.txt']",
        "training.n_rows=4",
        "training.n_steps=5",
        "training.minutes=0.01",
        "training.compile=false",  # compiling takes a minute; the slow tests do it
        "log.tensorboard=false",
    ]
    _, measured = pretrain(read_recipe(path, settings))
    assert np.isfinite(measured.backward_lm)
    load_folder(folder / "model")
