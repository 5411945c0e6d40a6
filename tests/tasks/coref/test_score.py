from fractions import Fraction as F
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.coref.score import b_cubed, ceaf_e, count, mentions, muc, score


def clusters(text):
    """`bcx de` → [[b, c, x], [d, e]], each letter a mention."""
    return [[(ord(letter), ord(letter) + 1) for letter in word] for word in text.split()]


ABC = "a bc def"
# Cases of the reference scorer's own test suite, by its names: recall and precision.
MUC = [
    ("A-1", ABC, ABC, F(1), F(1)),
    ("A-2", ABC, "a de", F(1, 3), F(1)),
    ("A-3", ABC, "a bcx defy z", F(1), F(3, 5)),
    ("A-4", ABC, "a bcx dy z", F(1, 3), F(1, 3)),
    ("A-5", ABC, "a bcxB dy z", F(1, 3), F(1, 4)),
    ("A-6", ABC, "a bcx dy Bz", F(1, 3), F(1, 4)),
    ("A-10", ABC, "a b c d e f", F(0), F(0)),
    ("A-11", ABC, "abcdef", F(1), F(3, 5)),
    ("A-12", ABC, "a x y c d e z", F(0), F(0)),
    ("A-13", ABC, "axycdez", F(1, 3), F(1, 6)),
    ("D-1", "12345 67 89ABC", "12345 6789ABC", F(1), F(9, 10)),
    ("E-1", "12345 67 89ABC", "1234589ABC 67", F(1), F(9, 10)),
    ("F-1", "ABCD", "AB CD", F(2, 3), F(1)),
    ("G-1", "AB CD", "ABCD", F(1), F(2, 3)),
    ("J-1", "ABC", "AC", F(1, 2), F(1)),
    ("K-1", "BCDEGHJ", "ABC DEF GHI", F(3, 6), F(3, 6)),
    ("L-1", "ABC DEFG", "AB CD FGH", F(2, 5), F(2, 4)),
    ("M-2", "abcdef", "a b c d e f", F(0), F(0)),
    ("N-1", "a b c d e f", "a b c d e f", F(0), F(0)),
]
B_CUBED = [
    ("A-1", ABC, ABC, F(1), F(1)),
    ("A-2", ABC, "a de", F(7, 18), F(1)),
    ("A-3", ABC, "a bcx defy z", F(1), F(55, 108)),
    ("A-4", ABC, "a bcx dy z", F(5, 9), F(17, 42)),
    ("A-5", ABC, "a bcxB dy z", F(5, 9), F(5, 16)),
    ("A-6", ABC, "a bcx dy Bz", F(5, 9), F(17, 48)),
    ("A-10", ABC, "a b c d e f", F(1, 2), F(1)),
    ("A-11", ABC, "abcdef", F(1), F(7, 18)),
    ("A-12", ABC, "a x y c d e z", F(13, 36), F(4, 7)),
    ("A-13", ABC, "axycdez", F(17, 36), F(6, 49)),
    ("D-1", "12345 67 89ABC", "12345 6789ABC", F(1), F(16, 21)),
    ("E-1", "12345 67 89ABC", "1234589ABC 67", F(1), F(7, 12)),
    ("N-1", "a b c d e f", "a b c d e f", F(1), F(1)),
]
CEAF_E = [
    ("A-1", ABC, ABC, F(1), F(1)),
    ("A-2", ABC, "a de", F(3, 5), F(9, 10)),
    ("A-3", ABC, "a bcx defy z", F(93, 105), F(93, 140)),
    ("A-4", ABC, "a bcx dy z", F(11, 15), F(11, 20)),
    ("A-5", ABC, "a bcxB dy z", F(31, 45), F(31, 60)),
    ("A-6", ABC, "a bcx dy Bz", F(11, 15), F(11, 20)),
    ("M-1", "abcdef", "abcdef", F(1), F(1)),
]


@pytest.mark.parametrize(
    "measure, key, response, recall, precision",
    [
        pytest.param(measure, *case, id=f"{measure.__name__} {name}")
        for measure, cases in ((muc, MUC), (b_cubed, B_CUBED), (ceaf_e, CEAF_E))
        for name, *case in cases
    ],
)
def test_published_cases_score_as_published(measure, key, response, recall, precision):
    found = measure(clusters(key), clusters(response))
    assert found.recall == pytest.approx(float(100 * recall))
    assert found.precision == pytest.approx(float(100 * precision))


@pytest.mark.parametrize("response", ["a bcxb dy z", "a bcx dy bz", "a bcx dy bbbbbbbbbbz"])
def test_a_mention_that_the_response_repeats_counts_once(response):
    assert count(clusters(ABC), clusters(response)) == count(clusters(ABC), clusters("a bcx dy z"))


def test_a_repeated_mention_that_is_not_in_the_key_counts_each_time():
    found = count(clusters("ab"), clusters("abx xy"))
    assert found["muc"] == (1, 1, 1, 3)
    assert found["b_cubed"] == pytest.approx((2, 2, 4 / 3, 5))
    assert found["mentions"] == (2, 2, 2, 4)


def test_a_mention_that_the_key_has_twice_counts_twice():
    found = count(clusters("ab bc"), clusters("abc"))
    assert found["muc"] == (1, 2, 1, 2)
    # Both of a and c share two mentions of their cluster with the response, so does b.
    assert found["b_cubed"] == pytest.approx((6 / 2, 4, 6 / 3, 3))
    assert found["ceaf_e"] == pytest.approx((4 / 5, 2, 4 / 5, 1))


def test_the_conll_score_is_the_mean_of_three_over_summed_documents():
    keys = [clusters(ABC), clusters("ab cd"), []]
    responses = [clusters("a de"), clusters("abcd"), clusters("xy")]
    found = score(keys, responses)
    # MUC: 1 + 2 of 3 + 2 links recalled, 3 of 1 + 3 + 1 right.
    assert found["muc_recall"] == pytest.approx(60) and found["muc_precision"] == pytest.approx(60)
    assert found["b_cubed_recall"] == pytest.approx(100 * (7 / 3 + 4) / 10)
    assert found["b_cubed_precision"] == pytest.approx(100 * (3 + 2) / 9)
    assert found["ceaf_e_recall"] == pytest.approx(100 * (9 / 5 + 2 / 3) / 5)
    assert found["ceaf_e_precision"] == pytest.approx(100 * (9 / 5 + 2 / 3) / 4)
    assert found["mentions_recall"] == pytest.approx(100 * 7 / 10)
    assert found["conll_f1"] == pytest.approx(
        (found["muc_f1"] + found["b_cubed_f1"] + found["ceaf_e_f1"]) / 3
    )


def test_nothing_found_and_nothing_to_be_found_score_zero():
    for keys, responses in ([[]], [[]]), ([clusters("ab")], [[]]), ([[]], [clusters("ab")]):
        assert set(score(keys, responses).values()) == {0.0}


def test_the_order_of_clusters_and_mentions_changes_nothing():
    expected = count(clusters(ABC), clusters("a bcx dy z"))
    for measure, counts in count(clusters("fde bc a"), clusters("z yd xcb a")).items():
        assert counts == pytest.approx(expected[measure])


partitions = st.lists(st.integers(0, 4), min_size=10, max_size=10).map(
    lambda places: [
        cluster
        for n in range(1, 5)
        if (cluster := [(i, i + 2) for i, place in enumerate(places) if place == n])
    ]
)


def holder(partition, span):
    return next((set(cluster) for cluster in partition if span in cluster), set())


@given(partitions, partitions)
def test_scores_are_those_of_the_definitions(key, response):
    def links_kept(ours, theirs):
        """Links less the parts into which the others tear each cluster, and one."""
        kept = 0
        for cluster in ours:
            parts = {frozenset(holder(theirs, span)) or span for span in cluster}
            kept += len(cluster) - len(parts)
        return kept

    def shares(ours, theirs):
        return sum(
            len(set(cluster) & holder(theirs, span)) / len(cluster)
            for cluster in ours
            for span in cluster
        )

    def similarity(a, b):
        return 2 * len(set(a) & set(b)) / (len(a) + len(b))

    shorter, longer = sorted((key, response), key=len)
    best = max(
        sum(similarity(a, b) for a, b in zip(shorter, chosen, strict=True))
        for chosen in permutations(longer, len(shorter))
    )
    both = sum(bool(holder(response, span)) for cluster in key for span in cluster)
    n_key, n_response = sum(map(len, key)), sum(map(len, response))
    assert muc(key, response) == (
        links_kept(key, response),
        n_key - len(key),
        links_kept(response, key),
        n_response - len(response),
    )
    assert b_cubed(key, response) == pytest.approx(
        (shares(key, response), n_key, shares(response, key), n_response)
    )
    assert ceaf_e(key, response) == pytest.approx((best, len(key), best, len(response)))
    assert mentions(key, response) == (both, n_key, both, n_response)
