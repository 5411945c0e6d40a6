import re
from itertools import combinations

import numpy as np
import pytest
from tests.probes.table_encoder import TableEncoder, hashed, static

from elmo.probes.contextuality import (
    ContextualityConfig,
    contextuality,
    explained_variance,
    intra_sentence_similarity,
    sample_uses,
    self_similarity,
)
from elmo.probes.layers import Layers

FORMS = ["bank", "river", "the", "of", "money", "tree", ",", "rain"]


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def random_text(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return [list(rng.choice(FORMS, size=rng.integers(2, 7))) for _ in range(n)]


# ---- by hand ------------------------------------------------------------------------------------


def test_self_similarity_of_three_uses_by_hand():
    # Cosines 0, 1/√2 and 1/√2; lengths do not count.
    uses = np.array([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    assert self_similarity(uses) == pytest.approx((0 + 2 / 2**0.5) / 3)
    assert self_similarity(np.array([[1.0, 2.0], [2.0, 4.0]])) == pytest.approx(1)
    assert self_similarity(np.array([[1.0, 0.0], [-1.0, 0.0]])) == pytest.approx(-1)


def test_similarity_within_a_sentence_by_hand():
    # The mean is (1, 1), to which both tokens stand at 45°.
    assert intra_sentence_similarity(np.array([[2.0, 0.0], [0.0, 2.0]])) == pytest.approx(0.5**0.5)
    # The mean is (2, 1) / 3: cosines 2/√5, 2/√5 and 1/√5.
    tokens = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert intra_sentence_similarity(tokens) == pytest.approx(5 / 5**0.5 / 3)


def test_explained_variance_by_hand():
    # Singular values 2 and 1.
    assert explained_variance(np.array([[2.0, 0.0], [0.0, 1.0]])) == pytest.approx(4 / 5)
    # About their mean (2, 1) they are (-1, 0), (1, 0), (0, 3), (0, -3): squares 2 and 18.
    uses = np.array([[1.0, 1.0], [3.0, 1.0], [2.0, 4.0], [2.0, -2.0]])
    assert explained_variance(uses, centred=True) == pytest.approx(18 / 20)


def test_equal_uses_are_explained_wholly():
    uses = np.full((4, 3), 0.1, dtype="f4")
    assert explained_variance(uses) == pytest.approx(1)
    assert explained_variance(uses, centred=True) == 1.0


# ---- by brute force -----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "dim"), [(2, 5), (7, 3), (6, 40)])
def test_measures_agree_with_every_pair_and_a_singular_value_decomposition(n, dim):
    vectors = np.random.default_rng(n).normal(size=(n, dim)) + 0.3
    pairs = [cosine(a, b) for a, b in combinations(vectors, 2)]
    assert self_similarity(vectors) == pytest.approx(np.mean(pairs), abs=1e-12)
    mean = vectors.mean(axis=0)
    within = np.mean([cosine(vector, mean) for vector in vectors])
    assert intra_sentence_similarity(vectors) == pytest.approx(within, abs=1e-12)
    for centred in (False, True):
        values = np.linalg.svd(vectors - mean * centred, compute_uv=False)
        share = values[0] ** 2 / (values**2).sum()
        assert explained_variance(vectors, centred=centred) == pytest.approx(share, abs=1e-12)


def test_a_text_agrees_with_every_pair_of_its_uses():
    text = random_text()
    encoder, layers = hashed(), Layers.read("all", 2)
    config = ContextualityConfig(min_sentences=3, max_words=None, max_uses=99, n_random=99)
    sample = sample_uses(text, config)
    found = contextuality(encoder, sample, layers)
    different = list(dict.fromkeys(map(tuple, text)))
    assert [w.word for w in found.words] == sorted(set(FORMS) - {","})
    vectors = [np.concatenate([v, v.mean(axis=0)[None]]) for v in hashed().encode_layers(different)]
    for k, of_layer in enumerate(found.layers):
        similarities, shares = {}, {}
        for form in set(FORMS) - {","}:
            uses = [
                v[k, s.index(form)] for s, v in zip(different, vectors, strict=True) if form in s
            ]
            similarities[form] = np.mean([cosine(a, b) for a, b in combinations(uses, 2)])
            values = np.linalg.svd(np.stack(uses), compute_uv=False)
            shares[form] = values[0] ** 2 / (values**2).sum()
        for word in found.words:
            assert word.self_similarity[k] == pytest.approx(similarities[word.word], abs=1e-5)
            assert word.explained[k] == pytest.approx(shares[word.word], abs=1e-5)
        assert of_layer.self_similarity == pytest.approx(
            np.mean(list(similarities.values())), abs=1e-5
        )
        random = [vectors[i][k, place] for i, place in sample.random.items()]
        assert len(random) == len(different)
        pairs = [cosine(a, b) for a, b in combinations(random, 2)]
        assert of_layer.anisotropy == pytest.approx(np.mean(pairs), abs=1e-5)
        within = [np.mean([cosine(t, v[k].mean(axis=0)) for t in v[k]]) for v in vectors]
        assert of_layer.intra_sentence == pytest.approx(np.mean(within), abs=1e-5)
        assert of_layer.adjusted_self_similarity == pytest.approx(
            of_layer.self_similarity - of_layer.anisotropy
        )
        assert of_layer.adjusted_intra_sentence == pytest.approx(
            of_layer.intra_sentence - of_layer.anisotropy
        )
        assert of_layer.adjusted_explained == pytest.approx(
            of_layer.explained - of_layer.explained_random
        )


# ---- what is read -------------------------------------------------------------------------------


def test_static_vectors_never_change_with_the_sentence():
    encoder = hashed(contextual=False)
    sample = sample_uses(random_text(), ContextualityConfig(min_sentences=3))
    found = contextuality(encoder, sample, Layers.read("0", 2))
    (layer,) = found.layers
    assert layer.self_similarity == pytest.approx(1) and layer.explained == pytest.approx(1)
    assert layer.anisotropy < 0.9


def test_a_seed_draws_the_same_and_never_more_than_asked():
    text = random_text(200)
    config = ContextualityConfig(min_sentences=3, max_words=3, max_uses=4, n_random=5, seed=1)
    sample = sample_uses(text, config)
    assert sample == sample_uses(text, config)
    assert len(sample.uses) == 3 and len(sample.random) == 5
    assert all(len(uses) == 4 for uses in sample.uses.values())
    for word, uses in sample.uses.items():
        assert len({i for i, _ in uses}) == 4
        assert all(sample.texts[i][place] == word for i, place in uses)
    others = [sample_uses(text, ContextualityConfig(3, 3, 4, 5, seed=seed)) for seed in range(2, 6)]
    assert any(other.random != sample.random for other in others)
    encoder = hashed()
    contextuality(encoder, sample, Layers.read("all", 2))
    assert len(encoder.read) == len(sample.needed) <= 3 * 4 + 5


def test_repeated_sentences_and_repeats_within_one_are_one_context():
    text = [["a", "rose", "is", "a", "rose"], ["a", "rose"], ["a", "rose"], ["no", "rose"]]
    sample = sample_uses(text, ContextualityConfig(min_sentences=2))
    assert list(sample.texts) == [tuple(text[0]), tuple(text[1]), tuple(text[3])]
    assert sample.uses == {"a": [(0, 0), (1, 0)], "rose": [(0, 1), (1, 1), (2, 1)]}


def test_words_that_change_most_come_first_and_ties_in_the_order_of_the_alphabet():
    def vector(tokens, place):
        if tokens[place] == "still":
            return np.array([[1.0, 0.0]])
        if tokens[place] == "calm":
            return np.array([[2.0, 0.0]])
        return np.array([[1.0, 0.0] if len(tokens) % 2 else [0.0, 1.0]])

    text = [["still", "bank", "calm"], ["still", "bank", "calm", "x"], ["bank", "y"]]
    sample = sample_uses(text, ContextualityConfig(min_sentences=2))
    found = contextuality(TableEncoder(vector, 1, 2), sample, Layers.read("0", 1))
    assert [word.word for word, _ in found.ranked()] == ["bank", "calm", "still"]
    anisotropy = found.layers[0].anisotropy
    assert found.ranked()[-1][1] == pytest.approx(1 - anisotropy)


def test_words_without_a_vector_are_told_and_count_nowhere():
    encoder = static({"river": [1.0, 0.0], "bank": [0.0, 1.0]})
    text = [["river", "bank", "qux"], ["bank", "river", "qux", "x"], ["bank", "river", "y"]]
    sample = sample_uses(text, ContextualityConfig(min_sentences=2))
    found = contextuality(encoder, sample, Layers.read("all", 1))
    assert found.unknown == ["qux"]
    assert [word.word for word in found.words] == ["bank", "river"]
    assert found.layers[0].intra_sentence == pytest.approx(0.5**0.5)


# ---- refused ------------------------------------------------------------------------------------


def test_a_word_that_never_occurs_names_the_nearest_forms():
    with pytest.raises(ValueError, match=re.escape('"rivr" never occurs in the text; the nearest')):
        sample_uses(random_text(), words=["bank", "rivr"])
    with pytest.raises(ValueError, match=re.escape('"zzz" never occurs in the text')):
        sample_uses(random_text(), words=["zzz"])
    with pytest.raises(ValueError, match='"a" occurs in 1 sentence, but at least 2'):
        sample_uses([["a", "b"], ["b"]], words=["a"])


def test_too_little_is_refused():
    with pytest.raises(ValueError, match="no word occurs in 5 different sentences"):
        sample_uses([["a"], ["b"]])
    with pytest.raises(ValueError, match="the text has 1 sentence"):
        sample_uses([["a"], ["a"], []])
    with pytest.raises(ValueError, match="max_uses is 1, but at least 2"):
        ContextualityConfig(max_uses=1)
    with pytest.raises(ValueError, match="1 use of a word"):
        self_similarity(np.ones((1, 3)))
    sample = sample_uses([["a", "b"], ["a", "c"]], ContextualityConfig(min_sentences=2))
    with pytest.raises(ValueError, match="has vectors for hardly any word"):
        contextuality(static({"q": [1.0, 2.0]}), sample, Layers.read("all", 1))
