"""`elmo probe wsd` and `elmo probe linear` as a user types them."""

import json

import pytest
from tests.cli import commands
from tests.encoders.toy import save_bert
from tests.models import random_bilm

from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.probes.wsd_data import read_keys

VECTORS = "the 0 0 1\nriver 1 0 0\nmoney 0 1 0\nbank 1 1 1\n"
SENTENCE = """<sentence id="{0}.s{1}"><wf lemma="{2}" pos="NOUN">{2}</wf>
<instance id="{0}.s{1}.t0" lemma="{3}" pos="NOUN">{2} bank</instance></sentence>
"""
SENSES = "bank\tNOUN\tbank%1 bank%2\nshore\tNOUN\tshore%1 shore%2\n"
WORDS = [("river", "bank"), ("money", "bank"), ("river", "bank")]
CONLLU = "\n".join(
    "".join(
        f"{i}\t{form}\t_\t{upos}\t_\t_\t0\t_\t_\t_\n"
        for i, (form, upos) in enumerate([("the", "DET"), (noun, "NOUN"), ("sat", "VERB")], 1)
    )
    for noun in ("river", "money", "bank")
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text(VECTORS)
    (tmp_path / "senses.tsv").write_text(SENSES)
    for name, words in [("a", WORDS), ("b", [*WORDS, ("river", "shore"), ("river", "dam")])]:
        sentences = "".join(SENTENCE.format(name, i, *of) for i, of in enumerate(words))
        (tmp_path / f"{name}.data.xml").write_text(f"<corpus>{sentences}</corpus>")
        senses = {"river": f"{words[0][1]}%1", "money": "bank%2"}
        (tmp_path / f"{name}.gold.key.txt").write_text(
            "".join(
                f"{name}.s{i}.t0 {senses[where].replace('bank', lemma)}\n"
                for i, (where, lemma) in enumerate(words)
            )
        )
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.conllu").write_text(CONLLU)
    return tmp_path


WSD = ["wsd", "--train", "a.data.xml", "--test", "b.data.xml"]
LINEAR = ["linear", "--train", "train.conllu", "--dev", "dev.conllu", "--test", "test.conllu"]


def run(*arguments):
    """The exit code."""
    return commands.run("probe", *arguments)


def encoder_of(folder, kind):
    if kind == "elmo":
        save_folder(Checkpoint(random_bilm()), "model")
        return "elmo:model"
    if kind == "transformer":
        return f"transformer:{save_bert(folder / 'bert')}"
    return "static:v.txt"


def test_wsd_scores_answers_and_draws(folder, capsys):
    options = ["--encoder", "static:v.txt", "--methods", "mean,2-nn,linear", "--senses"]
    files = ["--keys", "keys", "--output", "r.json", "--picture", "p.png"]
    assert run(*WSD, *options, "senses.tsv", *files) == 0
    out, _ = capsys.readouterr()
    assert "Wrote 5 files of keys into keys" in out and "Drew p.png" in out
    result = json.loads((folder / "r.json").read_text())
    rows = {(row["layer"], row["method"]): row for row in result["rows"]}
    # Of five words river-banks, the money-bank and the unseen shore are right; dam is in no list.
    mean = rows["layer 0", "nearest mean"]
    assert mean["all"] | {"f1": 0} == {
        "n_right": 4.0, "n_answered": 4, "n_instances": 5, "precision": 1.0, "recall": 0.8, "f1": 0
    }  # fmt: skip
    assert mean["several"]["f1"] == mean["seen"]["f1"] == 1 and mean["NOUN"] == mean["all"]
    assert rows[None, "first sense"]["all"]["n_right"] == 3
    assert rows[None, "most frequent sense"]["several"]["recall"] == pytest.approx(2 / 3)
    assert result["encoder"]["name"] == "static:v.txt" and result["layers"] == ["layer 0"]
    answers = read_keys(folder / "keys" / "layer-0-nearest-mean.key.txt")
    assert answers["b.s1.t0"] == ("bank%2",) and "b.s4.t0" not in answers
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_wsd_answers_a_text_without_keys(folder, capsys):
    (folder / "b.gold.key.txt").unlink()
    arguments = [*WSD, "--encoder", "static:v.txt", "--keys", "keys", "--unscored"]
    assert run(*arguments) == 0
    assert sorted(path.name for path in (folder / "keys").iterdir()) == [
        "layer-0-nearest-mean.key.txt",
        "most-frequent-sense.key.txt",
    ]
    assert "F1" not in capsys.readouterr().out


def test_linear_scores_and_draws(folder, capsys):
    files = ["--output", "r.json", "--picture", "p.png"]
    assert run(*LINEAR, "--encoder", "static:v.txt", "--penalties", "0.1,0.001", *files) == 0
    out, _ = capsys.readouterr()
    assert "labels by static:v.txt, accuracy in percent" in out and "Drew p.png" in out
    result = json.loads((folder / "r.json").read_text())
    (layer,) = result["layers"]
    assert layer["layer"] == "layer 0" and layer["test"]["value"] == 1
    assert layer["selectivity"] == pytest.approx(1 - layer["control"])
    assert result["most_frequent_label_of_the_word"]["value"] == 1
    assert (result["n_words"], result["n_labels"]) == ({"train": 9, "dev": 9, "test": 9}, 3)
    assert result["penalties"] == [0.1, 0.001] and result["seed"] == 0


@pytest.mark.parametrize("kind", ["elmo", "transformer"])
def test_other_encoders_go_through_the_same_commands(folder, kind):
    encoder = encoder_of(folder, kind)
    given = ["--encoder", encoder, "--layers", "-1,mean", "--device", "cpu", "--output", "r.json"]
    for command, rows in ((WSD, "rows"), (LINEAR, "layers")):
        assert run(*command, *given) == 0
        result = json.loads((folder / "r.json").read_text())
        assert result["encoder"]["name"] == encoder
        assert [row["layer"] for row in result[rows]][-2:] == ["layer 2", "mean of layers"]


def test_a_column_of_a_plain_file_is_a_number(folder, capsys):
    for part in ("train", "dev", "test"):
        (folder / f"{part}.txt").write_text("the DT x\nriver NN x\n\nbank NN x\n")
    command = [part.replace(".conllu", ".txt") for part in LINEAR]
    assert run(*command, "--encoder", "static:v.txt", "--column", "-2") == 0
    assert "100.00" in capsys.readouterr().out
    assert run(*command, "--encoder", "static:v.txt", "--column", "-1") == 2
    assert "has the label 'x': there is nothing to learn" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*WSD, "--encoder", "none"], "asks for no encoder: a probe looks at one at a time"),
        ([*WSD, "--encoder", "elmo+static:v.txt"], "asks for several encoders"),
        ([*WSD, "--encoder", "tfidf"], "tfidf gives one vector per document"),
        ([*WSD, "--methods", "best"], "method is 'best'"),
        ([*WSD, "--encoder", "static:v.txt", "--layers", "1"], "there is no layer 1"),
        ([*WSD, "--test-keys", "a.gold.key.txt"], "(b.s0.t0, b.s1.t0, b.s2.t0, …) without a key"),
        ([*WSD, "--unscored"], "--unscored goes with --keys"),
        ([*WSD, "--output", "no/r.json"], "no does not exist"),
        ([*WSD, "--picture", "p.txt"], "p.txt is no name of a picture"),
        ([*WSD, "--senses", "v.txt"], "v.txt, line 1"),
        (["wsd", "--train", "no.data.xml", "--test", "b.data.xml"], "no.gold.key.txt does not"),
        ([*LINEAR, "--column", "xpos"], "has the label '_': there is nothing to learn"),
        ([*LINEAR, "--column", "pos"], 'column is "pos", which CoNLL-U has not'),
        ([*LINEAR, "--penalties", "a"], "--penalties is 'a'"),
        ([*LINEAR, "--penalties=-1", "--encoder", "static:v.txt"], "--penalties is '-1'"),
        ([*LINEAR, "--penalties", "0.1,nan"], "expected numbers from 0 on"),
    ],
)
def test_they_refuse_in_one_line(capsys, arguments, said):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and said in err


@pytest.mark.parametrize("command", ["wsd", "linear"])
def test_help_has_an_example(capsys, command):
    assert run(command, "--help") == 0
    assert f"For example: elmo probe {command}" in " ".join(capsys.readouterr().out.split())
