from collections import Counter
from math import exp, log

import numpy as np
import pytest
from tests.probes.toy_text import MONEY, RIVER, ToyEncoder, write_text

from elmo.probes.found_usages import in_context, surprisals, usages_in_index, usages_in_text
from elmo.probes.layers import unit
from elmo.probes.senses import cluster_usages
from elmo.probes.usages import Usage, build_index


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt", [*RIVER, "", *MONEY, RIVER[0], "no such word here ."])


def test_usages_are_found_in_text_each_sentence_once(text):
    found = usages_in_text([text], ["BANK"], ToyEncoder(), layer=1, context=0)
    assert found.n_found == len(found.usages) == 9
    assert [u.sentence for u in found.usages] == list(range(9))
    assert all(u.word == "bank" for u in found.usages)
    assert found.counts["bank"] == 10 and found.counts["they"] == 5
    for usage, vector in zip(found.usages, found.vectors, strict=True):
        (layers,) = ToyEncoder().encode_layers([usage.tokens])
        np.testing.assert_array_equal(vector, unit(layers[1, usage.position]))


def test_the_vector_of_a_usage_by_hand():
    """Of 20 tokens 8 are "the", 2 "river" and 2 "bank"; the word itself counts as that once."""
    usage = Usage(0, 2, ["The", "river", "bank", "the", "Bank"])
    vectors = np.array([[2, 0, 0], [0, 3, 0], [0, 0, 1], [2, 0, 0], [0, 0, 5]], dtype="f4")
    told = surprisals(Counter({"the": 8, "river": 2, "bank": 2, "and": 8}))
    the = (exp(-2 / 4) + exp(-1 / 4)) * log(20 / 8)
    river = exp(-1 / 4) * log(20 / 2)
    length = (the**2 + river**2) ** 0.5
    expected = [2 / 3 * the / length, 2 / 3 * river / length, 1 / 3]
    found = in_context(vectors, usage, told, ["bank"], 4)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(in_context(vectors, usage, told, ["bank"], 0), [0, 0, 1])
    alone = in_context(vectors[:1], Usage(0, 0, ["The"]), told, ["the"])
    np.testing.assert_allclose(alone, [1 / 3, 0, 0], rtol=1e-6)


def test_usages_are_divided_by_what_stands_around_them_and_not_by_their_form(tmp_path):
    lines = [
        f"the {form} {rest}"
        for form in ("bank", "Bank", "banks")
        for rest in (
            "by the river where fish swim",
            "of the river with mud and fish",
            "lent money for interest",
            "raised interest on money",
        )
    ]
    path = write_text(tmp_path / "text.txt", lines)
    forms = [line.split()[1] for line in lines]
    rivers = ["river" in line for line in lines]

    def divided(n, context):
        found = usages_in_text([path], ["bank", "banks"], ToyEncoder(), layer=0, context=context)
        return cluster_usages(found.vectors, n_clusters=n).labels.tolist()

    def same(labels, other):
        return len(set(zip(labels, other, strict=True))) == len(set(other))

    assert same(divided(3, 0), forms)
    assert same(divided(2, 8), rivers)


def test_usages_of_text_and_of_its_index_are_the_same(text, tmp_path):
    index = build_index([text], tmp_path / "i", ToyEncoder(), layers=[1, None])
    for settings in ({}, {"layer": None}, {"layer": 1, "context": 0}, {"context": 2.5}):
        of_index = usages_in_index(index, ["bank", "river"], **settings)
        of_text = usages_in_text([text], ["bank", "river"], ToyEncoder(), **settings)
        assert of_index.usages == of_text.usages and of_index.n_found == 13
        assert dict(of_index.counts) == dict(of_text.counts)
        np.testing.assert_allclose(of_index.vectors, of_text.vectors, atol=5e-4)


def test_of_many_usages_so_many_are_drawn_by_the_seed(text):
    draws = [
        usages_in_text([text], ["bank"], ToyEncoder(), max_usages=4, seed=seed) for seed in range(9)
    ]
    assert all(len(of.usages) == 4 and of.n_found == 9 for of in draws)
    assert len({tuple(u.sentence for u in of.usages) for of in draws}) > 3
    again = usages_in_text([text], ["bank"], ToyEncoder(), max_usages=4, seed=3)
    assert again.usages == draws[3].usages


def test_a_word_that_never_occurs_is_refused_with_the_nearest_forms(text, tmp_path):
    with pytest.raises(ValueError, match=r'"bnk" never occurs in text.txt: the nearest .* bank'):
        usages_in_text([text], ["bnk"], ToyEncoder())
    index = build_index([text], tmp_path / "i", ToyEncoder())
    with pytest.raises(ValueError, match=r'"bnk" never occurs .* bank'):
        usages_in_index(index, ["bank", "bnk"])
    with pytest.raises(FileNotFoundError, match=r"no.txt does not exist"):
        usages_in_text([tmp_path / "no.txt"], ["bank"], ToyEncoder())
    with pytest.raises(ValueError, match='"river bank" is not one word'):
        usages_in_text([text], ["river bank"], ToyEncoder())
    with pytest.raises(ValueError, match='"river bank" is not one word'):
        usages_in_index(index, ["river bank"])
    with pytest.raises(ValueError, match="max_usages is 0"):
        usages_in_text([text], ["bank"], ToyEncoder(), max_usages=0)
    with pytest.raises(ValueError, match="there is no layer 7"):
        usages_in_text([text], ["bank"], ToyEncoder(), layer=7)
    for context in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"context is {context}, but 0 or a number of tokens"):
            usages_in_text([text], ["bank"], ToyEncoder(), context=context)
        with pytest.raises(ValueError, match=f"context is {context}"):
            usages_in_index(index, ["bank"], context=context)
