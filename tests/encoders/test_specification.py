import re

import numpy as np
import pytest
from tests.encoders.toy import save_bert
from tests.models import random_bilm

from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.encoders import open_encoders, read_specification


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("none", []),
        ("elmo", [("elmo", "")]),
        (" elmo:original ", [("elmo", "original")]),
        ("elmo:./my+model", [("elmo", "./my+model")]),
        ("static:/a+b/vectors.bin", [("static", "/a+b/vectors.bin")]),
        ("static:C:\\v.txt+elmo", [("static", "C:\\v.txt"), ("elmo", "")]),
        ("transformer:a/b+static:x+y.txt", [("transformer", "a/b"), ("static", "x+y.txt")]),
        ("elmo + tfidf", [("elmo", ""), ("tfidf", "")]),
    ],
)
def test_a_specification_is_read_part_by_part(text, parts):
    read = read_specification(text)
    assert [(part.kind, part.argument) for part in read] == parts
    assert [part.name for part in read] == [f"{k}:{a}" if a else k for k, a in parts]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", '"" names no encoder.'),
        ("elom", '"elom" names no encoder. Did you mean "elmo"?'),
        ("elmo+sttic", '"elmo+sttic" names no encoder.'),
        ("elmo+sttic:x.txt", '"sttic:x.txt" names no encoder. Did you mean "static"?'),
        ("Transformer:x", 'Did you mean "transformer"?'),
        ("static", '"static" does not say which: give static:FILE'),
        ("transformer:", "give transformer:NAME_OR_FOLDER"),
        ("elmo:", "give elmo or elmo:MODEL"),
        ("none:x", "none takes nothing behind a colon"),
        ("tfidf:x", "tfidf takes nothing behind a colon"),
        ("none+elmo", "none goes with no other encoder"),
        ("elmo+elmo", "asks for the same encoder twice"),
    ],
)
def test_what_is_no_specification_is_refused_in_one_line(text, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        read_specification(text)
    assert "\n" not in str(caught.value)


def test_encoders_are_opened_in_the_order_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_folder(Checkpoint(random_bilm()), "tiny")
    save_bert(tmp_path / "bert")
    (tmp_path / "v.txt").write_text("the 1 2 3\ncat 4 5 6\n")
    encoders = open_encoders("static:v.txt+elmo:tiny+transformer:bert")
    assert [e.name for e in encoders] == ["static:v.txt", "elmo:tiny", "transformer:bert"]
    assert [(e.n_layers, e.dim) for e in encoders] == [(1, 3), (3, 12), (3, 8)]
    assert len({e.identity for e in encoders}) == 3
    for encoder in encoders:
        layers = encoder.encode_layers([["the", "cat"], []])
        assert [a.shape for a in layers] == [
            (encoder.n_layers, 2, encoder.dim),
            (encoder.n_layers, 0, encoder.dim),
        ]
        assert all(a.dtype == np.float32 for a in layers)
    assert open_encoders("none") == ()
    assert [e.name for e in open_encoders(read_specification("elmo:tiny"))] == ["elmo:tiny"]


def test_tfidf_is_for_documents():
    with pytest.raises(ValueError, match="one vector per document"):
        open_encoders("elmo+tfidf")
