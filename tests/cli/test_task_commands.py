"""The commands of task models as a user types them: what is printed, written and refused."""

import json
import logging
import re

import pytest
from tests.cli.commands import refused, run
from tests.tasks.toy_tagging import write_toy

from elmo.tasks import comparison
from elmo.tasks.trained import Trained

RECIPE = """task = "tagging"
output = "runs"
encoder = "none"
seeds = [1, 2]
[data]
train = ["train.txt"]
dev = ["dev.txt"]
[input]
word_dim = 12
char_filters = 8
min_count = 1
dropout = 0.1
[model]
hidden_dim = 12
n_layers = 1
dropout = 0.1
[optimiser]
name = "adam"
learning_rate = 0.02
schedule = "constant"
warmup = 0.0
[training]
batch_size = 4
n_epochs = 4
device = "cpu"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A toy recipe, its data, and its trained models in `runs`."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "toy.toml").write_text(RECIPE)
    write_toy(folder / "train.txt")
    write_toy(folder / "dev.txt", n=8, seed=2)
    level = logging.getLogger("elmo").level
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run("train", "toy.toml") == 0
    yield folder
    logging.getLogger("elmo").setLevel(level)  # `elmo train` says more


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_evaluate_prints_the_scores_of_the_best_seed(capsys):
    best = Trained.load("runs")
    assert run("evaluate", "runs", "dev.txt", "--json", "--output", "answers.txt") == 0
    assert json.loads(capsys.readouterr().out) == best.scores
    with open("dev.txt") as gold, open("answers.txt") as answers:
        pairs = zip(gold.read().split("\n"), answers.read().split("\n"), strict=False)
        assert all(answer.startswith(line) for line, answer in pairs)
    assert run("evaluate", "runs", "dev.txt") == 0
    assert re.search(rf"^f1 +{best.scores['f1']:.2f}$", capsys.readouterr().out, re.M)


def test_predict_answers_for_text_and_for_files_of_the_task(folder, capsys):
    (folder / "text.txt").write_text("Ada lives in Oslo.\n\nNobody saw it .\n")
    assert run("predict", "runs", "text.txt", "answers.txt", "--text") == 0
    assert "Wrote answers for 2 examples to answers.txt" in capsys.readouterr().out
    lines = (folder / "answers.txt").read_text().split("\n")
    tokens = "Ada lives in Oslo . | Nobody saw it . |".replace("|", "").split(" ")
    assert [line.partition(" ")[0] for line in lines[:-1]] == tokens
    (folder / "column.txt").write_text("Ada\nlives\n\n")
    assert run("predict", "runs", "column.txt", "answers.txt") == 0
    assert len((folder / "answers.txt").read_text().split()) == 4


def test_a_folder_whose_name_is_a_number_holds_runs_too(folder):
    assert run("train", "toy.toml", "--set", "training.n_epochs=1", "--output", "2026") == 0
    assert (folder / "2026" / "results.json").exists()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["train", "toy.toml"], "runs holds runs already: give another output, or --resume"),
        (
            ["train", "toy.toml", "--set", "encoder=elmoo"],
            'toy.toml: "elmoo" names no encoder. Did',
        ),
        (["train", "toy.toml", "--set", "model=0"], "expected a table of settings, but found 0"),
        (["evaluate", "runs", "no.txt"], "no.txt does not exist"),
        (["evaluate", "here", "dev.txt"], "here holds no task model"),
        (["evaluate", "runs", "dev.txt", "--encoder", "elmo"], "trained on 0 encoders (none), but"),
        (["evaluate", "runs", "dev.txt", "--output", "no/a.txt"], "no does not exist; create it"),
        (["predict", "runs", "dev.txt", "no/a.txt"], "no does not exist; create it"),
        (["predict", "runs", "dev.txt", "runs"], "runs is a folder, but a file is to be written"),
        (["predict", "runs", "blank.txt", "a.txt", "--text"], "blank.txt holds nothing to answer"),
    ],
)
def test_commands_refuse_in_one_line(folder, capsys, monkeypatch, arguments, said):
    (folder / "blank.txt").write_text("\n \n")
    monkeypatch.setattr(Trained, "predict", None)  # what is wrong is said before the work
    assert said in refused(capsys, *arguments)


def test_encoders_are_compared_in_a_table_and_a_picture(folder, capsys, monkeypatch):
    begun = []

    def here(command, **_):
        begun.append(command)
        return type("Ended", (), {"returncode": run(*command[3:])})

    monkeypatch.setattr(comparison.subprocess, "run", here)
    (folder / "words.txt").write_text("Ada 1 0\nOslo 0 1\n")
    given = ["compare-encoders", "toy.toml", "--encoders", "none,static:words.txt"]
    for _ in range(2):  # the second time all is there
        more = ["--set", f"cache='{folder}/cache'", "--output", "compared"]
        assert run(*given, *more) == 0
        told = capsys.readouterr().out
    assert len(begun) == 2 and (folder / "compared" / "comparison.png").exists()
    rows = json.loads((folder / "compared" / "comparison.json").read_text())["encoders"]
    none, static = rows
    assert none["split"] == "dev" and none["error_reduction"] == 0
    assert none["mean"] == pytest.approx(sum(none["scores"]) / 2)
    fewer = 100 * (static["mean"] - none["mean"]) / (100 - none["mean"])
    assert static["error_reduction"] == pytest.approx(fewer)
    assert re.search(rf"^static:words.txt +{static['mean']:.2f} ± .* {fewer:.1f} %", told, re.M)


def test_an_unknown_encoder_is_told_before_any_is_trained(capsys, monkeypatch):
    monkeypatch.setattr(comparison.subprocess, "run", None)
    given = ["compare-encoders", "toy.toml", "--encoders", "none,elmoo", "--output", "unknown"]
    assert 'toy.toml: "elmoo" names no encoder. Did you mean "elmo"?' in refused(capsys, *given)
    twice = ["compare-encoders", "toy.toml", "--encoders", "none,none", "--output", "unknown"]
    assert "distinct ones are wanted" in refused(capsys, *twice)


def test_errors_are_reduced_by_the_share_of_them_that_is_gone():
    assert comparison.error_reduction(92.22, 90.15) == pytest.approx(21.0, abs=0.1)  # the paper's
    assert comparison.error_reduction(90.0, 95.0) == -100.0
    assert comparison.error_reduction(100.0, 100.0) == 0.0
