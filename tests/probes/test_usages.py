import json
import re

import numpy as np
import pytest
from tests.probes.toy_text import LINES, N_TOKENS, ToyEncoder, write_text

from elmo import Tokenizer
from elmo.probes import usages
from elmo.probes.usages import Usage, UsageIndex, build_index


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt")


@pytest.fixture
def small_groups(monkeypatch):
    """So small that every sentence is a group of its own."""
    monkeypatch.setattr(usages, "GROUP_BYTES", 1)


def expected(layer):
    """Vectors of all tokens, computed sentence by sentence."""
    rows = []
    for line in filter(None, LINES):
        (layers,) = ToyEncoder().encode_layers([line.split()])
        vectors = layers.mean(axis=0) if layer is None else layers[layer]
        rows += [vector / np.linalg.norm(vector) for vector in vectors]
    return np.array(rows)


def test_every_token_of_every_line_has_its_vector_of_length_one(text, tmp_path, small_groups):
    index = build_index([text], tmp_path / "index", ToyEncoder(), layers=[None, 0, 1])
    assert (index.n_sentences, index.n_tokens) == (6, N_TOKENS)
    for layer in (None, 0, 1):
        vectors = index.vectors(layer)
        assert vectors.dtype == np.float16 and vectors.shape == (N_TOKENS, 5)
        np.testing.assert_allclose(vectors, expected(layer), atol=5e-4)


def test_an_index_opens_with_its_text_and_gives_usages_back(text, tmp_path):
    build_index([text], tmp_path / "index", ToyEncoder(), layers=[1])
    index = UsageIndex.open(tmp_path / "index")
    assert index.layers == (1,) and index.encoder_name == "toy:0"
    tokens = [token for line in LINES for token in line.split()]
    assert [index.usage(row).word for row in range(N_TOKENS)] == tokens
    assert index.usage(8) == Usage(1, 1, LINES[1].split())
    assert index.usage(8).marked() == "The [bank] raised its rates ."
    assert index.usage(0).marked(2) == "[We] sat on …"
    assert index.usage(N_TOKENS - 1).marked(1) == "… money [.]"


def test_rows_of_a_form_are_found_whatever_its_case(text, tmp_path):
    index = build_index([text], tmp_path / "index", ToyEncoder())
    assert [index.usage(r).sentence for r in index.rows(["BANK"])] == [0, 1, 2, 3, 4]
    assert [index.usage(r).word for r in index.rows(["banks", "the"])] == [
        *("the", "The", "the", "the", "the"),
        "Banks",
    ]
    with pytest.raises(ValueError, match=r'"bnak" never occurs in .*index: the nearest .* bank'):
        index.rows(["bnak"])
    with pytest.raises(ValueError, match=r'"xyzzy" never occurs in .*, nor does a form like it'):
        index.rows(["xyzzy"])


def test_an_interrupted_build_goes_on_and_becomes_the_same(text, tmp_path, small_groups):
    whole = build_index([text], tmp_path / "whole", ToyEncoder(), layers=[None, 1])
    with pytest.raises(KeyboardInterrupt):
        build_index([text], tmp_path / "i", ToyEncoder(fail_after=12), layers=[None, 1])
    assert UsageIndex.open(tmp_path / "i").layers == ()
    # What was written after the last record is not counted, however much it is.
    with (tmp_path / "i" / "layer-1.f16").open("ab") as file:
        file.write(b"half a row")
    encoder = ToyEncoder()
    again = build_index([text], tmp_path / "i", encoder, layers=[None, 1])
    assert encoder.n_encoded == N_TOKENS - 13
    for layer in (None, 1):
        np.testing.assert_array_equal(again.vectors(layer), whole.vectors(layer))
        assert (
            tmp_path / "i" / f"layer-{'mean' if layer is None else layer}.f16"
        ).stat().st_size == N_TOKENS * 5 * 2


def test_layers_are_added_without_those_that_are_there(text, tmp_path, small_groups):
    build_index([text], tmp_path / "i", ToyEncoder(), layers=[0])
    before = (tmp_path / "i" / "layer-0.f16").stat().st_mtime_ns
    index = build_index([text], tmp_path / "i", ToyEncoder(), layers=[0, 1])
    assert index.layers == (0, 1)
    assert (tmp_path / "i" / "layer-0.f16").stat().st_mtime_ns == before
    encoder = ToyEncoder()
    build_index([text], tmp_path / "i", encoder, layers=[1, 0])
    assert encoder.n_encoded == 0


def test_a_tokenizer_splits_lines(tmp_path):
    text = write_text(tmp_path / "raw.txt", ["We sat on the bank."])
    index = build_index([text], tmp_path / "i", ToyEncoder(), tokenizer=Tokenizer("en"))
    assert index.n_tokens == 6 and index.language == "en"
    with pytest.raises(ValueError, match="has the tokens of en, but those of whitespace"):
        build_index([text], tmp_path / "i", ToyEncoder())


def test_progress_tells_of_all_tokens(text, tmp_path, small_groups):
    told = []
    build_index([text], tmp_path / "i", ToyEncoder(), progress=lambda *now: told.append(now))
    assert told[0] == ("Encoding", 7 / 39, "7 of 39 tokens")
    assert told[-1] == ("Encoding", 1.0, "39 of 39 tokens")


def test_a_changed_text_is_told_of_and_built_anew_where_asked(text, tmp_path):
    build_index([text], tmp_path / "i", ToyEncoder())
    changed = [*LINES[:-1], "Banks lend honey ."]  # of the same size
    write_text(text, changed)
    said = "text.txt has changed since .*i was built of it: build the index anew"
    with pytest.raises(ValueError, match=said):
        UsageIndex.open(tmp_path / "i")
    with pytest.raises(ValueError, match=said):
        build_index([text], tmp_path / "i", ToyEncoder())
    index = build_index([text], tmp_path / "i", ToyEncoder(), rebuild=True)
    assert index.usage(N_TOKENS - 2).word == "honey" and index.layers == (None,)
    text.unlink()
    assert UsageIndex.open(tmp_path / "i").n_tokens == N_TOKENS


def test_other_text_or_another_encoder_is_refused(text, tmp_path):
    index = build_index([text], tmp_path / "i", ToyEncoder())
    other = write_text(tmp_path / "other.txt", ["a b"])
    with pytest.raises(ValueError, match=r"was built of other text \(text.txt\): give that"):
        build_index([other], tmp_path / "i", ToyEncoder())
    with pytest.raises(ValueError, match=r"was built of other text \(text.txt\)"):
        build_index([text, other], tmp_path / "i", ToyEncoder())
    with pytest.raises(ValueError, match="was built with toy:0, and toy:1 has other weights"):
        build_index([text], tmp_path / "i", ToyEncoder(1))
    with pytest.raises(ValueError, match="has the mean of layers, but not layer 1"):
        index.vectors(1)


def test_what_cannot_be_indexed_is_refused(text, tmp_path):
    with pytest.raises(ValueError, match="there is no layer 2: toy:0 has layers 0 to 1"):
        build_index([text], tmp_path / "i", ToyEncoder(), layers=[2])
    with pytest.raises(FileNotFoundError, match=r"no.txt does not exist"):
        build_index([tmp_path / "no.txt"], tmp_path / "i", ToyEncoder())
    empty = write_text(tmp_path / "empty.txt", ["", " "])
    with pytest.raises(ValueError, match="the text has no token"):
        build_index([empty], tmp_path / "i", ToyEncoder())
    with pytest.raises(ValueError, match=re.escape("is no index of usages, but holds")):
        build_index([text], tmp_path, ToyEncoder())
    with pytest.raises(FileNotFoundError, match="has no index of usages"):
        UsageIndex.open(tmp_path / "i")
    assert build_index([text], tmp_path / "i", ToyEncoder()).n_tokens == N_TOKENS


def test_a_damaged_index_is_refused(text, tmp_path):
    build_index([text], tmp_path / "i", ToyEncoder())
    with (tmp_path / "i" / "layer-mean.f16").open("r+b") as file:
        file.truncate(20)
    with pytest.raises(ValueError, match=r"mean.f16 has 20 bytes, but 390 of it were"):
        UsageIndex.open(tmp_path / "i")
    record = json.loads((tmp_path / "i" / "index.json").read_text())
    (tmp_path / "i" / "index.json").write_text(json.dumps({**record, "format": 9}))
    with pytest.raises(ValueError, match="format 9, but this version reads 1"):
        UsageIndex.open(tmp_path / "i")
    assert build_index([text], tmp_path / "i", ToyEncoder(), rebuild=True).layers == (None,)
