import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.probes.toy_text import LINES, ToyEncoder, write_text

from elmo.compare import Place
from elmo.encoders.static import StaticEncoder
from elmo.probes import neighbors as module
from elmo.probes.neighbors import (
    all_cosines,
    largest,
    neighbors,
    query_vector,
    same_sense,
    static_neighbors,
)
from elmo.probes.usages import build_index


@pytest.fixture
def index(tmp_path):
    text = write_text(tmp_path / "text.txt")
    return build_index([text], tmp_path / "index", ToyEncoder(), layers=[None, 0, 1])


def test_the_nearest_usage_by_hand():
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0], [0, 0]], dtype="f2")
    cosines = all_cosines(vectors, np.array([0.8, 0.6], dtype="f4"))
    np.testing.assert_allclose(cosines, [0.8, 0.96, 0.6, -0.8, 0], atol=1e-3)
    assert largest(cosines, 2).tolist() == [1, 0]
    chosen = all_cosines(vectors, np.array([0.8, 0.6], dtype="f4"), np.array([3, 2]))
    np.testing.assert_allclose(chosen, [-0.8, 0.6], atol=1e-3)


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 20])
def test_cosines_agree_with_the_plain_product_whatever_the_block(block_bytes, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", block_bytes)
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((57, 7)).astype("f2")
    vectors = (vectors / np.linalg.norm(vectors.astype("f4"), axis=1, keepdims=True)).astype("f2")
    query = draw.standard_normal(7).astype("f4")
    query /= np.linalg.norm(query)
    plain = vectors.astype("f8") @ query
    np.testing.assert_allclose(all_cosines(vectors, query), plain, atol=1e-6)
    rows = np.array([50, 3, 3, 12])
    np.testing.assert_allclose(all_cosines(vectors, query, rows), plain[rows], atol=1e-6)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), max_size=12), st.integers(1, 15))
def test_the_largest_are_those_of_a_stable_sort(numbers, n):
    expected = sorted(range(len(numbers)), key=lambda i: (-numbers[i], i))[:n]
    assert largest(np.array(numbers, dtype="f4"), n).tolist() == expected


@pytest.mark.parametrize("layer", [None, 0, 1])
def test_neighbours_agree_with_brute_force(index, layer):
    place = Place(["He", "sat", "on", "the", "bank"], 4)
    query = query_vector(ToyEncoder(), place, layer)
    found = neighbors(index, query, layer=layer, n=50)
    cosines = {}
    for line in filter(None, LINES):
        (layers,) = ToyEncoder().encode_layers([line.split()])
        vectors = layers.mean(axis=0) if layer is None else layers[layer]
        for i, vector in enumerate(vectors):
            cosines[(line, i)] = vector @ query / np.linalg.norm(vector)
    assert {(" ".join(u.tokens), u.position) for _, u in found} == set(cosines)
    for cosine, usage in found:
        plain = cosines[(" ".join(usage.tokens), usage.position)]
        assert cosine == pytest.approx(plain, abs=2e-3)
    assert [c for c, _ in found] == sorted((c for c, _ in found), reverse=True)
    few = neighbors(index, query, layer=layer, n=3)
    assert [n.usage for n in few] == [n.usage for n in found[:3]]


def test_neighbours_of_one_form_are_its_usages_each_sentence_once(index):
    query = query_vector(ToyEncoder(), Place(["on", "the", "river", "bank", "."], 3), 1)
    found = neighbors(index, query, layer=1, n=10, forms=["bank"])
    assert {n.usage.word for n in found} == {"bank"}
    assert sorted(n.usage.sentence for n in found) == [0, 1, 2, 3]  # 4 says what 0 says
    assert found[0].usage.sentence == 0
    both = neighbors(index, query, layer=1, n=10, forms=["bank", "Banks"])
    assert len(both) == 5


def test_the_query_itself_is_no_neighbour(index):
    place = Place(LINES[0].split(), 5)
    query = query_vector(ToyEncoder(), place, 1)
    assert neighbors(index, query, layer=1, n=1)[0].cosine == pytest.approx(1, abs=1e-3)
    found = neighbors(index, query, layer=1, n=40, but=place)
    assert all(n.usage.tokens != place.tokens or n.usage.position != 5 for n in found)
    assert len(found) == 39 - 7 - 1


def test_what_has_no_neighbours_is_refused(index):
    query = query_vector(ToyEncoder(), Place(["bank"], 0))
    with pytest.raises(ValueError, match="n is 0, but at least 1 neighbour"):
        neighbors(index, query, n=0)
    with pytest.raises(ValueError, match=r'"bnk" never occurs .* bank'):
        neighbors(index, query, forms=["bnk"])
    with pytest.raises(ValueError, match="there is no layer 5: toy:0 has layers 0 to 1"):
        query_vector(ToyEncoder(), Place(["bank"], 0), 5)


STATIC = StaticEncoder(
    ["play", "Play", "game", "plays", "sea"],
    np.array([[2, 0], [1, 0], [3, 1], [1, 1], [-1, 0]], dtype="f4"),
    name="static:toy",
)


def test_static_neighbours_by_hand():
    found = static_neighbors(STATIC, "play", n=2)
    assert [word for word, _ in found] == ["game", "plays"]
    assert [cosine for _, cosine in found] == pytest.approx([3 / 10**0.5, 0.5**0.5])
    assert [word for word, _ in static_neighbors(STATIC, "PLAY", n=9)] == ["game", "plays", "sea"]
    with pytest.raises(ValueError, match='static:toy has no vector for "ship"'):
        static_neighbors(STATIC, "ship")


def test_shares_of_the_same_sense_by_hand():
    vectors = np.array([[1, 0], [0, 1], [0, 2], [1, 1]], dtype="f4")
    words, senses = ["bank", "bank", "bank", "sea"], ["money", "river", "river", "water"]
    queries = np.array([[3, 1], [1, 3], [1, 0], [1, 0]], dtype="f4")
    shares = same_sense(
        vectors, words, senses, queries, ["bank", "bank", "bank", "lake"],
        ["money", "river", "river", "water"],
    )  # fmt: skip
    assert shares.n_queries == 3  # of "lake" nothing is known
    assert shares.nearest == pytest.approx(2 / 3)
    assert shares.random == pytest.approx((1 / 3 + 2 / 3 + 2 / 3) / 3)


def test_shares_agree_with_brute_force():
    draw = np.random.default_rng(1)
    vectors, queries = (draw.standard_normal((n, 4)).astype("f4") for n in (60, 40))
    words, asked = (draw.integers(0, 5, n).tolist() for n in (60, 40))
    senses, right = (draw.choice(["a", "b", "c"], n).tolist() for n in (60, 40))
    hits, chance = [], []
    for vector, word, sense in zip(queries, asked, right, strict=True):
        same = [i for i in range(60) if words[i] == word]
        cosines = [
            vectors[i] @ vector / np.linalg.norm(vectors[i]) / np.linalg.norm(vector) for i in same
        ]
        hits.append(senses[same[int(np.argmax(cosines))]] == sense)
        chance.append(np.mean([senses[i] == sense for i in same]))
    shares = same_sense(vectors, words, senses, queries, asked, right)
    assert shares.nearest == pytest.approx(np.mean(hits))
    assert shares.random == pytest.approx(np.mean(chance))
    with pytest.raises(ValueError, match="no query is of a word that has usages"):
        same_sense(vectors, words, senses, queries, ["none"] * 40, right)
