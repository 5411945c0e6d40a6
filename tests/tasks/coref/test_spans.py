"""Spans of sentences, and the best that do not cross."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.coref.data import crossing
from elmo.tasks.coref.spans import best_apart, spans_within

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(lengths=LENGTHS, max_width=st.integers(1, 7))
def test_spans_are_all_of_a_sentence_in_order(lengths, max_width):
    expected, before = [], 0
    for n in lengths:
        expected += [
            (before + start, before + end)
            for start in range(n)
            for end in range(start + 1, min(n, start + max_width) + 1)
        ]
        before += n
    spans = spans_within(lengths, max_width).pairs()
    assert spans == expected == sorted(expected)


@given(
    spans=st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 5)).map(lambda p: (p[0], p[0] + p[1])),
        min_size=1,
        max_size=20,
        unique=True,
    ),
    n=st.integers(1, 20),
    data=st.data(),
)
def test_the_best_are_chosen_one_after_the_other_unless_they_cross(spans, n, data):
    scores = data.draw(
        st.lists(st.integers(-9, 9).map(float), min_size=len(spans), max_size=len(spans))
    )
    chosen: list[int] = []
    for i in sorted(range(len(spans)), key=lambda i: (-scores[i], i)):
        if len(chosen) < n and not crossing([[spans[k] for k in [*chosen, i]]]):
            chosen.append(i)
    assert best_apart(scores, spans, n) == sorted(chosen)


@pytest.mark.parametrize("n, expected", [(1, [1]), (2, [0, 1]), (9, [0, 1, 3])])
def test_a_span_that_crosses_a_better_one_is_passed_over(n, expected):
    spans = [(0, 4), (1, 3), (2, 5), (2, 3)]
    assert best_apart([2.0, 9.0, 3.0, 1.0], spans, n) == expected
