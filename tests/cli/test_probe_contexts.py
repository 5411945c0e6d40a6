"""`elmo probe contextuality`, `wic` and `similarity` as a user types them."""

import json

import pytest
from tests.cli import commands
from tests.encoders.toy import save_bert
from tests.models import random_bilm

from elmo.checkpoints.folder import Checkpoint, save_folder

VECTORS = "the 0 0 1\nriver 1 0 0\nmoney 0 1 0\nbank 1 1 1\nsea 1 0 0.1\ncash 0 1 0.3\n"
TEXT = ["the river bank", "the money bank", "the sea", "cash and money", "a river and the sea"]
PAIRS = "bank\tN\t2-2\tthe river bank\tthe money bank\nsea\tN\t0-1\tsea\tthe sea\n"
RATED = "river\tsea\t9\nmoney\tcash\t8\nriver\tcash\t1\nriver\tnowhere\t5\n"
QUESTIONS = ": water\nmoney cash river sea\n: gram1-x\nriver sea money cash\n"
USES_HEADER = "target\tsample\tpair\tsentence1\tindex1\tsentence2\tindex2\tmean\n"
USES = [("the river bank.", 2, "the bank.", 1, 9), ("money bank", 1, "the bank", 1, 4)]
USES.append(("money bank", 1, "river bank", 1, 2))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text(VECTORS)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in [*TEXT, ""]))
    for part in ("train", "dev"):
        (tmp_path / f"{part}.data.txt").write_text(PAIRS)
        (tmp_path / f"{part}.gold.txt").write_text("F\nT\n")
        uses = [
            {"word": "bank", "index": 1, "tokens": [sense, "bank"], "sense": sense}
            for sense in ("river", "money", "river")
        ]
        (tmp_path / f"{part}.jsonl").write_text("".join(json.dumps(use) + "\n" for use in uses))
    (tmp_path / "rated.tsv").write_text(RATED)
    (tmp_path / "nan.tsv").write_text("river\tsea\tnan\nmoney\tcash\t1\n")
    (tmp_path / "questions.txt").write_text(QUESTIONS)
    rows = ["bank\tx\t1\t" + "\t".join(map(str, row)) for row in USES]
    (tmp_path / "uses.tsv").write_text(USES_HEADER + "\n".join(rows) + "\n")
    return tmp_path


CONTEXTUALITY = ["contextuality", "in.txt", "--min-sentences", "2"]
WIC = ["wic", "--train", "train.data.txt", "--test", "dev.data.txt"]
SENSES = ["wic", "--train", "train.jsonl", "--test", "dev.jsonl"]
SIMILARITY = ["similarity", "rated.tsv", "uses.tsv"]


def run(*arguments):
    """The exit code."""
    return commands.run("probe", *arguments)


def test_static_vectors_go_through_all(folder, capsys):
    files = ["--encoder", "static:v.txt", "--output", "r.json", "--picture", "p.png"]

    def result(*arguments):
        assert run(*arguments, *files) == 0
        assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
        (folder / "p.png").unlink()
        found = json.loads((folder / "r.json").read_text())
        assert found["encoder"]["name"] == "static:v.txt" and found["layers"]
        return found, capsys.readouterr().out

    found, out = result(*CONTEXTUALITY)
    (layer,) = found["rows"]
    assert layer["layer"] == "layer 0" and layer["self_similarity"] == pytest.approx(1)
    assert layer["adjusted_self_similarity"] == pytest.approx(1 - layer["anisotropy"])
    assert {word["word"] for word in found["words"]} == {"the", "river", "money", "bank", "sea"}
    assert found["unknown"] == ["and"] and "static:v.txt has no vectors for 1 word: and" in out
    assert found["settings"]["min_sentences"] == 2 and found["settings"]["seed"] == 0
    assert "5 of 6 words in 2 sentences or more, of 5 different sentences" in out

    found, out = result(*WIC)
    # The same word is equally like everywhere, so no threshold tells pairs apart.
    assert [row["accuracy"] for row in found["rows"]] == [50, 50] and "same sense or not" in out

    found, out = result(*SENSES)
    accuracies = {row["way"]: row["accuracy"] for row in found["rows"]}
    assert accuracies["most frequent sense"] == pytest.approx(200 / 3)
    assert "senses of 1 words by static:v.txt: 3 uses" in out

    found, out = result(*SIMILARITY, "questions.txt")
    (pairs,), uses, answers = found["files"].values()
    assert pairs["rho"] == pytest.approx(1) and (pairs["n"], pairs["n_pairs"]) == (3, 4)
    assert [row["rho"] for row in uses] == [None] and "–" in out
    assert {row["section"]: row["accuracy"] for row in answers} == dict.fromkeys(
        ("water", "gram1-x", "semantic", "syntactic", "all"), 100
    )


@pytest.mark.parametrize("kind", ["elmo", "transformer"])
def test_other_encoders_go_through_the_same_commands(folder, capsys, kind):
    if kind == "elmo":
        save_folder(Checkpoint(random_bilm()), "model")
        encoder = "elmo:model"
    else:
        encoder = f"transformer:{save_bert(folder / 'bert')}"
    given = ["--encoder", encoder, "--layers", "-1,mean", "--device", "cpu", "--output", "r.json"]
    for command in (CONTEXTUALITY, WIC, SENSES, SIMILARITY):
        assert run(*command, *given) == 0
        assert "mean of layers" in capsys.readouterr().out
        assert json.loads((folder / "r.json").read_text())["layers"] == [
            "layer 2",
            "mean of layers",
        ]
    (folder / "words.txt").write_text("river\nsea\nmoney\ncash\n")
    assert run("similarity", "questions.txt", *given, "--vocabulary", "words.txt") == 0
    assert "answers among 4 words" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*CONTEXTUALITY, "--words", "bnak"], "the nearest forms are bank"),
        ([*CONTEXTUALITY, "--words", "a"], '"a" occurs in 1 sentence, but at least 2'),
        ([*CONTEXTUALITY, "--max-uses", "1"], "max_uses is 1, but at least 2"),
        (["contextuality", "in.txt", "--min-sentences", "9"], "no word occurs in 9 different"),
        (["contextuality", "no.txt"], "no.txt does not exist"),
        ([*CONTEXTUALITY, "--layers", "3"], "there is no layer 3"),
        ([*CONTEXTUALITY, "--output", "no/r.json"], "no does not exist"),
        ([*CONTEXTUALITY, "--picture", "p.txt"], "end it in .png, .pdf or .svg"),
        ([*CONTEXTUALITY, "--encoder", "static:v.txt+elmo"], "asks for several encoders"),
        ([*WIC[:-1], "dev.jsonl"], "are not of one kind"),
        ([*WIC[:-1], "no.data.txt"], "no.data.txt does not exist"),
        (["similarity", "v.txt"], "line 1: is 'the 0 0 1', but expected two words and a number"),
        (["similarity", "in.txt"], "but expected two words and a number"),
        (["similarity", "nan.tsv"], "line 1: is 'river\\tsea\\tnan', but expected two words"),
        (["similarity", "rated.tsv", "--max-words", "-3"], "--max-words is -3, but at least 1"),
        ([*CONTEXTUALITY, "--max-sentences", "-1"], "--max-sentences is -1, but at least 1"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys, arguments, said):
    if "--encoder" not in arguments:
        arguments = [*arguments, "--encoder", "static:v.txt"]
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and said in err


def test_a_layer_where_no_threshold_helps_is_told(folder, capsys):
    (folder / "train.data.txt").write_text(PAIRS + "sea\tN\t1-0\tthe sea\tsea\n")
    (folder / "train.gold.txt").write_text("F\nF\nT\n")  # of equal cosines
    assert run(*WIC, "--encoder", "static:v.txt") == 0
    out = capsys.readouterr().out
    assert " none │" in out
    assert "none: no threshold is right more often than to call no pair the same." in out


def test_labels_of_one_class_are_refused(folder, capsys):
    (folder / "train.gold.txt").write_text("T\nT\n")
    assert run(*WIC, "--encoder", "static:v.txt") == 2
    assert "all 2 pairs are same: to choose a threshold" in capsys.readouterr().err


def test_analogies_need_words_to_choose_among(folder, capsys):
    save_folder(Checkpoint(random_bilm()), "model")
    assert run("similarity", "questions.txt", "--encoder", "elmo:model") == 2
    assert "by a file of them (--vocabulary)" in capsys.readouterr().err
