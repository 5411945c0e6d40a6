import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.coref.clusters import cluster_numbers, clusters_of_antecedents

SPANS = [(0, 1), (2, 4), (2, 3), (5, 6), (7, 9)]


def test_antecedents_are_followed_to_the_first_mention():
    assert clusters_of_antecedents(SPANS, [-1, 0, -1, 1, 2]) == (
        ((0, 1), (2, 4), (5, 6)),
        ((2, 3), (7, 9)),
    )


def test_a_span_that_follows_none_and_none_follows_is_no_mention_unless_it_is_said_to_be():
    assert clusters_of_antecedents(SPANS, [-1, -1, 1, -1, -1]) == (((2, 3), (2, 4)),)
    said = [True, False, False, False, True]
    with_some = clusters_of_antecedents(SPANS, [-1, -1, 1, -1, -1], singletons=said)
    assert with_some == (((0, 1),), ((2, 3), (2, 4)), ((7, 9),))


@pytest.mark.parametrize("antecedents", [[0], [-1, 1], [-1, 2, -1], [-2]])
def test_an_antecedent_that_is_not_before_its_span_is_refused(antecedents):
    with pytest.raises(ValueError, match="but expected one before it, or -1 for none"):
        clusters_of_antecedents(SPANS, antecedents)


def test_spans_are_numbered_by_their_clusters_from_one():
    clusters = [[(2, 4), (5, 6)], [(7, 9), (2, 4)]]
    assert cluster_numbers(SPANS, clusters) == [0, 1, 0, 1, 2]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_clusters_can_be_read_back_from_the_nearest_antecedents(numbers):
    spans = [(i, i + 1) for i in range(len(numbers))]
    antecedents = [
        max((j for j in range(i) if numbers[j] == n), default=-1) for i, n in enumerate(numbers)
    ]
    every = [True] * len(spans)
    clusters = clusters_of_antecedents(spans, antecedents, singletons=every)
    found = cluster_numbers(spans, clusters)
    assert [[a == b for b in found] for a in found] == [[a == b for b in numbers] for a in numbers]
