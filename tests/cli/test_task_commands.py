"""The commands of task models as a user types them: what is printed, written and refused."""

import io
import json
import logging
import re

import pytest
import torch
from tests.cli.commands import refused, run
from tests.tasks.toy_tagging import write_toy

from elmo.tasks import comparison
from elmo.tasks.registry import task_named
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
    (folder / "a.conllu").write_text("# x\n1\tAda\tada\tNOUN" + "\t_" * 6 + "\n\n")
    assert run("predict", "runs", "a.conllu", "b.conllu") == 0
    comment, word = (folder / "b.conllu").read_text().split("\n")[:2]
    assert comment == "# x" and re.fullmatch(r"1\tAda\tada\t([BI]-\w+|O)(\t_){6}", word)


def test_evaluate_prints_the_table_of_the_field(folder, capsys):
    assert run("evaluate", "runs", "dev.txt", "--report") == 0
    assert re.match(r"processed \d+ tokens with \d+ phrases; found: ", capsys.readouterr().out)


def test_predict_reads_standard_input_and_writes_standard_output(folder, capsys, monkeypatch):
    (folder / "text.txt").write_text("Ada lives in Oslo.\n")
    assert run("predict", "runs", "text.txt", "answers.txt", "--text") == 0
    capsys.readouterr()
    for arguments in (["-"], ["-", "-"], ["text.txt"]):
        given = io.TextIOWrapper(io.BytesIO((folder / "text.txt").read_bytes()))
        monkeypatch.setattr("sys.stdin", given)
        assert run("predict", "runs", *arguments, "--text") == 0
        assert capsys.readouterr().out == (folder / "answers.txt").read_text()
    assert not (folder / "-").exists()


def test_predict_knows_the_format_of_standard_input(folder, capsys, monkeypatch):
    def given(text, *options):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return ["predict", "runs", "-", *options]

    row = "1\tAda\tada\tNOUN" + "\t_" * 6 + "\n\n"  # no comment before it
    for options in ([], ["--format", "conllu"]):
        assert run(*given(row, *options)) == 0
        assert re.fullmatch(r"1\tAda\tada\t([BI]-\w+|O)(\t_){6}\n\n", capsys.readouterr().out)
    told = refused(capsys, *given("Ada O\nOslo\n"))
    assert told.startswith("error: standard input, line 2: 'Oslo' has 1 columns")
    told = refused(capsys, "predict", "runs", "dev.txt", "--format", "conllu")
    assert "--format is of standard input, but INPUT is dev.txt" in told


def test_evaluate_refuses_what_it_would_not_do(capsys):
    assert "give one of them" in refused(
        capsys, "evaluate", "runs", "dev.txt", "--report", "--json"
    )
    assert "give predictions a file" in refused(
        capsys, "evaluate", "runs", "dev.txt", "--output", "-"
    )


def test_what_the_system_refuses_is_told_by_the_name_of_the_file(folder, capsys):
    (folder / "taken").write_text("")
    told = refused(capsys, "train", "toy.toml", "--output", "taken")
    assert told == "error: taken: File exists\n"
    assert "taken is a file, but a folder" in refused(
        capsys, "predict", "runs", "dev.txt", "taken/answers.txt"
    )


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("bad allocation"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        torch.OutOfMemoryError("CUDA out of memory."),
    ],
)
def test_too_little_memory_is_told_in_one_line(folder, capsys, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(Trained, "predict", fail)
    told = refused(capsys, "evaluate", "runs", "dev.txt")
    assert told.startswith("error: not enough memory: ") and told.count("\n") == 1


def test_a_fault_of_ours_shows_its_trace(folder, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a fault")

    monkeypatch.setattr(Trained, "predict", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        run("evaluate", "runs", "dev.txt")


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
        (
            ["evaluate", "runs", "dev.txt", "--encoder", "elmo"],
            "trained on no encoder, but is given elmo",
        ),
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


@pytest.mark.parametrize(
    ("task", "text", "said"),
    [
        (
            "coref",
            "#begin document (a); part 000\na 0 0 Ada (1)\n#end document\n",
            "document a, part",
        ),
        (
            "squad",
            '{"data": [{"title": "a", "paragraphs": [{"context": "It rained.", "qas": [{"id": "1", '
            '"question": "Did it?", "answers": [{"text": "It", "answer_start": 0}]}]}]}]}',
            "1 questions have the id of another",
        ),
    ],
)
def test_answers_that_names_do_not_tell_apart_are_refused_before_the_work(
    folder, capsys, monkeypatch, task, text, said
):
    for name in ("x", "y"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "test").write_text(text)
    task = task_named(task)
    values = {"task": task, "settings": task.settings(), "labels": {}, "predict": None}
    fake = type("Fake", (), values)
    monkeypatch.setattr(Trained, "load", lambda *_, **__: fake)
    given = ["evaluate", "runs", "x/test", "y/test", "--output", "answers"]
    assert said in refused(capsys, *given)


def test_encoders_are_compared_in_a_table_and_a_picture(folder, capsys, monkeypatch):
    begun = []

    def here(command, **_):
        begun.append(command)
        return type("Ended", (), {"returncode": run(*command[3:])})

    monkeypatch.setattr(comparison.subprocess, "run", here)
    (folder / "words.txt").write_text("Ada 1 0\nOslo 0 1\n")
    given = ["compare-encoders", "toy.toml", "--encoders", "none,static:words.txt"]
    for _ in range(2):  # the second time all is there
        assert run(*given, "--set", f"cache='{folder}/cache'") == 0
        told = capsys.readouterr().out
    assert len(begun) == 2 and (folder / "runs-encoders" / "comparison.png").exists()
    rows = json.loads((folder / "runs-encoders" / "comparison.json").read_text())["encoders"]
    none, static = rows
    assert none["split"] == "dev" and none["error_reduction"] == 0
    assert none["mean"] == pytest.approx(sum(none["scores"]) / 2)
    fewer = 100 * (static["mean"] - none["mean"]) / (100 - none["mean"])
    assert static["error_reduction"] == pytest.approx(fewer)
    assert re.search(rf"^static:words.txt +{static['mean']:.2f} ± .* {fewer:.1f} %", told, re.M)
    text = (folder / "dev.txt").read_text()
    (folder / "dev.txt").write_text(text.replace("Oslo", "Rome"))
    assert run(*given, "--set", f"cache='{folder}/cache'") == 2 and len(begun) == 3
    assert "on other data: dev.txt has changed since" in capsys.readouterr().err
    (folder / "dev.txt").write_text(text)


def test_an_unknown_encoder_is_told_before_any_is_trained(capsys, monkeypatch):
    monkeypatch.setattr(comparison.subprocess, "run", None)
    given = ["compare-encoders", "toy.toml", "--encoders", "none,elmoo", "--output", "unknown"]
    assert 'toy.toml: "elmoo" names no encoder. Did you mean "elmo"?' in refused(capsys, *given)
    twice = ["compare-encoders", "toy.toml", "--encoders", "none,none", "--output", "unknown"]
    assert "distinct ones are wanted" in refused(capsys, *twice)
    for bare in ("static", "static:"):
        given[3] = f"none,{bare}"
        assert f'"{bare}" does not say which: give static:FILE' in refused(capsys, *given)


def test_an_encoder_that_cannot_be_opened_is_told_before_any_is_trained(capsys, monkeypatch):
    monkeypatch.setattr(comparison.subprocess, "run", None)
    given = ["compare-encoders", "toy.toml", "--encoders", "none,static:no.txt", "--output", "no"]
    assert "no.txt" in refused(capsys, *given)


@pytest.mark.parametrize("results", ["{", "{}"])
def test_damaged_results_of_an_encoder_are_told(folder, capsys, monkeypatch, results):
    def here(command, **_):
        return type("Ended", (), {"returncode": run(*command[3:])})

    monkeypatch.setattr(comparison.subprocess, "run", here)
    (folder / "damaged" / "none").mkdir(parents=True, exist_ok=True)
    (folder / "damaged" / "none" / "results.json").write_text(results)
    given = ["compare-encoders", "toy.toml", "--encoders", "none", "--output", "damaged"]
    assert run(*given) == 2
    assert "results.json is damaged: move it away" in capsys.readouterr().err


def test_encoders_of_similar_names_have_folders_of_their_own(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(comparison, "_open_encoders", lambda recipe: None)

    def results_of(recipe, settings, output, *, begun):
        made.append(output.name)
        run = {"n_parameters": 1, "seconds": 1.0}
        dev = {"mean": 50.0, "deviation": 0.0, "seeds": {"1": {"f1": 50.0}}}
        told = {"metric": "f1", "dev": dev, "test": None, "runs": {"1": run}}
        return {**told, "seconds_encoding": 0.0, "peak_memory": 1}

    monkeypatch.setattr(comparison, "results_of", results_of)
    encoders = ["elmo", "transformer:a/b", "transformer:a_b", "static:a.txt+elmo"]
    comparison.compare_encoders("toy.toml", encoders, tmp_path)
    assert len(set(made)) == 4 and made[0] == "elmo"
    assert not any(character in name for name in made for character in "/:")


def test_errors_are_reduced_by_the_share_of_them_that_is_gone():
    assert comparison.error_reduction(92.22, 90.15) == pytest.approx(21.0, abs=0.1)  # the paper's
    assert comparison.error_reduction(90.0, 95.0) == -100.0
    assert comparison.error_reduction(100.0, 100.0) == 0.0
