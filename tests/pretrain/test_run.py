import json
import re
import shutil
import time

import numpy as np
import pytest
import torch
from tests.pretrain.test_recipe import RECIPES
from tests.pretrain.toy import PATTERNS, log_lines, weights, write_toy

from elmo.checkpoints.folder import load_folder
from elmo.model.softmax import draw_negatives
from elmo.pretrain import learner, validation
from elmo.pretrain.corpus import build_corpus, read_sentences
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.ngram import NGram, ngram_perplexity
from elmo.pretrain.perplexity import perplexity
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain
from elmo.training_state import TrainingState, read_state


@pytest.fixture
def folder(tmp_path):
    write_toy(tmp_path)
    return tmp_path


def test_it_learns_what_a_unigram_model_cannot(folder):
    reports = []
    made = pretrain(read_recipe(folder / "toy.toml"), report=reports.append)
    measured = made.heldout
    train, heldout = (
        build_corpus(read_sentences([folder / f"{name}.txt"])) for name in ("train", "heldout")
    )
    heldout = build_corpus(read_sentences([folder / "heldout.txt"]), train.vocabulary)
    unigram = ngram_perplexity(NGram(train, order=1), NGram(train, order=1, reverse=True), heldout)
    # Three sentences: only the first word is open, 3 ** (1/6) = 1.2 at best.
    assert measured.forward_lm < 2 < unigram.forward_lm / 4
    assert measured.backward_lm < 2 < unigram.backward_lm / 4
    assert reports[-1].share == 1.0 and reports[0].forward_lm > reports[-1].forward_lm
    lines = log_lines(folder / "model")
    assert "train/forward_exp_loss_sampled" in lines[0]
    assert lines[-1]["final/forward_perplexity_full"] == pytest.approx(measured.forward_lm)


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
        ["training.softmax=full"],
        ["training.softmax=adaptive", "adaptive_softmax={cutoffs = [4, 9], shrink = 2}"],
        ["training.batches=sentences"],
        ["training.n_accumulate=2"],
        ["training.carry=false"],
        ["training.dtype=bfloat16"],
    ],
    ids=" ".join,
)
def test_every_way_of_training_gets_better(folder, settings):
    reports = []
    short = ["training.n_epochs=5", "log.every_steps=2"]
    recipe = read_recipe(folder / "toy.toml", [*short, *settings])
    measured = pretrain(recipe, report=reports.append).heldout
    assert np.isfinite(measured.forward_lm)
    assert reports[-1].forward_lm < reports[0].forward_lm * 0.8
    assert reports[-1].backward_lm < reports[0].backward_lm * 0.8


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_learns_on_a_gpu(folder, dtype, caplog):
    settings = ["training.device=cuda", f"training.dtype={dtype}"]
    made = pretrain(read_recipe(folder / "toy.toml", settings))
    model, measured = made.model, made.heldout
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


def test_held_out_text_that_is_also_trained_on_is_refused(folder):
    twice = [f"corpus.heldout=['{folder}/train.txt']"]
    with pytest.raises(ValueError, match=re.escape("both in corpus.train and in corpus.heldout")):
        pretrain(read_recipe(folder / "toy.toml", twice))


def test_a_gradient_that_is_not_finite_stops_the_run(folder, monkeypatch):
    monkeypatch.setattr("elmo.pretrain.learner.Optimiser.step", lambda *_: float("nan"))
    with pytest.raises(ValueError, match="step 1: the gradient is not finite"):
        pretrain(read_recipe(folder / "toy.toml"))


def test_a_corpus_too_small_for_a_window_still_trains(folder):
    (folder / "train.txt").write_text("the cat sat down .\n")
    measured = pretrain(read_recipe(folder / "toy.toml", ["training.n_epochs=1"])).heldout
    assert np.isfinite(measured.forward_lm)


def measured_steps(folder):
    return [line["step"] for line in log_lines(folder / "model") if "heldout/predictions" in line]


def test_a_corpus_smaller_than_a_window_is_not_measured_after_every_step(folder):
    (folder / "train.txt").write_text("the cat sat down .\n" * 3)
    settings = ["validation={patience=0}", "training.n_epochs=100"]
    made = pretrain(read_recipe(folder / "toy.toml", settings))
    assert measured_steps(folder) == [*range(10, made.n_steps, 10), made.n_steps]


def test_no_more_is_measured_than_was_learned_from_since(folder):
    (folder / "heldout.txt").write_text("the cat sat down .\n" * 120)
    for n_sentences, between in ((9999, 720), (60, 480)):
        shutil.rmtree(folder / "model", ignore_errors=True)
        (folder / "train.txt").write_text("a dog ran off .\n" * 20)
        settings = [
            f"validation={{n_sentences={n_sentences}, patience=0}}",
            "training.n_epochs=30",
        ]
        made = pretrain(read_recipe(folder / "toy.toml", settings))
        steps = between // 48
        assert measured_steps(folder) == [*range(steps, made.n_steps, steps), made.n_steps]


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_of_ours_runs_on_toy_data(path, folder, monkeypatch):
    monkeypatch.chdir(path.parents[2])  # recipes name files of the checkout
    lines = [f"{pattern} {i}" for i, pattern in enumerate(PATTERNS * 40)]
    (folder / "train.txt").write_text("".join(f"{line}\n" for line in lines))
    settings = [
        f"output={folder / 'model'}",
        f"corpus.train=['{folder}/train.txt']",
        "corpus.repeat=[]",
        *(
            []
            if "heldout_share" in path.read_text()
            else [f"corpus.heldout=['{folder}/heldout.txt']"]
        ),
        "training.n_rows=4",
        "training.n_steps=5",
        "training.minutes=0.01",
        "training.device=cpu",
        "training.compile=false",  # compiling takes a minute; the slow tests do it
        "log.tensorboard=false",
    ]
    measured = pretrain(read_recipe(path, settings)).heldout
    assert np.isfinite(measured.backward_lm)
    load_folder(folder / "model")


def test_the_folder_holds_the_model_that_was_measured(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=2"])
    made = pretrain(recipe)
    model, measured = made.model, made.heldout
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
    measured = pretrain(read_recipe(folder / "toy.toml", settings)).heldout
    assert load_folder(folder / "model").vocabulary.words == words
    assert measured.n_unknown > 0


def orders_of_draws(folder, monkeypatch, *settings):
    """The orders that negatives are drawn in, step after step."""
    orders = []

    def draw(n_words, n_negatives, rng, order=None):
        orders.append(None if order is None else order.tolist())
        return draw_negatives(n_words, n_negatives, rng, order)

    monkeypatch.setattr(learner, "draw_negatives", draw)
    pretrain(read_recipe(folder / "toy.toml", ["training.n_epochs=1", *settings]), resume=True)
    return orders


def test_negatives_are_drawn_by_frequency_whatever_the_order_of_the_vocabulary(folder, monkeypatch):
    assert set(orders_of_draws(folder, monkeypatch)) == {None}  # it is made in that order
    words = ["bird", "the", "<UNK>", "cat", "</S>", "<S>", ".", "down", "never"]
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    own = [f"corpus.vocabulary={folder}/words.txt", f"output={folder}/own"]
    (order, *others) = orders_of_draws(folder, monkeypatch, *own)
    assert [words[i] for i in order[:4]] == ["<UNK>", "</S>", "<S>", "."]
    assert words[order[-1]] == "never" and all(other == order for other in others)


def test_a_run_that_an_older_version_began_goes_on_to_draw_as_it_did(folder, monkeypatch):
    words = [".", "<UNK>", "</S>", "<S>", "never", "cat", "the"]
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    own = [f"corpus.vocabulary={folder}/words.txt", "optimiser.schedule=constant"]
    assert None not in orders_of_draws(folder, monkeypatch, *own)
    state = read_state(folder / "model")
    about = {key: value for key, value in state.about.items() if key != "drawn_by"}
    TrainingState(state.tensors, about).write(folder / "model")
    for n_epochs in (2, 3):
        orders = orders_of_draws(folder, monkeypatch, *own, f"training.n_epochs={n_epochs}")
        assert set(orders) == {None}


def test_the_log_says_which_softmax_a_number_is_of(folder):
    for kind, other in (("sampled", "full"), ("full", "sampled")):
        output = folder / kind
        settings = [f"training.softmax={kind}", "training.n_epochs=1"]
        pretrain(read_recipe(folder / "toy.toml", [f"output={output}", *settings]))
        lines = log_lines(output)
        last = lines.pop()
        trained = [line for line in lines if "train/tokens_per_second" in line]
        assert trained
        for line in trained:
            assert f"train/forward_exp_loss_{kind}" in line
            assert f"train/backward_exp_loss_{other}" not in line
        assert {"final/forward_perplexity_full", "final/backward_perplexity_full"} <= set(last)


def test_training_diverged_is_a_refusal_that_names_the_step(folder):
    said = r"step \d+: the gradient is not finite; lower .* and give another output"
    with pytest.raises(ValueError, match=said):
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
    with pytest.raises(ValueError, match="no sentence is left to train on"):
        pretrain(read_recipe(folder / "toy.toml"))
    left = {path.name for path in (folder / "model").iterdir()}
    assert left <= {".lock", "corpus.partial"}


def test_without_held_out_text_there_is_a_model_but_no_perplexity(folder):
    settings = ["corpus.heldout=[]", "training.n_epochs=1"]
    measured = pretrain(read_recipe(folder / "toy.toml", settings)).heldout
    assert measured is None
    load_folder(folder / "model")


def test_a_vocabulary_no_larger_than_the_negatives_makes_the_softmax_full(folder):
    reports = []
    settings = ["training.n_negatives=500", "training.n_epochs=1", "log.every_steps=1"]
    pretrain(read_recipe(folder / "toy.toml", settings), report=reports.append)
    assert {report.softmax for report in reports} == {"full"}


def test_training_stops_when_held_out_text_is_predicted_no_better(folder):
    # Nothing can be learned from words in any order but how often they are.
    rng = np.random.default_rng(0)
    for name in ("train", "heldout"):
        words = rng.choice(list("abcdefghij"), (60, 5))
        text = "".join(f"{' '.join(line)}\n" for line in words)
        (folder / f"{name}.txt").write_text(text)
    settings = ["training.n_epochs=500", "validation.every_tokens=360", "validation.patience=3"]
    made = pretrain(read_recipe(folder / "toy.toml", settings))
    assert made.stopped == "patience"
    measured = [x for x in log_lines(folder / "model") if "heldout/predictions" in x]
    both = [
        m["heldout/forward_perplexity_full"] * m["heldout/backward_perplexity_full"]
        for m in measured
    ]
    best = int(np.argmin(both))
    assert len(both) == best + 1 + 3
    assert made.best_step == measured[best]["step"] < made.n_steps == measured[-1]["step"]
    assert made.heldout.forward_lm == pytest.approx(
        measured[best]["heldout/forward_perplexity_full"]
    )
    assert not torch.equal(weights(folder / "model"), weights(folder / "model" / "last"))
    summary = json.loads((folder / "model" / "pretraining.json").read_text())
    assert (summary["stopped"], summary["best_step"]) == ("patience", made.best_step)
    assert summary["heldout"]["forward_lm"] == made.heldout.forward_lm


def test_time_that_measuring_and_saving_take_is_not_training(folder, monkeypatch):
    def slow(*arguments):
        time.sleep(0.3)
        return measure(*arguments)

    measure = validation.perplexity_sums
    monkeypatch.setattr(validation, "perplexity_sums", slow)
    settings = ["training.n_epochs=2", "validation.every_tokens=300"]
    began = time.monotonic()
    made = pretrain(read_recipe(folder / "toy.toml", settings))
    assert time.monotonic() - began > made.seconds + 0.9


def test_measured_sentences_are_spread_over_the_held_out_text(folder):
    settings = ["validation.n_sentences=7", "training.n_epochs=1"]
    pretrain(read_recipe(folder / "toy.toml", settings))
    lines = log_lines(folder / "model")
    (some,) = (x["heldout/predictions"] for x in lines if "heldout/predictions" in x)
    assert some == 7 * 6  # each sixth sentence of forty, each of five words and an end
    assert lines[-1]["final/predictions"] == 40 * 6


def test_a_training_leaves_the_random_numbers_of_others_alone(folder):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    pretrain(read_recipe(folder / "toy.toml", ["training.n_epochs=1", "model.dropout=0.1"]))
    assert torch.equal(torch.rand(2), expected)


def test_the_log_counts_tokens_and_time(folder):
    made = pretrain(read_recipe(folder / "toy.toml", ["training.n_epochs=3"]))
    lines = log_lines(folder / "model")
    trained = [line for line in lines if "train/tokens_per_second" in line]
    tokens = [line["train/tokens"] for line in trained]
    minutes = [line["train/minutes"] for line in trained]
    assert tokens == [48 * line["step"] for line in trained] and tokens[-1] == made.n_tokens
    for i in range(1, len(trained)):
        speed = (tokens[i] - tokens[i - 1]) / (minutes[i] - minutes[i - 1]) / 60
        assert trained[i]["train/tokens_per_second"] == pytest.approx(speed, rel=0.05)


def test_the_logged_rate_is_that_of_the_step(folder):
    settings = ["optimiser.schedule=linear", "optimiser.warmup=0.0", "log.every_steps=1"]
    made = pretrain(read_recipe(folder / "toy.toml", [*settings, "training.n_epochs=2"]))
    lines = log_lines(folder / "model")
    rates = [line["train/learning_rate"] for line in lines if "train/learning_rate" in line]
    n_tokens = 2 * 150 * 6  # sentences of five words and an end
    expected = [2e-2 * (1 - 48 * step / n_tokens) for step in range(made.n_steps)]
    assert rates == pytest.approx(expected)
