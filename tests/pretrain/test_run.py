import json
import re

import numpy as np
import pytest
import torch
from tests.pretrain.test_recipe import RECIPES

from elmo.checkpoints.folder import load_folder
from elmo.pretrain.corpus import build_corpus, read_sentences
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.ngram import NGram, ngram_perplexity
from elmo.pretrain.perplexity import perplexity
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
device = "cpu"
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
        "training.device=cpu",
        "training.compile=false",  # compiling takes a minute; the slow tests do it
        "log.tensorboard=false",
    ]
    _, measured = pretrain(read_recipe(path, settings))
    assert np.isfinite(measured.backward_lm)
    load_folder(folder / "model")


def test_the_folder_holds_the_model_that_was_measured(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=2"])
    model, measured = pretrain(recipe)
    checkpoint = load_folder(folder / "model")
    again = LanguageModel(checkpoint.bilm, checkpoint.softmax).eval()
    sentences = read_sentences([folder / "heldout.txt"])
    assert perplexity(again, checkpoint.vocabulary, sentences) == measured
    assert not model.training
    assert checkpoint.vocabulary.words[:3] == ["<S>", "</S>", "<UNK>"]
    n_words = len((folder / "heldout.txt").read_text().split())
    assert measured.n_tokens == n_words + measured.n_sentences == n_words + 40


def test_a_vocabulary_of_ones_own_is_used_and_kept(folder):
    words = ["the", "<UNK>", "cat", "</S>", "<S>", "."]
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    settings = [f"corpus.vocabulary={folder}/words.txt", "training.n_epochs=1"]
    _, measured = pretrain(read_recipe(folder / "toy.toml", settings))
    assert load_folder(folder / "model").vocabulary.words == words
    assert measured.n_unknown > 0


def test_the_log_says_which_softmax_a_number_is_of(folder):
    for negatives, kind, other in ((6, "sampled", "full"), (0, "full", "sampled")):
        output = folder / kind
        settings = [f"training.n_negatives={negatives}", "training.n_epochs=1"]
        pretrain(read_recipe(folder / "toy.toml", [f"output={output}", *settings]))
        *lines, last = [json.loads(x) for x in (output / "metrics.jsonl").read_text().splitlines()]
        assert lines
        for line in lines:
            assert f"train/forward_exp_loss_{kind}" in line
            assert f"train/backward_exp_loss_{other}" not in line
        assert {"heldout/forward_perplexity_full", "heldout/backward_perplexity_full"} <= set(last)


def test_training_diverged_is_a_refusal_that_names_the_step(folder):
    with pytest.raises(ValueError, match=r"step \d+: the gradient is not finite; lower"):
        pretrain(read_recipe(folder / "toy.toml", ["optimiser.learning_rate=1e30"]))


def test_held_out_text_behind_another_name_is_found_out(folder):
    (folder / "other.txt").symlink_to(folder / "train.txt")
    twice = [f"corpus.heldout=['{folder}/other.txt']"]
    with pytest.raises(ValueError, match=re.escape("both in corpus.train and in corpus.heldout")):
        pretrain(read_recipe(folder / "toy.toml", twice))


def test_text_that_is_missing_or_empty_is_refused_before_anything_is_written(folder):
    with pytest.raises(FileNotFoundError, match="no file matches"):
        pretrain(read_recipe(folder / "toy.toml", [f"corpus.train=['{folder}/no*.txt']"]))
    (folder / "train.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="the corpus has no sentence"):
        pretrain(read_recipe(folder / "toy.toml"))
    assert not (folder / "model").exists()


def test_without_held_out_text_there_is_a_model_but_no_perplexity(folder):
    settings = ["corpus.heldout=[]", "training.n_epochs=1"]
    _, measured = pretrain(read_recipe(folder / "toy.toml", settings))
    assert measured is None
    load_folder(folder / "model")
