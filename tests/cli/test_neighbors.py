"""`elmo neighbors` and `elmo senses` as a user types them."""

import json

import pytest
from tests.cli.commands import run
from tests.models import random_bilm
from tests.probes.toy_text import LINES, N_TOKENS, write_text

from elmo import Vocabulary
from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.cli import senses
from elmo.probes import found_usages
from elmo.probes.usages import UsageIndex

TEXT = "He stood on the [bank] of a river ."
VECTORS = "bank 1 0\nbanks 0.9 0.1\nriver 0 1\nmoney 0.7 0.5\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_folder(Checkpoint(random_bilm(), Vocabulary(["<S>", "</S>", "<UNK>"])), "model")
    write_text(tmp_path / "text.txt")
    (tmp_path / "vectors.txt").write_text(VECTORS)
    return tmp_path


BUILD = ("--index", "i", "--corpus", "text.txt", "--tokenized", "-e", "elmo:model")


def test_neighbours_are_printed_and_written(folder, capsys):
    given = ["--layers", "0,mean", "-n", "3", "--static", "static:vectors.txt"]
    files = ["--output", "n.json", "--html", "n.html"]
    assert run("neighbors", TEXT, *BUILD, *given, *files) == 0
    out, _ = capsys.readouterr()
    assert "static:vectors.txt: banks, money, river" in out
    assert "elmo:model, layer 0" in out and "elmo:model, the mean of layers" in out
    written = json.loads((folder / "n.json").read_text())
    assert written["n_tokens"] == N_TOKENS and written["encoder"]["name"] == "elmo:model"
    (query,) = written["queries"]
    assert query["tokens"][query["position"]] == "bank"
    assert [of["word"] for of in query["static"]] == ["banks", "money", "river"]
    assert list(query["neighbors"]) == ["layer 0", "the mean of layers"]
    for found in query["neighbors"].values():
        assert len(found) == 3 and found[0]["cosine"] >= found[1]["cosine"]
    best = query["neighbors"]["layer 0"][0]
    assert best["tokens"][best["position"]] == "bank" and best["cosine"] == pytest.approx(
        1, abs=1e-3
    )
    page = (folder / "n.html").read_text()
    assert "<mark>bank</mark>" in page and "elmo:model, layer 0" in page


def test_an_index_is_asked_again_without_its_text_and_layers_are_added(folder, capsys):
    assert run("neighbors", TEXT, *BUILD) == 0
    assert run("neighbors", TEXT, "A [river]", "--index", "i", "--layers", "2", "--same") == 0
    out, _ = capsys.readouterr()
    assert UsageIndex.open("i").layers == (None, 2)
    assert "along the bank of the [river] ." in out


def test_usages_of_one_form(folder, capsys):
    assert run("neighbors", TEXT, *BUILD, "--form", "money", "--output", "n.json") == 0
    (query,) = json.loads((folder / "n.json").read_text())["queries"]
    (found,) = query["neighbors"].values()
    assert [of["tokens"][of["position"]] for of in found] == ["money", "money"]


def test_any_encoder_serves(folder, capsys):
    given = ["--index", "s", "--corpus", "text.txt", "-e", "static:vectors.txt"]
    assert run("neighbors", TEXT, *given) == 0
    assert "1.000" in capsys.readouterr().out
    given = ["senses", "bank", "text.txt", "-e", "static:vectors.txt"]
    assert run(*given, "--clusters", "2") == 0
    assert "2 clusters were asked for" in capsys.readouterr().out
    assert run(*given, "--context", "0") == 0  # one vector for all
    assert "too few or too alike to be divided" in capsys.readouterr().out


def test_senses_are_printed_drawn_and_written(folder, capsys):
    files = ["--html", "b.html", "--picture", "b.png", "--output", "b.json"]
    given = ["--tokenized", "--encoder", "elmo:model", "--layer", "2", "--clusters", "2"]
    assert run("senses", "bank", "text.txt", *given, *files, "--also", "Banks") == 0
    out, _ = capsys.readouterr()
    assert out.startswith("bank: 5 usages in text.txt; elmo:model, layer 2")
    assert "2 clusters were asked for" in out and "cluster 2:" in out
    written = json.loads((folder / "b.json").read_text())
    assert sum(cluster["n_usages"] for cluster in written["clusters"]) == 5
    assert {usage["cluster"] for usage in written["usages"]} == {0, 1}
    assert "<svg" in (folder / "b.html").read_text()
    assert (folder / "b.png").stat().st_size > 1000


def test_an_index_is_asked_and_completed_without_its_text(folder, capsys):
    assert run("neighbors", TEXT, *BUILD) == 0
    (folder / "text.txt").unlink()
    assert run("neighbors", TEXT, "--index", "i", "--layers", "2,mean") == 0
    assert "layer 2" in capsys.readouterr().out
    assert run("senses", "bank", "i", "--layer", "2") == 0


def test_words_without_static_vectors_are_told(folder, capsys):
    given = ["--static", "static:vectors.txt", "--html", "n.html"]
    assert run("neighbors", r"he \[said\] the [rates] rise", *BUILD, *given) == 0
    assert "static:vectors.txt: no vector for this word" in capsys.readouterr().out
    page = (folder / "n.html").read_text()
    assert "<h2>he [said] the <mark>rates</mark> rise</h2>" in page
    assert "no vector for this word" in page
    static = ["-e", "static:vectors.txt", "--tokenized"]
    assert run("neighbors", "[bank]", "--index", "s", "--corpus", "text.txt", *static) == 0
    out = capsys.readouterr().out
    assert "[river]" in out and "[lent]" not in out  # those without a vector are no neighbours
    assert run("senses", "rates", "text.txt", *static, "--context", "0") == 2
    assert "static:vectors.txt has no vector for rates" in capsys.readouterr().err


def test_what_help_says_of_the_context_is_so():
    assert senses.CONTEXT == found_usages.CONTEXT


def test_senses_are_read_from_an_index(folder, capsys):
    assert run("neighbors", TEXT, *BUILD) == 0
    capsys.readouterr()
    assert run("senses", "bank", "i", "-e", "static:vectors.txt") == 2
    assert "i is an index, with tokens and vectors of elmo:model" in capsys.readouterr().err
    assert run("senses", "bank", "i") == 0
    assert capsys.readouterr().out.startswith("bank: 4 usages in i; elmo:model, the mean of layers")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["neighbors", "no bracket", *BUILD], '"no bracket" marks no word'),
        (["neighbors", "[a] [b]", *BUILD], "2 opening and 2 closing brackets"),
        (["neighbors", "[a b]", *BUILD], "marks 2 tokens (a, b), but one word is asked for"),
        (["neighbors", "[bnak]", *BUILD, "--same"], '"bnak" never occurs in i: the nearest'),
        (["neighbors", "[bank]", *BUILD, "--form", "bnak"], '"bnak" never occurs in i'),
        (["neighbors", "[bank]", *BUILD, "-n", "0"], "n is 0"),
        (["neighbors", "[bank]", *BUILD, "--same", "--form", "a"], "leave one out"),
        (["neighbors", "[bank]", *BUILD, "--layers", "7"], "there is no layer 7"),
        (["neighbors", "[bank]", *BUILD, "--html", "n.txt"], "end it in .html"),
        (["neighbors", "[bank]", *BUILD, "--static", "elmo:model"], "but static:FILE is wanted"),
        (["senses", "bank", "text.txt", "-e", "elmo:model", "--examples", "0"], "--examples is 0"),
        (["neighbors", "[bank]", "--index", "i"], "i has no index of usages: build one"),
        (["neighbors", "[bank]", "--index", "i", "--rebuild"], "--rebuild needs the text"),
        (["neighbors", "[bank]", "--index", "i", "--tokenized"], "--tokenized tells of --corpus"),
        (["neighbors", "[bank]", "--index", "i", "--corpus", "no.txt"], "no.txt does not exist"),
        (["neighbors", "[bank]", "--index", ".", "--corpus", "text.txt"], "is no index of usages"),
        (["neighbors", "[a]", *BUILD[:5], "-e", "none"], "asks for no encoder"),
        (["neighbors", "[a]", *BUILD[:5], "-e", "elmo+elmo:model"], "asks for several encoders"),
        (["senses", "bnak", "text.txt", "-e", "elmo:model"], '"bnak" never occurs in text.txt'),
        (
            ["senses", "river", "text.txt", "-e", "elmo:model", "--clusters", "9"],
            "9 clusters were asked for, but there are 2 usages",
        ),
        (
            ["senses", "bank", "text.txt", "-e", "elmo:model", "--layer", "0,1"],
            "one layer is wanted",
        ),
        (["senses", "bank", "text.txt", "--projection", "mds"], "--projection is mds"),
        (["senses", "bank", "no.txt"], "no.txt does not exist"),
        (["senses", "bank", "model"], "model has no index of usages"),
        (["senses", "bank", "text.txt", "-e", "tfidf"], "tfidf gives one vector per document"),
        (
            ["senses", "money", "text.txt", "-e", "elmo:model", "--picture", "m.png"],
            "2 vectors were given, but at least 3",
        ),
    ],
)
def test_it_refuses_in_one_line(folder, capsys, arguments, said):
    assert run(*arguments) == 2
    _, err = capsys.readouterr()
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err


def test_a_changed_text_is_told(folder, capsys):
    assert run("neighbors", TEXT, *BUILD) == 0
    write_text(folder / "text.txt", [*LINES, "one more ."])
    for given in (BUILD, ("--index", "i")):
        assert run("neighbors", TEXT, *given) == 2
        assert "text.txt has changed since i was built of it" in capsys.readouterr().err
    assert run("senses", "bank", "i") == 2
    assert run("neighbors", TEXT, *BUILD, "--rebuild") == 0
    assert UsageIndex.open("i").n_tokens == N_TOKENS + 3
