"""`elmo train-static` as a user types it."""

import gzip
import json

import pytest
from tests.cli import commands

from elmo.encoders.static import StaticEncoder

LINES = ["the cat sat on the mat", "", "a dog sat on cats"] * 20
SMALL = ["--dim", "4", "--min-count", "2", "--epochs", "2"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path


def run(*arguments):
    """The exit code."""
    return commands.run("train-static", *arguments)


def test_files_become_vectors_that_static_opens(folder, capsys):
    with gzip.open("more.txt.gz", "wt") as file:
        file.write("a bird sat too\n" * 3)
    assert run("text.txt", "more.txt.gz", "-o", "v.bin", *SMALL) == 0
    out, _ = capsys.readouterr()
    assert out.startswith(
        "v.bin: 10 words × 4, from 232 tokens in 43 sentences, 100.0% of which these are"
    )
    assert "bird" in StaticEncoder.open("v.bin").words
    assert json.loads((folder / "v.bin.json").read_text())["settings"]["method"] == "skip-gram"


def test_a_prepared_corpus_gives_the_same_vectors_as_its_text(folder):
    from elmo.pretrain.corpus_config import CorpusConfig
    from elmo.pretrain.prepare import prepare

    prepare(CorpusConfig(train=("text.txt",)), "corpus")
    assert run("corpus", "-o", "a.bin", *SMALL) == 0
    assert run("text.txt", "-o", "b.bin", *SMALL) == 0
    assert StaticEncoder.open("a.bin").identity == StaticEncoder.open("b.bin").identity


def test_fasttext_writes_its_own_form(folder):
    assert run("text.txt", "-o", "f.bin", "--method", "fasttext", "--buckets", "30", *SMALL) == 0
    assert StaticEncoder.open("f.bin").encode_layers([["unseen"]])[0].any()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.txt", "-o", "v.bin"], "no file matches no.txt"),
        (["text.txt", "-o", "v.npz"], "ends in '.npz', but expected .bin or .txt"),
        (["text.txt", "-o", "v.bin", "--method", "glove"], "method is 'glove'"),
        (["text.txt", "-o", "v.bin", "--dim", "0"], "dim is 0"),
        (["text.txt", "-o", "v.bin", "--min-count", "999"], "no word occurs min_count = 999"),
        (["t.parquet", "-o", "v.bin"], "is a table: make it ready with `elmo prepare`"),
        (["text.txt", "-o", "text.txt"], "text.txt exists"),
    ],
)
def test_it_refuses_in_one_line(folder, capsys, arguments, said):
    (folder / "t.parquet").touch()
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert not (folder / "v.bin").exists()
