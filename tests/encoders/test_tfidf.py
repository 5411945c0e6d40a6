import json
import math
import re
import sys

import numpy as np
import pytest

from elmo.encoders.tfidf import Tfidf, TfidfConfig

DOCUMENTS = [["A", "good", "film"], ["a", "bad", "film", "a"], ["good", "fun"], []]


def test_weights_are_as_by_hand():
    config = TfidfConfig(max_tokens=1, min_documents=1, sublinear=False)
    tfidf = Tfidf.fit(DOCUMENTS, config)
    assert tfidf.terms == ["a", "bad", "film", "fun", "good"] and tfidf.dim == 5
    weight = {
        t: math.log(5 / (1 + n)) + 1 for t, n in zip(tfidf.terms, [2, 1, 2, 1, 2], strict=True)
    }
    raw = np.array([2 * weight["a"], weight["bad"], weight["film"], 0, 0])
    vectors = tfidf.encode([["a", "bad", "film", "A", "unseen"], [], ["unseen"]])
    np.testing.assert_allclose(vectors[0], raw / np.linalg.norm(raw), rtol=1e-6)
    assert not vectors[1:].any() and vectors.dtype == np.float32 and vectors.shape == (3, 5)
    assert tfidf.encode([]).shape == (0, 5)


def test_terms_are_tokens_in_a_row_and_the_rare_ones_go():
    tfidf = Tfidf.fit(DOCUMENTS * 2, TfidfConfig(max_tokens=2, min_documents=4))
    assert tfidf.terms == ["a", "film", "good"]
    some = Tfidf.fit(DOCUMENTS, TfidfConfig(max_terms=1, min_documents=1, lower=False))
    assert some.terms == ["a"]
    assert "bad film" in Tfidf.fit(DOCUMENTS, TfidfConfig(min_documents=1)).terms


def test_what_was_saved_gives_the_same_vectors(tmp_path):
    tfidf = Tfidf.fit(DOCUMENTS, TfidfConfig(min_documents=1, lower=False))
    tfidf.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tfidf.json", "tfidf.safetensors"]
    again = Tfidf.load(tmp_path)
    np.testing.assert_array_equal(again.encode(DOCUMENTS), tfidf.encode(DOCUMENTS))
    assert again.identity == tfidf.identity and again.config == tfidf.config


def test_damaged_files_are_refused_in_one_line(tmp_path):
    tfidf = Tfidf.fit(DOCUMENTS, TfidfConfig(min_documents=1))
    tfidf.save(tmp_path)
    about = tmp_path / "tfidf.json"
    values = json.loads(about.read_text())

    def refused(error, said):
        with pytest.raises(error, match=re.escape(said)) as caught:
            Tfidf.load(tmp_path)
        assert "\n" not in str(caught.value)

    for change, said in [
        ({"version": 9}, "version 9"),
        ({"terms": values["terms"][1:]}, "has weights of shape"),
        ({"terms": [1]}, '"terms" is no list of strings'),
        ({"config": {"max_term": 3}}, 'unknown setting "max_term". Did you mean "max_terms"?'),
    ]:
        about.write_text(json.dumps(values | change))
        refused(ValueError, said)
    about.write_text(json.dumps(values))
    (tmp_path / "tfidf.safetensors").write_bytes(b"x")
    refused(ValueError, "tfidf.safetensors is damaged")
    (tmp_path / "tfidf.safetensors").unlink()
    refused(FileNotFoundError, "tfidf.safetensors does not exist")
    about.unlink()
    refused(FileNotFoundError, "tfidf.json does not exist")


def test_text_without_terms_is_refused():
    with pytest.raises(ValueError, match="no term occurs in 9 of 4 documents with 9 tokens"):
        Tfidf.fit(DOCUMENTS, TfidfConfig(min_documents=9))
    with pytest.raises(ValueError, match="no term occurs in 2 of 3 documents with 3 tokens"):
        Tfidf.fit([["a"], ["b"], ["c"]])
    with pytest.raises(ValueError, match="no term occurs"):
        Tfidf.fit([[], []])
    with pytest.raises(TypeError, match="is the string 'a text'"):
        Tfidf.fit(["a text"])
    with pytest.raises(ValueError, match="max_terms is 0"):
        TfidfConfig(max_terms=0)


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"needs sklearn.*pip install 'elmo-torch\[tasks\]'"):
        Tfidf.fit(DOCUMENTS)
