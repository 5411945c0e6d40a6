"""A run that was killed goes on to the model that it would have made."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from tests.pretrain.toy import log_lines, weights, write_toy

from elmo import training_state
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain

OFTEN = ["log.save_minutes=1e-9", "log.every_steps=1", "training.n_epochs=2"]
WAYS = {
    "plain": [],
    "noisy": ["model.dropout=0.2", "training.carry=true", "training.n_accumulate=2"],
    "full": ["training.softmax=full", "training.dtype=bfloat16"],
    "adagrad": ["optimiser.name=adagrad", "training.carry=false"],
    "sentences": ["training.batches=sentences"],
    "validated": [
        "validation.every_tokens=100",
        "validation.patience=3",
        "optimiser.schedule=trapezoid",
        "optimiser.learning_rate=0.3",
    ],
}


class Killed(BaseException):
    """Nothing is saved on its way."""


@pytest.fixture
def folder(tmp_path):
    write_toy(tmp_path)
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_dies_at_any_step_ends_with_the_same_bits(folder, way):
    settings = [*OFTEN, *WAYS[way]]
    whole = read_recipe(folder / "toy.toml", [*settings, f"output={folder}/whole"])
    n_steps = pretrain(whole).n_steps
    rng = random.Random(way)
    deaths = sorted(rng.sample(range(2, n_steps), 3))
    broken = read_recipe(
        folder / "toy.toml", [*settings, f"output={folder}/broken", "log.save_minutes=3e-4"]
    )
    for death in deaths:

        def die(progress, death=death):
            if progress.step >= death:
                raise Killed

        with pytest.raises(Killed):
            pretrain(broken, resume=True, report=die)
    made = pretrain(broken, resume=True)
    assert made.n_steps == n_steps
    assert torch.equal(weights(folder / "whole"), weights(folder / "broken"))
    states = [training_state.read_state(folder / name) for name in ("whole", "broken")]
    for name, tensor in states[0].tensors.items():
        assert torch.equal(tensor, states[1].tensors[name]), name
    steps = [line["step"] for line in log_lines(folder / "broken")]
    assert steps == sorted(steps)


def start(folder, *settings):
    sets = [x for setting in settings for x in ("--set", setting)]
    return subprocess.Popen(
        [sys.executable, "-m", "elmo", "pretrain", str(folder / "toy.toml"), "--resume", *sets],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


LONG = ["training.n_epochs=60", "log.save_minutes=0.002", "validation.every_tokens=5000"]


def finished(folder, *settings):
    process = start(folder, *LONG, *settings)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def kill_at_random(folder, seed, n_kills, *settings):
    """Kill -9, after the first save, wherever it may be."""
    rng, state = random.Random(seed), folder / "broken" / training_state.STATE_FILE
    killed = 0
    for _ in range(n_kills):
        before = state.stat().st_mtime_ns if state.exists() else 0
        process = start(folder, *LONG, f"output={folder}/broken", *settings)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if state.exists() and state.stat().st_mtime_ns != before:
                break
            time.sleep(0.01)
        time.sleep(rng.random() * 0.5)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    return killed


def test_after_kill_9_a_run_goes_on_to_the_same_bits(folder):
    short = "training.n_epochs=30"
    assert kill_at_random(folder, 1, 1, short) == 1
    assert "going on from step" in finished(folder, short, f"output={folder}/broken")
    finished(folder, short, f"output={folder}/whole")
    assert torch.equal(weights(folder / "whole"), weights(folder / "broken"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", ["noisy", "sentences"])
def test_after_many_kills_at_random_moments_a_run_ends_with_the_same_bits(folder, way, seed):
    settings = [*WAYS[way], "model.dropout=0.1", "training.n_epochs=150"]
    assert kill_at_random(folder, seed, 5, *settings) >= 3
    finished(folder, *settings, f"output={folder}/broken")
    finished(folder, *settings, f"output={folder}/whole")
    assert torch.equal(weights(folder / "whole"), weights(folder / "broken"))


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_saves_and_the_run_goes_on_to_the_same_bits(folder, signal_number):
    whole = read_recipe(folder / "toy.toml", ["training.n_epochs=2", f"output={folder}/whole"])
    pretrain(whole)

    def interrupt(progress):
        os.kill(os.getpid(), signal_number)

    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=2", f"output={folder}/broken"])
    before = signal.getsignal(signal_number)
    with pytest.raises(KeyboardInterrupt):
        pretrain(recipe, report=interrupt)
    assert signal.getsignal(signal_number) is before
    assert torch.isfinite(weights(folder / "broken")).all()  # a model is there already
    assert pretrain(recipe, resume=True).stopped == "budget"
    assert torch.equal(weights(folder / "whole"), weights(folder / "broken"))


def test_an_interruption_while_the_end_is_saved_loses_nothing(folder, monkeypatch):
    write = training_state.TrainingState.write

    def interrupted(self, where):
        os.kill(os.getpid(), signal.SIGINT)
        monkeypatch.undo()
        write(self, where)

    monkeypatch.setattr(training_state.TrainingState, "write", interrupted)
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    assert pretrain(recipe).stopped == "budget"
    weights(folder / "model")


def test_a_run_at_its_end_can_be_given_more(folder):
    settings = ["optimiser.schedule=constant", "optimiser.warmup=0.0"]
    at_once = [*settings, "training.n_epochs=2", f"output={folder}/whole"]
    pretrain(read_recipe(folder / "toy.toml", at_once))
    for n_epochs in (1, 2):
        recipe = read_recipe(folder / "toy.toml", [*settings, f"training.n_epochs={n_epochs}"])
        pretrain(recipe, resume=True)
    assert torch.equal(weights(folder / "whole"), weights(folder / "model"))


def test_a_finished_run_that_is_asked_to_go_on_leaves_its_log_as_it_is(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    pretrain(recipe)
    before = log_lines(folder / "model")
    pretrain(recipe, resume=True)
    after = log_lines(folder / "model")
    for line in (before[-1], after[-1]):
        del line["train/minutes"]
    assert after == before
    assert sum("final/predictions" in line for line in before) == 1


@pytest.mark.parametrize("batches", ["windows", "sentences"])
def test_a_run_that_dies_after_its_best_model_knows_of_it(folder, batches):
    settings = [
        f"training.batches={batches}",
        "validation.every_tokens=500",
        "log.save_minutes=99",
        "training.n_epochs=3",
        "log.every_steps=1",
    ]
    recipe = read_recipe(folder / "toy.toml", settings)

    def die(progress):
        if progress.heldout is not None:
            raise Killed

    with pytest.raises(Killed):
        pretrain(recipe, report=die)
    state = training_state.read_state(folder / "model")
    measured = [line for line in log_lines(folder / "model") if "heldout/predictions" in line]
    assert state.about["best_step"] == state.about["step"] == measured[-1]["step"]
    made = pretrain(recipe, resume=True)
    whole = pretrain(read_recipe(folder / "toy.toml", [*settings, f"output={folder}/whole"]))
    assert made.best_step == whole.best_step
    assert torch.equal(weights(folder / "whole"), weights(folder / "model"))


def test_a_disk_that_is_full_leaves_the_last_save_and_the_run_going(folder, monkeypatch, caplog):
    settings = [*OFTEN, f"output={folder}/whole"]
    n_steps = pretrain(read_recipe(folder / "toy.toml", settings)).n_steps
    save_file, n_saves = training_state.save_file, []

    def full(tensors, path, about):
        n_saves.append(path)
        if 2 <= len(n_saves) < n_steps:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, path, about)

    monkeypatch.setattr(training_state, "save_file", full)

    def look(progress):
        if len(n_saves) > 1:
            state = training_state.read_state(folder / "model")
            assert state.about["step"] == 1
            assert not list((folder / "model").glob("*.tmp"))

    pretrain(read_recipe(folder / "toy.toml", OFTEN), report=look)
    assert "could not save, the last save stays: [Errno 28]" in caplog.text
    assert torch.equal(weights(folder / "whole"), weights(folder / "model"))


def test_a_disk_that_is_full_at_the_end_is_an_error_and_the_run_can_go_on(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    recipe = read_recipe(folder / "toy.toml", OFTEN)
    with monkeypatch.context() as at_the_end:

        def fill(progress):
            if progress.share >= 1:
                at_the_end.setattr(training_state, "save_file", full)

        with pytest.raises(OSError, match="No space left"):
            pretrain(recipe, report=fill)
    n_steps = training_state.read_state(folder / "model").about["step"]
    assert n_steps > 1
    assert pretrain(recipe, resume=True).n_steps > n_steps


def test_a_best_model_that_finds_no_room_is_written_when_there_is_some(folder, monkeypatch, caplog):
    from elmo.pretrain import run

    save_folder, tries = run.save_folder, []

    def full(checkpoint, where):
        tries.append(where)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_folder(checkpoint, where)

    monkeypatch.setattr(run, "save_folder", full)
    settings = ["validation.every_tokens=200", "training.n_epochs=2"]
    made = pretrain(read_recipe(folder / "toy.toml", settings))
    assert caplog.text.count("could not write the best model so far: [Errno 28]") == 2
    assert made.best_step > 0
    weights(folder / "model")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.lstm.hidden_dim=12"], "model.lstm.hidden_dim was 16 and is 12"),
        (["seed=2"], "seed was 1 and is 2"),
        (["training.n_rows=4"], "training.n_rows was 8 and is 4"),
        (["optimiser.name=adagrad"], "optimiser.name was 'adamw' and is 'adagrad'"),
        (["corpus.max_words=9"], "what is read.vocabulary was '.*' and is '9 words"),
    ],
    ids=str,
)
def test_a_run_of_another_recipe_is_refused_with_the_difference(folder, settings, said):
    short = ["training.n_epochs=1"]
    pretrain(read_recipe(folder / "toy.toml", short))
    with pytest.raises(ValueError, match=f"cannot go on by another recipe: .*{said}"):
        pretrain(read_recipe(folder / "toy.toml", [*short, *settings]), resume=True)


def test_a_run_on_other_text_is_refused(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    pretrain(recipe)
    with (folder / "train.txt").open("a") as file:
        file.write("the dog ran .\n")
    with pytest.raises(ValueError, match=r"what is read\.sentences was 150 and is 151"):
        pretrain(recipe, resume=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [("train", "what is read"), ("heldout", "what is held out")],
)
def test_a_run_on_text_of_the_same_counts_but_in_another_order_is_refused(folder, name, said):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    pretrain(recipe)
    path = folder / f"{name}.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match=rf"{said}\.checksum was '\w{{8}}' and is '\w{{8}}'"):
        pretrain(recipe, resume=True)


def older(folder):
    """Make a run and its corpus such as a version wrote that knew fewer things of them."""
    state = training_state.read_state(folder)
    new = ("heldout", "start", "threads", "torch", "drawn_by")
    about = {key: value for key, value in state.about.items() if key not in new}
    del about["corpus"]["checksum"]
    training_state.TrainingState(state.tensors, about).write(folder)
    record = json.loads((folder / "corpus" / "corpus.json").read_text())
    del record["checksums"]
    (folder / "corpus" / "corpus.json").write_text(json.dumps(record))


def test_a_run_of_an_older_version_goes_on_and_its_text_is_not_prepared_again(folder, caplog):
    settings = ["optimiser.schedule=constant", "optimiser.warmup=0.0"]
    whole = [*settings, "training.n_epochs=2", f"output={folder}/whole"]
    pretrain(read_recipe(folder / "toy.toml", whole))
    pretrain(read_recipe(folder / "toy.toml", [*settings, "training.n_epochs=1"]))
    older(folder / "model")
    before = (folder / "model" / "corpus" / "corpus.json").stat().st_mtime_ns
    pretrain(read_recipe(folder / "toy.toml", [*settings, "training.n_epochs=2"]), resume=True)
    assert (folder / "model" / "corpus" / "corpus.json").stat().st_mtime_ns == before
    assert "last bit" not in caplog.text
    assert torch.equal(weights(folder / "whole"), weights(folder / "model"))


def test_other_circumstances_of_rounding_are_told_when_a_run_goes_on(folder, caplog):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    pretrain(recipe)
    pretrain(recipe, resume=True)
    assert "last bit" not in caplog.text
    state = training_state.read_state(folder / "model")
    about = {**state.about, "threads": 77, "torch": "1.0"}
    training_state.TrainingState(state.tensors, about).write(folder / "model")
    pretrain(recipe, resume=True)
    assert "threads was 77 and is" in caplog.text and "torch was 1.0 and is" in caplog.text


def test_a_damaged_save_is_refused(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    pretrain(recipe)
    path = folder / "model" / training_state.STATE_FILE
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"training\.safetensors is damaged"):
        pretrain(recipe, resume=True)


def test_a_folder_that_holds_a_run_or_a_model_is_never_begun_anew(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    pretrain(recipe)
    before = weights(folder / "model")
    with pytest.raises(ValueError, match=r"holds a run already: .*--resume to go on"):
        pretrain(recipe)
    (folder / "model" / training_state.STATE_FILE).unlink()
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"holds a model.*another output"):
            pretrain(recipe, resume=resume)
    assert torch.equal(before, weights(folder / "model"))


def test_what_a_killed_run_left_half_written_is_gone_when_it_goes_on(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])
    pretrain(recipe)
    model = folder / "model"
    before = weights(model)
    for name in ("config.json", "model.safetensors"):  # killed between two renames
        (model / name).rename(model / f"{name}.0123abcd.old")
    names = ("training.safetensors.89abcdef.tmp", "metrics.jsonl.tmp", "config.json.0123abcd.tmp")
    for name in (*names, "of-another.tmp"):
        (model / name).write_text("half")
    (model / "last").mkdir(exist_ok=True)
    (model / "last" / "softmax.safetensors.0123abcd.tmp").touch()
    pretrain(recipe, resume=True)
    assert torch.equal(weights(model), before)
    left = [path.name for path in model.rglob("*") if path.suffix in (".tmp", ".old")]
    assert left == ["of-another.tmp"]


def test_two_runs_in_one_folder_are_kept_apart(folder):
    recipe = read_recipe(folder / "toy.toml", ["training.n_epochs=1"])

    def begin_another(progress):
        with pytest.raises(ValueError, match="another run is writing into"):
            pretrain(recipe, resume=True)

    pretrain(recipe, report=begin_another)
    shutil.rmtree(folder / "model")
    pretrain(recipe)  # a lock that was let go of keeps nobody out
