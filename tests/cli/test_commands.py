"""The commands as a user types them: what is printed, written, and refused with exit code 2."""

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
import torch
from rich.console import Console
from tests.cli.commands import refused, run
from tests.models import random_bilm
from tests.pretrain.toy import PATTERNS, RECIPE

from elmo import Elmo, Vocabulary
from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.checkpoints.official import save_official
from elmo.cli import console, main
from elmo.cli.options import n_cores
from elmo.model.softmax import Softmax
from elmo.pretrain import validation
from elmo.pretrain.perplexity import PerplexitySums
from elmo.pretrain.prepare import open_prepared
from elmo.store import read_vectors

COMMANDS = (
    "embed", "compare", "convert", "info", "prepare", "pretrain", "adapt", "perplexity",
    "score", "substitutes", "train", "evaluate", "predict", "compare-encoders", "train-static",
    "neighbors", "senses",
)  # fmt: skip
LINES = ["The cat sat .", "", "a naïve dog"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    softmax = Softmax(6, 6)
    softmax.reset_parameters()
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "The", "cat", "."])
    save_folder(Checkpoint(random_bilm(), vocabulary, softmax), "model")
    save_official(random_bilm(), "official")
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    level = logging.getLogger("elmo").level
    yield tmp_path
    logging.getLogger("elmo").setLevel(level)  # `elmo pretrain` says more


# ---- embed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["model", "official"])
def test_embed_writes_what_elmo_gives(folder, capsys, model):
    assert run("embed", "in.txt", "out.hdf5", "--model", model, "--tokenized") == 0
    out, _ = capsys.readouterr()
    assert out == "Wrote 3 sentences (1 empty), 7 tokens to out.hdf5 (3 × 12 per token)\n"
    expected = Elmo.from_pretrained(model).encode_layers([line.split() for line in LINES])
    with h5py.File("out.hdf5") as file:
        for i, vectors in enumerate(expected):
            np.testing.assert_allclose(file[str(i)][...], vectors, atol=1e-5)


def test_embed_takes_layers_states_and_raw_text(folder, capsys):
    settings = ["-m", "model", "--layers", "mix", "--state", "settled", "--boundaries"]
    assert run("embed", "in.txt", "out.npz", *settings, "--normalise") == 0
    vectors = list(read_vectors("out.npz"))
    expected = Elmo.from_pretrained("model").encode_tokens(
        LINES, state="settled", boundaries=True, normalise=True
    )
    for ours, wanted in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(ours[0], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.txt", "out.npz"], "no.txt does not exist"),
        (["model", "out.npz"], "is a folder, but a file is wanted"),
        (["in.txt", "out.xyz"], "ends in '.xyz', which names no format"),
        (["in.txt", "no/out.npz"], "does not exist; create it first"),
        (["in.txt", "out.npz", "--layers", "top"], "--layers is top, but expected all, mix or"),
        (["in.txt", "out.npz", "--layers", "7"], "the model has layers 0 to 2"),
        (["in.txt", "out.npz", "--state", "warm"], "expected one of zero, carry, settled"),
        (["in.txt", "out.npz", "--errors", "skip"], "errors is 'skip'"),
        (["in.txt", "out.npz", "--dtype", "int3"], "--dtype is int3, but expected one of"),
        (["in.txt", "out.npz", "--device", "abacus"], "expected auto, cpu or cuda"),
        (["in.txt", "out.npz", "--batch-tokens", "0"], "batch_tokens is 0"),
        (["in.txt", "out.npz", "--language", "elvish"], 'no tokenizer for language "elvish"'),
        (["in.txt", "out.npz", "--model", "smal"], 'Did you mean "small"?'),
        (["in.txt", "out.npz", "--model", "./no"], "there is no folder"),
        (["in.txt", "out.npz", "--model", "original", "--offline"], "is not in the cache"),
        (["in.txt", "out.npz", "--model", "small", "--url", "ftp://x"], "must be an http"),
    ],
)
def test_embed_refuses_in_one_line(folder, capsys, arguments, said):
    if "--model" not in arguments:
        arguments = [*arguments, "--model", "model"]
    assert said in refused(capsys, "embed", *arguments)
    assert not (folder / "out.npz").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_gpu_that_is_not_there_is_refused(folder, capsys):
    arguments = ["embed", "in.txt", "out.npz", "--model", "model", "--device", "cuda"]
    assert "PyTorch sees no CUDA device here" in refused(capsys, *arguments)


def test_bad_bytes_name_their_line_and_can_be_replaced(folder, capsys):
    (folder / "in.txt").write_bytes(b"fine\n\nb\xe4d\n")
    arguments = ["embed", "in.txt", "out.npz", "--model", "model"]
    assert "in.txt, line 3: is not valid UTF-8" in refused(capsys, *arguments)
    assert run(*arguments, "--errors", "replace", "--force") == 0


def test_bad_weights_are_refused(folder, capsys):
    arguments = ["embed", "in.txt", "out.npz", "--model", "official"]
    with h5py.File("official/weights.hdf5", "a") as file:
        file["CNN/b_cnn_0"][0] = np.nan
    assert "CNN/b_cnn_0 holds a NaN" in refused(capsys, *arguments)
    (folder / "official/weights.hdf5").write_bytes(b"not HDF5")
    assert "is not a whole HDF5 file" in refused(capsys, *arguments)
    (folder / "official/weights.hdf5").unlink()
    assert "has options.json but no weights" in refused(capsys, *arguments)


def test_an_existing_output_is_kept_unless_forced(folder, capsys):
    (folder / "out.npz").write_bytes(b"precious")
    arguments = ["embed", "in.txt", "out.npz", "--model", "model"]
    assert "out.npz exists" in refused(capsys, *arguments)
    assert (folder / "out.npz").read_bytes() == b"precious"
    assert run(*arguments, "--force") == 0


def start(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "elmo", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_what_an_interrupted_run_wrote_is_gone_on_with(folder, how):
    lines = [f"w{i} and w{i % 7} again " * 5 for i in range(20_000)]
    (folder / "long.txt").write_text("".join(f"{line}\n" for line in lines))
    arguments = ["embed", "long.txt", "out.hdf5", "--model", "model", "--tokenized"]
    # In batches so small that it cannot end before it is stopped; they change no vector.
    process = start(*arguments, "--batch-tokens", "1000")
    deadline = time.monotonic() + 120
    while not (folder / "out.hdf5.partial" / "commit").exists():
        assert process.poll() is None and time.monotonic() < deadline, "ended before it was killed"
        time.sleep(0.01)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert not (folder / "out.hdf5").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert said.splitlines() == [
            "interrupted; to go on: the same command with --resume (out.hdf5.partial)"
        ]
    assert run(*arguments, "--resume") == 0
    expected = Elmo.from_pretrained("model").encode_layers([line.split() for line in lines])
    n = 0
    for ours, wanted in zip(read_vectors("out.hdf5"), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, atol=1e-5)
        n += 1
    assert n == len(lines) and not (folder / "out.hdf5.partial").exists()


# ---- compare ------------------------------------------------------------------------------------

TEXTS = ["We sat on the [bank].", "The [bank] rose.", "My [bank] lent me money."]


def test_compare_prints_the_matrix_and_draws_it(folder, capsys):
    assert run("compare", *TEXTS, "--model", "model", "--plot", "map.png") == 0
    out, _ = capsys.readouterr()
    assert all(f"{i}  {text}" in out for i, text in enumerate(TEXTS, start=1))
    assert "mix of all layers" in out and out.count("1.000") >= 3
    assert re.search(r"1 is closest to [23] \(", out)
    assert (folder / "map.png").read_bytes().startswith(b"\x89PNG")


def test_compare_can_show_every_layer_and_whole_sentences(folder, capsys):
    assert run("compare", "A cat.", "A dog ran.", "--model", "model", "--layers", "all") == 0
    out, _ = capsys.readouterr()
    assert [f"layer {k}" in out for k in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["[a] b"], "at least 2 are wanted"),
        (["[a] b", "c"], '"c" marks no word'),
        (["[a] [b]", "[c]"], "has 2 opening and 2 closing brackets"),
        (["[a] b", "[c] d", "--plot", "x.doc"], "x.doc is no name of a picture"),
        (["[a] b", "[c] d", "--layers", "9"], "layers is 9"),
    ],
)
def test_compare_refuses_in_one_line(folder, capsys, texts, said):
    assert run("compare", *texts, "--model", "model") == 2
    said_all = capsys.readouterr().err
    assert said in said_all and said_all.count("\n") == 1


# ---- the others ---------------------------------------------------------------------------------


def test_convert_goes_there_and_back(folder, capsys):
    assert run("convert", "official", "a") == 0
    assert run("convert", "a", "b") == 0
    out, _ = capsys.readouterr()
    assert "Wrote a in our format: config.json, model.safetensors" in out
    assert "Wrote b in the official format: options.json, weights.hdf5" in out
    for name, value in Elmo.from_pretrained("official").state_dict().items():
        assert torch.equal(Elmo.from_pretrained("b").state_dict()[name], value)
    assert "a exists" in refused(capsys, "convert", "official", "a")
    assert "same folder" in refused(capsys, "convert", "official", "official", "--force")


def test_info_tells_sizes_and_names(folder, capsys):
    assert run("info", "model", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["vector"] == 12 and facts["vocabulary"] == 6
    assert run("info", "model") == 0
    assert "lstm cells" in capsys.readouterr().out
    assert run("info") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("default", "original-5.5b", "portuguese", "basque"))


def test_pretrain_and_perplexity(folder, capsys):
    (folder / "train.txt").write_text("".join(f"{p}\n" for p in PATTERNS * 20))
    (folder / "heldout.txt").write_text("".join(f"{p}\n" for p in PATTERNS))
    (folder / "toy.toml").write_text(RECIPE.format(folder=folder))
    assert run("pretrain", "toy.toml", "--set", "training.n_epochs=4", "--output", "mine") == 0
    first, said = capsys.readouterr()
    assert "The model is in mine." in first
    found = re.search(r"Held-out perplexity \(full softmax\): forward ([\d.]+), backward", first)
    assert "sampled softmax, no perplexity" in said
    assert run("perplexity", "mine", "heldout.txt") == 0
    out, _ = capsys.readouterr()
    assert float(re.search(r"forward +([\d.]+)", out)[1]) == pytest.approx(
        float(found[1]), abs=0.01
    )
    assert run("perplexity", "mine", "heldout.txt", "--raw", "--state", "carry") == 0
    capsys.readouterr()
    said = refused(capsys, "pretrain", "toy.toml", "--output", "mine")
    assert "mine holds a run already" in said and "--resume" in said
    more = ["--set", "training.n_epochs=5", "--resume"]
    assert run("pretrain", "toy.toml", *more, "--output", "mine") == 0
    again, _ = capsys.readouterr()
    n_steps = [int(re.search(r"Trained (\d+) steps", text)[1]) for text in (first, again)]
    assert n_steps[0] < n_steps[1]


def test_training_has_a_bar_of_its_own_with_the_time_that_the_run_says_is_left(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(console, "messages", terminal)
    with console.shares_done() as show:
        for share in (0.5, 1.0):
            show("Preparing text", share, "counting types")
        show("Training", 0.25, "step 7", seconds_left=3723.4)
    shown = terminal.file.getvalue().splitlines()
    prepared = next(line for line in reversed(shown) if "Preparing text" in line)
    training = next(line for line in reversed(shown) if "Training" in line)
    assert "100%" in prepared
    assert re.search(r"Training.* 25%.*1:02:03.*step 7", training)


def test_a_new_model_without_a_best_step_is_not_said_to_be_one_it_started_from(
    folder, capsys, monkeypatch
):
    (folder / "train.txt").write_text("".join(f"{p}\n" for p in PATTERNS * 9))
    (folder / "heldout.txt").write_text("".join(f"{p}\n" for p in PATTERNS))
    (folder / "toy.toml").write_text(RECIPE.format(folder=folder))
    endless = PerplexitySums(1e9, 1e9, 1, 1)
    monkeypatch.setattr(validation, "perplexity_sums", lambda *_: endless)
    assert run("pretrain", "toy.toml", "--set", "training.n_epochs=1", "--output", "mine") == 0
    out, _ = capsys.readouterr()
    assert "started from" not in out
    assert "mine holds a model that was saved on the way, the last is in mine/last" in out


def test_processes_are_as_many_as_cores_that_may_be_used(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert n_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert n_cores() == 64


def test_adapt_says_how_well_a_domain_is_predicted_before_and_after(folder, capsys):
    (folder / "domain.txt").write_text("".join(f"{p}\n" for p in PATTERNS * 20))
    (folder / "measured.txt").write_text("the cat ran off .\n" * 3)
    quick = ["--set", "training.n_epochs=2", "--set", "corpus.min_count=1"]
    measured = ["--heldout", "measured.txt"]
    assert run("adapt", "model", "domain.txt", "--output", "new", *measured, *quick) == 0
    out, _ = capsys.readouterr()
    before, after = (
        float(re.search(rf"\(full softmax\) {when}: forward ([\d.]+), backward", out)[1])
        for when in ("before", "after")
    )
    assert after <= before
    whole = ["--vocabulary", "replace", "--language", "en", "--heldout", "domain.txt"]
    (folder / "other.txt").write_text("Nothing is the same.\nNothing stays.\n" * 9)
    assert run("adapt", "official", "other.txt", "--output", "b", *whole, *quick) == 0
    capsys.readouterr()
    said = refused(capsys, "adapt", "nonsense", "domain.txt", "--output", "c")
    assert 'no model is called "nonsense"' in said


def test_prepare_makes_a_corpus_and_says_what_is_in_it(folder, capsys, caplog):
    (folder / "a.txt").write_text("".join(f"{p}\n" for p in PATTERNS * 2))
    (folder / "b.txt").write_text(f"{PATTERNS[0]}\nnew words\n")
    common = ["--output", "corpus", "--min-count", "1", "--processes", "1"]
    arguments = ["prepare", "a.txt", "--heldout", "b.txt", "--exclude-heldout", "--deduplicate"]
    assert run(*arguments, *common) == 0
    out, _ = capsys.readouterr()
    assert f"corpus: {len(' '.join(PATTERNS[1:]).split())} tokens in 2 sentences" in out
    assert "held out: 7 tokens in 2 sentences, 85.7% of tokens outside the vocabulary" in out
    assert "left out: 2 duplicates, 2 sentences that are held out" in out
    assert "1 of 2 held-out sentences also stand in the training text, 2 times" in caplog.text
    assert list(open_prepared("corpus").train.texts()) == [p.split() for p in PATTERNS[1:]]
    assert "share is 0.1, but heldout names" in refused(
        capsys, "prepare", "a.txt", "--heldout", "b.txt", "--heldout-share", "0.1", *common
    )


def test_prepare_reads_files_as_often_as_it_is_told(folder):
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(f"{name} .\n")
    often = ["--repeat", "b.*=3", "--repeat", "c.txt=2"]
    common = ["--min-count", "1", "--processes", "1", "--output", "corpus"]
    assert run("prepare", "a.txt", "b.txt", "c.txt", *often, *common) == 0
    texts = [tokens[0] for tokens in open_prepared("corpus").train.texts()]
    assert texts == ["a", "b", "b", "b", "c", "c"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prepare", "no.txt", "--output", "corpus"], "no file matches no.txt"),
        (["prepare", "in.txt", "--output", "corpus", "--repeat", "in.txt"], "expected PATTERN=N"),
        (["prepare", "in.txt", "--output", "corpus", "--repeat", "a*=2"], "repeat names a*"),
        (["pretrain", "no.toml"], "no.toml does not exist"),
        (["pretrain", "toy.toml", "--set", "training.n_row=1"], 'Did you mean "n_rows"?'),
        (["pretrain", "toy.toml"], "no file matches"),
        (["perplexity", "official", "in.txt"], "has no softmax over a vocabulary"),
        (["perplexity", "model", "no.txt"], "no.txt does not exist"),
        (["perplexity", "model", "empty.txt"], "there is no token to predict"),
        (["info", "nonsense"], 'no model is called "nonsense"'),
        (["convert", "model", "x", "--to", "theirs"], "to is 'theirs'"),
    ],
)
def test_other_commands_refuse_in_one_line(folder, capsys, arguments, said):
    (folder / "toy.toml").write_text(RECIPE.format(folder=folder / "nowhere"))
    (folder / "empty.txt").touch()
    assert said in refused(capsys, *arguments)


# ---- what a language model says -----------------------------------------------------------------


@pytest.fixture
def stdin():
    """Gives the process another standard input."""
    kept = os.dup(0)

    def give(text):
        reading, writing = os.pipe()
        os.write(writing, text.encode())
        os.close(writing)
        os.dup2(reading, 0)
        os.close(reading)

    yield give
    os.dup2(kept, 0)
    os.close(kept)


def test_perplexity_of_several_files_is_said_of_each_and_of_all(folder, capsys):
    (folder / "a.txt").write_text("The cat\n")
    (folder / "b.txt").write_text("cat .\n\n. The cat\n")
    (folder / "empty.txt").touch()
    assert run("perplexity", "model", "a.txt", "b.txt", "empty.txt") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("a.txt: forward ") and lines[1].endswith("(0.00%)")
    assert lines[2] == "empty.txt: no tokens" and lines[-1].startswith("3 sentences, 7 tokens")
    assert run("perplexity", "model", "a.txt", "b.txt", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    losses = [part["predictions"] * np.log(part["forward"]) for part in facts["files"]]
    assert np.exp(sum(losses) / 10) == pytest.approx(facts["forward"])
    assert facts["predictions"] == 10 and facts["files"][1]["file"] == "b.txt"


def test_scores_of_a_file_add_up_to_its_perplexity(folder, capsys, stdin):
    assert run("score", "in.txt", "out.jsonl", "-m", "model", "--tokenized", "--unit", "nats") == 0
    out = capsys.readouterr().out
    assert out == ("Wrote 3 sentences, 7 tokens (4 outside the vocabulary) to out.jsonl, in nats\n")
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    assert run("perplexity", "model", "in.txt", "--json") == 0
    measured = json.loads(capsys.readouterr().out)
    for direction in ("forward", "backward"):
        loss = sum(line[direction]["total"] for line in lines) / measured["predictions"]
        assert np.exp(loss) == pytest.approx(measured[direction], rel=1e-12)
    # The same from standard input, to standard output.
    stdin("".join(f"{line}\n" for line in LINES))
    assert run("score", "-", "-m", "model", "--tokenized", "--unit", "nats", "--json") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == lines


def test_score_prints_a_row_per_token_or_sentence(folder, capsys):
    assert run("score", "in.txt", "-m", "model", "--ends") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["line", "place", "token", "known", "forward", "backward", "combined"]
    assert [row[2] for row in rows[1:7]] == ["<S>", "The", "cat", "sat", ".", "</S>"]
    assert rows[4][3] == "no" and len(rows) == 1 + 6 + 5
    assert run("score", "in.txt", "-m", "model", "--rows", "sentences", "--no-combined") == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 4 and rows[1].startswith("1\t4\t1\t") and rows[1].endswith("\t\t\t")


def test_substitutes_are_printed_with_the_rank_of_the_word(folder, capsys, stdin):
    assert run("substitutes", "The [cat] sat.", "A [dog].", "-m", "model", "-n", "2") == 0
    first, second = capsys.readouterr().out.split("A [dog]")
    lines = first.splitlines()
    assert lines[0] == "The [cat] sat ." and re.fullmatch(r"  0\.\d{4}  (The|cat|\.)", lines[1])
    assert len(lines) == 4 and re.fullmatch(r"  cat has rank [123] \([\de.-]+\)", lines[3])
    assert "dog is not in the vocabulary, so it has no rank" in second
    stdin("The [cat]\n\n[The] cat\n")
    assert run("substitutes", "--file", "-", "-m", "model", "--json", "--tokenized") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [of["word"] for of in found] == ["cat", "The"] and len(found[0]["substitutes"]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["score", "no.txt"], "no.txt does not exist"),
        (["score", "model"], "is a folder, but a file is wanted"),
        (["score", "in.txt", "out.xls"], "names no format"),
        (["score", "in.txt", "in.txt"], "names no format"),
        (["score", "in.txt", "--rows", "words"], "rows is 'words'"),
        (["score", "in.txt", "--unit", "bytes"], "unit is 'bytes'"),
        (["score", "in.txt", "--batch-tokens", "0"], "batch_tokens is 0"),
        (["score", "in.txt", "-m", "official"], "official has no softmax over a vocabulary"),
        (["substitutes"], "neither was given"),
        (["substitutes", "[a]", "--file", "in.txt"], "both were given"),
        (["substitutes", "a b"], '"a b" marks no word'),
        (["substitutes", "[a] b", "a"], 'sentence 2: "a" marks no word'),
        (["substitutes", "[a] [b]"], "has 2 opening and 2 closing brackets"),
        (["substitutes", "[[a]]"], "has 2 opening and 2 closing brackets"),
        (["substitutes", "a []"], "marks nothing"),
        (["substitutes", "a [b c]"], "marks 2 tokens (b, c)"),
        (["substitutes", "--file", "in.txt"], "in.txt, line 1: "),
        (["substitutes", "[a]", "--direction", "down"], "direction is 'down'"),
        (["substitutes", "[a]", "-n", "0"], "n is 0"),
        (["substitutes", "[a]", "-m", "official"], "official has no softmax over a vocabulary"),
    ],
)
def test_predicting_commands_refuse_in_one_line(folder, capsys, arguments, said):
    if "-m" not in arguments:
        arguments = [*arguments, "-m", "model"]
    assert said in refused(capsys, *arguments)


def test_a_trace_is_shown_on_request_and_for_faults_of_ours(folder, monkeypatch):
    with pytest.raises(FileNotFoundError):
        main(["embed", "no.txt", "out.npz", "--traceback"])

    def fault(*_, **__):
        raise AssertionError("ours")

    monkeypatch.setattr("elmo.encode.Elmo.encode_file", fault)
    with pytest.raises(AssertionError, match="ours"):
        main(["embed", "in.txt", "out.npz", "--model", "model"])


def test_help_and_version(folder, capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("elmo-torch ")
    assert run("--help") == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)
    for command in COMMANDS:
        assert run(command, "--help") == 0
        assert "For example: elmo" in " ".join(capsys.readouterr().out.split())
    assert run("embed", "--nonsense") == 2
