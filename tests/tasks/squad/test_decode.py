import re

import hypothesis.extra.numpy as npst
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.squad.decode import best_spans, windows

# Few values, so that many spans are equally good.
SCORES = st.integers(-3, 3).map(float)


def by_trying_all(starts, ends, n_tokens, max_tokens):
    spans = [
        (first, last)
        for first in range(n_tokens)
        for last in range(first, min(first + max_tokens, n_tokens))
    ]
    return max(spans, key=lambda span: (starts[span[0]] + ends[span[1]], -span[0], -span[1]))


@given(
    scores=npst.arrays("float32", (2, 3, 7), elements=SCORES),
    lengths=st.lists(st.integers(1, 7), min_size=3, max_size=3),
    max_tokens=st.integers(1, 9),
)
def test_the_best_span_is_that_of_trying_all(scores, lengths, max_tokens):
    starts, ends = torch.from_numpy(scores)
    mask = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)
    best = best_spans(starts, ends, mask, max_tokens=max_tokens)
    for i, n_tokens in enumerate(lengths):
        first, last = by_trying_all(starts[i].tolist(), ends[i].tolist(), n_tokens, max_tokens)
        assert (best.first[i], best.last[i]) == (first, last)
        assert best.score[i] == starts[i, first] + ends[i, last]


def test_what_stands_in_padding_is_never_chosen():
    scores = torch.tensor([[1.0, 2.0, 99.0, float("inf")]])
    mask = torch.tensor([[True, True, False, False]])
    best = best_spans(scores, scores, mask, max_tokens=3)
    assert (best.first.item(), best.last.item(), best.score.item()) == (1, 1, 4.0)


def test_a_paragraph_without_tokens_has_no_best_span():
    scores = torch.zeros(2, 3)
    mask = torch.tensor([[True, False, False], [False, False, False]])
    with pytest.raises(ValueError, match="a paragraph has no token, but an answer is one or more"):
        best_spans(scores, scores, mask, max_tokens=2)
    with pytest.raises(ValueError, match="max_tokens is 0, but an answer has at least 1 token"):
        best_spans(scores, scores, mask, max_tokens=0)


@given(n_tokens=st.integers(1, 40), size=st.integers(1, 12), data=st.data())
def test_every_short_answer_is_whole_in_some_window(n_tokens, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    parts = windows(n_tokens, size=size, overlap=overlap)
    assert all(0 < end - start <= size for start, end in parts)
    assert parts[0][0] == 0 and parts[-1][1] == n_tokens
    for first in range(n_tokens):
        end = min(first + overlap + 1, n_tokens)
        assert any(start <= first and end <= stop for start, stop in parts)


def test_windows_are_no_more_than_needed():
    assert windows(10, size=4, overlap=1) == [(0, 4), (3, 7), (6, 10)]
    assert windows(3, size=4, overlap=1) == [(0, 3)]


def test_windows_that_get_nowhere_are_refused():
    with pytest.raises(ValueError, match=re.escape("windows of 4 tokens overlap by 4")):
        windows(10, size=4, overlap=4)
