import re

import numpy as np
import pytest
from tests.probes.table_encoder import TableEncoder, hashed, static

from elmo.probes.contextual_similarity import read_rated_uses, score_rated_uses
from elmo.probes.correlation import correlate
from elmo.probes.layers import Layers, unit
from elmo.probes.similarity import (
    Question,
    RatedPair,
    read_questions,
    read_rated_pairs,
    score_analogies,
    score_pairs,
    three_cos_add,
    vocabulary_of,
)
from elmo.text import Tokenizer

# ---- correlation --------------------------------------------------------------------------------


def test_a_correlation_by_hand():
    # Ranks 1 2 3 4 and 2 1 4 3: the sum of squared differences is 4, so ρ = 1 - 6·4 / (4·15).
    found = correlate([0.1, 0.2, 0.3, 0.9], [20.0, 10.0, 40.0, 30.0])
    assert found.rho == pytest.approx(0.6) and found.n == 4
    # Bonett and Wright: tanh(atanh 0.6 ± 1.96 · √(1.18 / 1)).
    assert found.interval == pytest.approx((-0.8944, 0.9926), abs=2e-3)
    # Ties share the mean of their ranks: 1.5 1.5 3 and 1 2 3.
    assert correlate([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]).rho == pytest.approx(0.75**0.5)


@pytest.mark.parametrize("seed", range(4))
def test_correlations_agree_with_scipy(seed):
    from scipy.stats import spearmanr

    rng = np.random.default_rng(seed)
    first, second = rng.integers(5, size=30), rng.normal(size=30)
    assert correlate(first, second).rho == pytest.approx(spearmanr(first, second).statistic)


def test_what_is_the_same_everywhere_correlates_with_nothing():
    assert correlate([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == (None, 3, None)
    assert correlate([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]) == (1, 4, None)
    with pytest.raises(ValueError, match="2 values were given for 1"):
        correlate([1.0, 2.0], [1.0])


# ---- word pairs ---------------------------------------------------------------------------------

SQUARE = {"a": [1.0, 0.0], "b": [1.0, 0.1], "c": [1.0, 1.0], "d": [0.0, 2.0]}


def test_pairs_of_words_by_hand():
    # Cosines with a fall from b to c to d; ratings swap c and d: ρ = 1 - 6·2 / (3·8).
    pairs = [RatedPair("a", "b", 9.0), RatedPair("a", "c", 1.0), RatedPair("A", "d", 2.0)]
    pairs.append(RatedPair("a", "never-seen", 5.0))
    (found,) = score_pairs(static(SQUARE), pairs, Layers.read("all", 1))
    assert found.correlation.rho == pytest.approx(0.5)
    assert (found.correlation.n, found.n_pairs) == (3, 4)


def test_any_encoder_reads_a_word_as_a_sentence():
    encoder = hashed()
    pairs = [RatedPair("a", "b", 1.0), RatedPair("b", "c", 2.0), RatedPair("a", "c", 3.0)]
    found = score_pairs(encoder, pairs, Layers.read("all", 2))
    assert [of.layer for of in found] == [0, 1, None]
    assert encoder.read == [("a",), ("b",), ("c",)]


def test_pairs_are_read_and_bad_lines_refused(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("Jerusalem\tIsrael\t8.46\n\ntiger\tcat\t7\n")
    assert read_rated_pairs(path) == [("Jerusalem", "Israel", 8.46), ("tiger", "cat", 7.0)]
    for line in ("tiger\tcat", "tiger\tcat\tmuch", "a\tb\t1\t2"):
        path.write_text(f"a\tb\t1\n{line}\n")
        with pytest.raises(ValueError, match=r"line 2: is .* but expected two words and a number"):
            read_rated_pairs(path)
    path.write_text("")
    with pytest.raises(ValueError, match="holds no pair"):
        read_rated_pairs(path)
    with pytest.raises(ValueError, match="has vectors for both words of 0 of 1 pairs"):
        score_pairs(static(SQUARE), [RatedPair("x", "y", 1.0)], Layers.read("all", 1))


# ---- analogies ----------------------------------------------------------------------------------

KINGS = {
    "man": [1.0, 0.0, 0.0],
    "woman": [1.0, 1.0, 0.0],
    "king": [1.0, 0.0, 1.0],
    "queen": [1.0, 1.0, 1.0],
    "apple": [-1.0, 0.0, 0.0],
}


def test_an_analogy_by_hand():
    questions = [
        Question("family", ("man", "woman", "king", "queen")),
        Question("family", ("Man", "Woman", "King", "Queen")),  # known in lower case
        Question("family", ("man", "woman", "king", "apple")),  # a wrong answer
        Question("family", ("man", "woman", "king", "empress")),  # not known
        Question("gram1-x", ("man", "king", "woman", "queen")),
    ]
    scores = score_analogies(static(KINGS), questions, list(KINGS), Layers.read("all", 1))
    told = {of.section: (of.n_right, of.n_asked, of.n_questions) for of in scores}
    assert told == {
        "family": (2, 3, 4),
        "gram1-x": (1, 1, 1),
        "semantic": (2, 3, 4),
        "syntactic": (1, 1, 1),
        "all": (3, 4, 5),
    }
    assert {of.section: of.accuracy for of in scores}["all"] == 75


def test_analogies_agree_with_one_comparison_after_another():
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(30, 5)))
    vectors[7] = 0  # not known
    asked = np.stack([rng.choice(np.delete(np.arange(30), 7), 3, replace=False) for _ in range(40)])
    for (a, b, c), answer in zip(asked, three_cos_add(vectors, asked), strict=True):
        towards = vectors[b] - vectors[a] + vectors[c]
        others = [i for i in range(30) if i not in (a, b, c, 7)]
        cosines = {i: vectors[i] @ towards / np.linalg.norm(towards) for i in others}
        assert answer == max(cosines, key=cosines.get)


def test_the_words_of_a_question_are_no_answers():
    # Without that, c itself would be nearest.
    vectors = unit(np.array([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [-1.0, 0.0]]))
    assert three_cos_add(vectors, np.array([[0, 1, 2]])).tolist() == [3]


def test_questions_are_read_by_section(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(": family\nboy girl man woman\n: gram1-x\na b c d\n")
    assert [(q.section, q.words[3]) for q in read_questions(path)] == [
        ("family", "woman"),
        ("gram1-x", "d"),
    ]
    path.write_text(": family\nboy girl man\n")
    with pytest.raises(ValueError, match="line 2: has 3 words, but expected 4"):
        read_questions(path)
    path.write_text(": family\n")
    with pytest.raises(ValueError, match="holds no question"):
        read_questions(path)


def test_what_cannot_be_asked_is_refused():
    assert vocabulary_of(static(KINGS), 2) == ["man", "woman"]
    with pytest.raises(ValueError, match="table has a vector for any word: say among which"):
        vocabulary_of(hashed())
    with pytest.raises(ValueError, match="none of the 1 questions has all its words among the 5"):
        score_analogies(
            static(KINGS), [Question("", ("q",) * 4)], list(KINGS), Layers.read("all", 1)
        )


# ---- rated uses ---------------------------------------------------------------------------------

HEADER = "pair\ttarget\tsample\tsentence1\tindex1\tsentence2\tindex2\tmean\tstdev\tratings"
ROWS = [
    "1\tbank\tx\tWe saw the bank.\t3\tThe bank, closed.\t1\t90.5\t1\t20",
    "2\tbank\tx\tWe saw the bank.\t3\tThat bank paid me.\t1\t10\t1\t20",
    "3\tbank\tx\tMy bank paid me.\t1\tThat bank paid me.\t1\t80\t1\t20",
    "4\tFiller\tx\tHe read War and Peace.\t2,3,4\tThat War ended.\t1\t5\t1\t20",
]


@pytest.fixture
def rated(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def test_rated_uses_are_found_without_their_punctuation(rated):
    pairs = read_rated_uses(rated, Tokenizer("en"))
    words = [[use.tokens[place] for use in pair.uses for place in use.places] for pair in pairs]
    assert words == [["bank", "bank"]] * 3 + [["War", "and", "Peace", "War"]]
    assert pairs[0].uses[0].tokens == ["We", "saw", "the", "bank", "."]
    assert [pair.rating for pair in pairs] == [90.5, 10, 80, 5]


def test_ratings_correlate_with_cosines_that_follow_them(rated):
    def vector(tokens, place):
        paid = {"That": [0.0, 1.0], "My": [0.2, 1.0]}.get(tokens[0], [1.0, 0.1])
        return np.array([[1.0, 3.0], paid])

    pairs = read_rated_uses(rated, Tokenizer("en"))
    encoder = TableEncoder(vector, 2, 2)
    found = {
        (of.pairs, of.layer): of.correlation
        for of in score_rated_uses(encoder, pairs, Layers.read("0,1", 2))
    }
    assert found["all pairs", 0].rho is None  # the same word everywhere
    # Cosines fall from the first to the third to the second pair, as ratings do.
    assert found["without controls", 1] == (pytest.approx(1), 3, None)
    assert found["bank", 1].n == 3 and found["all pairs", 1].n == 4
    assert ("Filler", 1) not in found  # one pair orders nothing


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sentence2\t", "", "has no column sentence2"),
        ("90.5", "high", "line 2: the mean rating 'high' is no number"),
        ("\t3\tThe", "\t9\tThe", "line 2: the index is 9, but the sentence has 4 words"),
        ("2,3,4", "2-4", "line 5: the index is '2-4', but expected a number"),
        ("\t1\t20\n2", "\t20\n2", "line 2: has 9 fields, but the header 10"),
    ],
)
def test_bad_ratings_are_refused_by_their_line(rated, old, new, said):
    rated.write_text(rated.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=re.escape(said)):
        read_rated_uses(rated, Tokenizer("en"))


def test_the_real_targets_are_all_found(shared):
    path = shared / "datasets" / "similarity" / "polyseme-contextual" / "pairs.tsv"
    if not path.exists():
        pytest.skip(f"needs {path}")
    pairs = read_rated_uses(path, Tokenizer("en"))
    assert len(pairs) == 148
    for pair in pairs:
        for use in pair.uses:
            assert all(use.tokens[place][0].isalnum() for place in use.places[:1])
