import gzip
import json
import re

import numpy as np
import pytest
from tests.probes.table_encoder import TableEncoder, hashed

from elmo.probes.layers import Layers
from elmo.probes.word_in_context import (
    MOST_FREQUENT,
    NONE_SAME,
    best_threshold,
    macro_f1,
    nearest_mean,
    nearest_use,
    pair_cosines,
    score_pairs,
    score_senses,
    use_vectors,
)
from elmo.probes.word_in_context_data import (
    Pair,
    SenseUse,
    Use,
    read_pairs,
    read_sense_uses,
)

# ---- by hand ------------------------------------------------------------------------------------


def test_a_threshold_by_hand():
    cosines = np.array([0.9, 0.2, 0.6, 0.4])
    same = np.array([True, False, False, True])
    # From 0.3 on: 0.9 and 0.4 rightly, 0.6 wrongly; the same three from 0.75 on.
    assert best_threshold(cosines, same) == (pytest.approx(0.3), 3)
    assert best_threshold(np.array([0.1, 0.9]), np.array([True, False])) == (-1.0, 1)
    assert best_threshold(np.array([0.5, 0.5, 0.5]), np.array([True, False, False])) == (
        NONE_SAME,
        2,
    )


def test_nearest_use_and_nearest_mean_differ_by_hand():
    train = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    senses = ["a", "b", "a"]
    # Cosines with the uses: 0.5, 0.87, 0.99; the mean of a is (0.8, 0.4).
    test = np.array([[0.5, 0.866]])
    assert nearest_use(train, senses, test) == ["a"]
    assert nearest_mean(train, senses, test) == ["b"]
    same = np.ones((2, 2))
    assert nearest_use(same, ["b", "a"], same[:1]) == ["b"]


def test_scores_by_hand():
    assert macro_f1(["a", "a", "b"], ["a", "b", "b"]) == pytest.approx(100 * 2 / 3)
    assert macro_f1(["a", "a"], ["a", "b"]) == pytest.approx(100 * (2 / 3 + 0) / 2)


# ---- by brute force -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_no_threshold_is_better(seed):
    rng = np.random.default_rng(seed)
    cosines = rng.integers(-3, 4, size=12) / 3
    same = rng.random(12) < 0.5
    same[:2] = True, False
    found = best_threshold(cosines, same)
    rights = [int(((cosines >= t) == same).sum()) for t in np.arange(-1.5, 2.5, 0.01)]
    assert found.n_right == max(rights)
    assert ((cosines >= found.value) == same).sum() == found.n_right


def test_answers_agree_with_one_comparison_after_another():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(9, 4)), rng.normal(size=(5, 4))
    senses = [str(k) for k in rng.integers(3, size=9)]

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    means = {
        s: np.mean([v for v, of in zip(train, senses, strict=True) if of == s], axis=0)
        for s in senses
    }
    for vector, use, mean in zip(
        test, nearest_use(train, senses, test), nearest_mean(train, senses, test), strict=True
    ):
        assert use == senses[max(range(9), key=lambda i: cosine(vector, train[i]))]
        assert mean == max(means, key=lambda s: cosine(vector, means[s]))
    found = pair_cosines(train[None, :4], test[None, :4])
    wanted = [cosine(a, b) for a, b in zip(train[:4], test[:4], strict=True)]
    np.testing.assert_allclose(found, [wanted], atol=1e-5)


# ---- probes -------------------------------------------------------------------------------------


def by_neighbour(tokens, place):
    """Layer 0 knows the token alone, layer 1 what stands before it."""
    before = tokens[place - 1] if place else ""
    return np.array(
        [[1.0, 2.0], {"river": [1.0, 0.0], "money": [0.0, 1.0]}.get(before, [1.0, 1.0])]
    )


def use(before):
    return Use(["the", before, "bank"], (2,))


PAIRS = [
    Pair("bank", (use("river"), use("river")), True),
    Pair("bank", (use("river"), use("money")), False),
    Pair("bank", (use("money"), use("money")), True),
]


def test_pairs_are_told_where_context_is_known():
    encoder, layers = TableEncoder(by_neighbour, 2, 2), Layers.read("0,1", 2)
    without, within = score_pairs(encoder, PAIRS, PAIRS[:2], layers)
    assert (without.layer, within.layer) == (0, 1)
    assert without.threshold == -1.0 and without.accuracy == pytest.approx(50)
    assert without.tuned == pytest.approx(200 / 3)
    assert within.threshold == pytest.approx(0.5) and within.accuracy == within.tuned == 100
    assert within.interval == pytest.approx((34.2, 100), abs=0.1)


def test_senses_are_told_where_context_is_known():
    encoder, layers = TableEncoder(by_neighbour, 2, 2), Layers.read("all", 2)
    train = [SenseUse("bank", use("river"), "r")] * 2 + [SenseUse("bank", use("money"), "m")]
    test = [SenseUse("bank", use("river"), "r"), SenseUse("bank", use("money"), "m")]
    scores = {(s.layer, s.way): s for s in score_senses(encoder, train, test, layers)}
    assert scores[0, "nearest use"].accuracy == 50  # all alike: the first counts
    assert scores[1, "nearest use"].accuracy == scores[1, "nearest mean"].accuracy == 100
    assert scores[None, MOST_FREQUENT].accuracy == 50
    assert scores[None, MOST_FREQUENT].macro_f1 == pytest.approx(100 * (2 / 3) / 2)
    assert scores[1, "nearest mean"].words == {"bank": 100}
    assert (None, "nearest use") in scores  # the mean of layers


def test_a_word_of_several_tokens_is_their_mean():
    encoder, layers = hashed(), Layers.read("all", 2)
    tokens = ["War", "and", "Peace", "sold"]
    (vectors,) = hashed().encode_layers([tokens])
    found = use_vectors(encoder, [Use(tokens, (0, 1, 2))], layers)
    np.testing.assert_allclose(found[:2, 0], vectors[:, :3].mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found[2, 0], vectors[:, :3].mean(axis=(0, 1)), rtol=1e-5)


# ---- files --------------------------------------------------------------------------------------


def write_wic(folder, lines, answers):
    (folder / "dev.data.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "dev.gold.txt").write_text("".join(f"{answer}\n" for answer in answers))
    return folder / "dev.data.txt"


LINE = "board\tN\t2-1\tRoom and board .\tHe boards ."


def test_pairs_are_read_with_their_answers(tmp_path):
    (pair,) = read_pairs(write_wic(tmp_path, [LINE], ["F"]))
    assert pair.word == "board" and pair.same is False
    assert [u.tokens[u.places[0]] for u in pair.uses] == ["board", "boards"]


@pytest.mark.parametrize(
    ("lines", "answers", "said"),
    [
        ([LINE, LINE], ["F"], "has 2 pairs, but"),
        ([LINE], ["yes"], "line 1: is 'yes', but expected T or F"),
        (["board\tN\t2-1\tRoom"], ["T"], "line 1: has 4 fields, but expected 5"),
        ([LINE.replace("2-1", "2")], ["T"], "the places are '2', but expected two numbers"),
        ([LINE.replace("2-1", "9-1")], ["T"], "token 9 is meant, but the sentence has 4"),
    ],
)
def test_bad_pairs_are_refused_by_their_line(tmp_path, lines, answers, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_pairs(write_wic(tmp_path, lines, answers))


def test_a_name_without_data_is_refused(tmp_path):
    with pytest.raises(ValueError, match=re.escape("NAME.data.txt")):
        read_pairs(tmp_path / "dev.txt")


RECORD = {"word": "bank", "index": 1, "tokens": ["the", "bank"], "label": 0, "sense": "bank_river"}


def test_sense_uses_are_read_from_json_lines(tmp_path):
    with gzip.open(tmp_path / "t.jsonl.gz", "wt") as file:
        file.write(json.dumps(RECORD) + "\n")
    assert read_sense_uses(tmp_path / "t.jsonl.gz") == [
        SenseUse("bank", Use(["the", "bank"], (1,)), "bank_river")
    ]
    (tmp_path / "bad.jsonl").write_text(json.dumps(RECORD | {"index": 2}) + "\n")
    with pytest.raises(ValueError, match="line 1: token 2 is meant, but the sentence has 2"):
        read_sense_uses(tmp_path / "bad.jsonl")
    (tmp_path / "bad.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="holds no use of a word"):
        read_sense_uses(tmp_path / "bad.jsonl")


def test_labels_of_one_class_are_refused():
    encoder, layers = hashed(), Layers.read("all", 2)
    with pytest.raises(ValueError, match="all 2 pairs are same: to choose a threshold"):
        score_pairs(encoder, [PAIRS[0], PAIRS[2]], PAIRS, layers)
    one = [SenseUse("bank", use("river"), "r")] * 3
    with pytest.raises(ValueError, match='"bank" has 1 senses among the 3 uses to learn from'):
        score_senses(encoder, one, one, layers)
    assert not encoder.read  # before anything is read


@pytest.mark.parametrize("part", ["train", "dev"])
def test_the_real_pairs_are_all_read(shared, part):
    path = shared / "datasets" / "wic" / "wic" / f"{part}.data.txt"
    if not path.exists():
        pytest.skip(f"needs {path}")
    pairs = read_pairs(path)
    assert sum(pair.same for pair in pairs) * 2 == len(pairs) == {"train": 5428, "dev": 638}[part]
