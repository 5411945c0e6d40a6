import re
from collections import Counter
from math import log, log2

import numpy as np
import pytest
from tests.probes.toy_text import MONEY, RIVER, ToyEncoder, write_text

from elmo.probes import senses as module
from elmo.probes.found_usages import Found, usages_in_text
from elmo.probes.senses import Clusters, cluster_usages, collocates, senses
from elmo.probes.senses_page import senses_page
from elmo.probes.usages import Usage


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt", [*RIVER, "", *MONEY, RIVER[0], "no such word here ."])


def clouds(*middles, n=12, spread=0.15, seed=0):
    """Usages around some directions, as many around each."""
    draw = np.random.default_rng(seed)
    parts = [np.array(m, dtype="f4") + spread * draw.standard_normal((n, 6)) for m in middles]
    return np.concatenate(parts).astype("f4")


THREE = ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0))


def test_clouds_that_are_apart_are_found_and_their_number_is_justified():
    vectors = clouds(*THREE)
    order = np.random.default_rng(2).permutation(36)
    clusters = cluster_usages(vectors[order], max_clusters=4)
    assert clusters.n == 3 and max(clusters.silhouettes, key=clusters.silhouettes.get) == 3
    assert list(clusters.silhouettes) == [2, 3, 4]
    assert len(clusters.by_chance) == 19 and max(clusters.by_chance) < clusters.silhouettes[3]
    for cloud in range(3):
        assert len(set(clusters.labels[np.flatnonzero(order // 12 == cloud)].tolist())) == 1
    again = cluster_usages(vectors[order], n_clusters=3)
    np.testing.assert_array_equal(again.labels, clusters.labels)


def test_one_cloud_stays_one_cluster_whatever_its_shape():
    draw = np.random.default_rng(0)
    for scales in ((1, 1, 1, 1, 1, 1), (4, 1, 0.5, 0.2, 0.1, 0.1)):
        vectors = draw.standard_normal((40, 6)) * np.array(scales) * 0.1 + 3
        clusters = cluster_usages(vectors.astype("f4"), max_clusters=3)
        assert clusters.n == 1 and not clusters.of_usages.any()


def test_silhouettes_agree_with_the_definition():
    vectors = clouds(*THREE, n=5, spread=0.4)
    clusters = cluster_usages(vectors, n_clusters=3)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    plain = []
    for i, own in enumerate(clusters.labels.tolist()):
        to = {k: [] for k in range(3)}
        for j, other in enumerate(clusters.labels.tolist()):
            if i != j:
                to[other].append(float(np.linalg.norm(unit[i] - unit[j])))
        a = np.mean(to[own]) if to[own] else None
        b = min(np.mean(to[k]) for k in range(3) if k != own)
        plain.append(0.0 if a is None else (b - a) / max(a, b))
    np.testing.assert_allclose(clusters.of_usages, plain, atol=1e-5)
    assert clusters.silhouettes == {3: pytest.approx(np.mean(plain), abs=1e-5)}
    assert clusters.by_chance == []


def test_clusters_are_numbered_by_size():
    vectors = np.concatenate([clouds(THREE[0], n=3), clouds(THREE[1], n=9)])
    assert cluster_usages(vectors, n_clusters=2).labels.tolist() == [1] * 3 + [0] * 9


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_usages_are_one_cluster(n):
    assert cluster_usages(clouds(THREE[0], n=n)).labels.tolist() == [0] * n


def test_equal_vectors_are_one_cluster():
    clusters = cluster_usages(np.ones((9, 4), dtype="f4"))
    assert clusters.n == 1 and clusters.silhouettes == {}


def test_clusters_have_two_usages_on_average_at_least():
    assert list(cluster_usages(clouds(THREE[0], n=7)).silhouettes) == [2, 3]


def test_more_clusters_than_usages_are_refused():
    said = "5 clusters were asked for, but there are 3 usages: ask for fewer clusters"
    with pytest.raises(ValueError, match=said):
        cluster_usages(clouds(THREE[0], n=3), n_clusters=5)
    with pytest.raises(ValueError, match=r"2 clusters .* there are 9 usages with 1 different"):
        cluster_usages(np.ones((9, 4), dtype="f4"), n_clusters=2)
    with pytest.raises(ValueError, match="n_clusters is 0"):
        cluster_usages(clouds(THREE[0]), n_clusters=0)
    with pytest.raises(ValueError, match="max_clusters is 0"):
        cluster_usages(clouds(THREE[0]), max_clusters=0)
    assert cluster_usages(clouds(THREE[0], n=3), n_clusters=3).n == 3
    assert cluster_usages(clouds(THREE[0], n=3), n_clusters=1).n == 1


def test_usages_that_are_alike_but_for_rounding_are_one():
    draw = np.random.default_rng(0)
    for noise in (1e-7, 1e-6, 3e-6, 1e-5, 3e-5):
        middles = draw.standard_normal((2, 6))
        vectors = np.repeat(middles, 20, axis=0) + noise * draw.standard_normal((40, 6))
        clusters = cluster_usages(vectors.astype("f4"))
        assert sorted(np.bincount(clusters.labels)) == [20, 20]
    same = np.ones((40, 6)) + 1e-7 * draw.standard_normal((40, 6))
    assert cluster_usages(same.astype("f4")).n == 1
    with pytest.raises(ValueError, match="there are 40 usages with"):
        cluster_usages(same.astype("f4"), n_clusters=30)


def test_collocates_by_hand():
    # Of 10 words near it 4 are "money", of 90 elsewhere 1.
    inside = {"money": 4, "the": 5, "once": 1}
    outside = {"money": 1, "the": 60, "other": 29}
    (found,) = collocates(inside, outside)  # "the" is rarer here, "once" stands here once
    assert (found.word, found.n_together) == ("money", 4)
    expected = 2 * (
        4 * log(4 / (5 * 10 / 100))
        + 1 * log(1 / (5 * 90 / 100))
        + 6 * log(6 / (95 * 10 / 100))
        + 89 * log(89 / (95 * 90 / 100))
    )
    assert found.log_likelihood == pytest.approx(expected)
    assert found.pmi == pytest.approx(log2(0.4 / 0.05))


def test_what_chance_would_give_is_no_collocate():
    assert collocates({"a": 11, "b": 89}, {"a": 10, "b": 90}) == []
    assert collocates({"a": 5}, {}) == []


def test_log_likelihood_agrees_with_that_of_the_multinomials():
    """G² is twice how much likelier the counts are with two shares of the word than with one."""
    draw = np.random.default_rng(0)

    def likelihood(k, n, p):
        return (k * log(p) if k else 0.0) + ((n - k) * log(1 - p) if n > k else 0.0)

    for _ in range(50):
        a, b, more_a, more_b = draw.integers(1, 40, 4).tolist()
        n1, n2 = a + more_a, b + more_b
        two = likelihood(a, n1, a / n1) + likelihood(b, n2, b / n2)
        share = (a + b) / (n1 + n2)
        one = likelihood(a, n1, share) + likelihood(b, n2, share)
        assert module._log_likelihood(a, b, n1, n2) == pytest.approx(2 * (two - one), abs=1e-9)


def test_senses_have_their_collocates_and_examples(text):
    divided = senses(["bank"], usages_in_text([text], ["bank"], ToyEncoder(), layer=1))
    assert divided.clusters.n == 2 and divided.word == "bank"
    money, river = divided.senses
    assert money.usages == [4, 5, 6, 7, 8] and river.usages == [0, 1, 2, 3]
    assert {"river", "on"} <= {of.word for of in river.collocates}
    assert {"big", "money"} <= {of.word for of in money.collocates}
    assert set(money.examples) == set(money.usages) and set(river.examples) == set(river.usages)
    assert "2 clusters have the largest silhouette" in divided.why()
    few = senses(["bank"], divided.found, n_clusters=1, n_collocates=2, n_examples=3)
    assert len(few.senses) == 1 and len(few.senses[0].examples) == 3
    assert few.why() == "one cluster was asked for"


def test_examples_are_those_nearest_to_the_mean_of_their_cluster():
    vectors = np.array([[1, 0.5], [1, 0], [1, -0.4], [-1, 0.1], [-1, 0]], dtype="f4")
    usages = [Usage(i, 0, ["word", str(i)]) for i in range(5)]
    divided = senses(["word"], Found(usages, vectors, 5, Counter()), n_clusters=2)
    assert divided.senses[0].examples == [1, 2, 0]


def test_the_page_stands_alone_and_holds_every_example(text):
    found = usages_in_text([text], ["bank"], ToyEncoder(), layer=1)
    divided = senses(["bank"], found, n_clusters=2)
    page = senses_page(divided, divided.found.vectors[:, :2], source="a <text> & toy:0")
    assert page.startswith("<!DOCTYPE html>") and "a &lt;text&gt; &amp; toy:0" in page
    assert page.count("<circle") == 9 and page.count("<h2>") == 2
    assert not re.search(r"<script|<link|https?://|src=", page)
    for sense in divided.senses:
        for usage in sense.examples:
            before, word, after = divided.usages[usage].parts(12)
            assert f'<td class="before">{before}</td><td class="word">{word}</td>' in page
            assert f"<td>{after}</td>" in page
    assert "<circle" not in senses_page(divided, None, source="")


def test_why_says_when_nothing_is_divided():
    usages = [Usage(i, 0, ["word"]) for i in range(2)]
    divided = senses(["word"], Found(usages, np.eye(2, dtype="f4"), 2, Counter(word=2)))
    assert divided.why() == "the usages are too few or too alike to be divided"
    assert Clusters(np.zeros(2, dtype="i8"), {}, [], np.zeros(2, dtype="f4")).n == 1
