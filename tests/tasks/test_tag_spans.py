import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.tag_spans import (
    TagSpan,
    allowed_transitions,
    are_span_tags,
    readable_by_conlleval,
    rewritten,
    scheme_tags,
    span_tags,
    split_tag,
    tag_spans,
)

LABELS = ("PER", "creative-work", "")
schemes = st.sampled_from(("BIO", "BIOES"))
any_tags = st.lists(st.sampled_from(scheme_tags(LABELS, "BIOES")), max_size=8)


@st.composite
def sentences_with_spans(draw):
    """Spans that do not overlap, some touching, and the length of their sentence."""
    spans, end = [], 0
    for _ in range(draw(st.integers(0, 4))):
        start = end + draw(st.integers(0, 2))
        end = start + draw(st.integers(1, 3))
        spans.append(TagSpan(draw(st.sampled_from(LABELS)), start, end))
    return spans, end + draw(st.integers(0, 2))


@given(sentences_with_spans(), schemes)
def test_spans_come_back_from_their_tags(sentence, scheme):
    spans, n_tokens = sentence
    tags = span_tags(reversed(spans), n_tokens, scheme)
    assert len(tags) == n_tokens
    assert tag_spans(tags) == spans
    assert set(tags) <= set(scheme_tags(LABELS, scheme))


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O B-PER I-PER O", [("PER", 1, 3)]),
        ("I-PER I-PER", [("PER", 0, 2)]),  # IOB1
        ("I-PER B-PER I-PER", [("PER", 0, 1), ("PER", 1, 3)]),  # IOB1: they touch
        ("I-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("B-PER I-LOC I-LOC", [("PER", 0, 1), ("LOC", 1, 3)]),
        ("B-PER O I-PER", [("PER", 0, 1), ("PER", 2, 3)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-creative-work I-creative-work", [("creative-work", 0, 2)]),
        ("B-creative-work I-creative", [("creative-work", 0, 1), ("creative", 1, 2)]),
        ("B I O I B", [("", 0, 2), ("", 3, 4), ("", 4, 5)]),
        ("B-PER I", [("PER", 0, 1), ("", 1, 2)]),
        ("S-PER S-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER I-PER E-PER B-PER E-PER", [("PER", 0, 3), ("PER", 3, 5)]),
        ("E-PER I-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("S-PER I-PER E-LOC", [("PER", 0, 1), ("PER", 1, 2), ("LOC", 2, 3)]),
        ("B-PER", [("PER", 0, 1)]),
        ("O O", []),
        ("", []),
    ],
)
def test_tags_of_any_kind_are_read(tags, spans):
    assert tag_spans(tags.split()) == spans


@pytest.mark.parametrize("tag", ["NOUN", "X-PER", "O-PER", "-PER", "BI-PER", "b-PER", ""])
def test_a_tag_of_no_span_is_refused(tag):
    with pytest.raises(ValueError, match=re.escape(f"tag {tag!r} writes no span")):
        split_tag(tag)
    assert not are_span_tags(["O", tag])


def test_tags_of_spans_are_told_from_parts_of_speech():
    assert are_span_tags(["O", "B-PER", "I", "S-x"])
    assert not are_span_tags(["NOUN", "VERB"])


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([("A", 0, 3), ("B", 2, 4)], "share a token"),  # they cross
        ([("A", 0, 4), ("B", 1, 2)], "share a token"),
        ([("A", 1, 3), ("B", 1, 3)], "share a token"),
        ([("A", 3, 6)], "no span of the 5 tokens"),
        ([("A", 2, 2)], "no span of the 5 tokens"),
        ([("A", -1, 2)], "no span of the 5 tokens"),
    ],
)
def test_spans_that_no_tags_can_write_are_refused(spans, message):
    with pytest.raises(ValueError, match=message):
        span_tags([TagSpan(*span) for span in spans], 5)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match="scheme is 'IOBES', but expected one of BIO, BIOES"):
        scheme_tags(["PER"], "IOBES")


def test_all_tags_of_a_scheme_are_there_whatever_was_seen():
    assert scheme_tags(["PER", "LOC", "PER"], "BIO") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert scheme_tags(["X"], "BIOES") == ["O", "B-X", "I-X", "E-X", "S-X"]


@given(any_tags, schemes)
def test_sequences_are_allowed_exactly_if_rewriting_them_changes_nothing(tags, scheme):
    known = scheme_tags(LABELS, scheme)
    if not set(tags) <= set(known):
        return
    allowed = allowed_transitions(known, scheme)
    ids = [known.index(tag) for tag in tags]
    may = not ids or bool(
        allowed.start[ids[0]]
        and allowed.end[ids[-1]]
        and all(allowed.between[a, b] for a, b in itertools.pairwise(ids))
    )
    assert may == (rewritten(tags, scheme) == tags)


@given(any_tags)
def test_for_conlleval_tags_are_kept_unless_it_does_not_know_them(tags):
    readable = readable_by_conlleval(tags)
    assert tag_spans(readable) == tag_spans(tags)
    assert not any(tag[0] in "ES" for tag in readable)
    if not any(tag[0] in "ES" for tag in tags):
        assert readable == tags
