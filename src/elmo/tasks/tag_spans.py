"""Spans of tokens with a label, and the tags that write them: one per token.

A tag is a prefix and a label, `B-PER`. Three ways of writing a span are in use: IOB2 (called BIO
here), where `B-` is its first token and `I-` each other; IOB1, where `B-` is left to a span that
touches one before it of its label; BIOES, where besides `E-` is its last token and `S-` its only
one. `O` is a token outside. Whichever it is, and whatever is wrong with it, is read as conlleval
reads it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

OUTSIDE = "O"
PREFIXES = {"BIO": "BI", "BIOES": "BIES"}
SCHEMES = tuple(PREFIXES)


class TagSpan(NamedTuple):
    """Tokens `start` to `end`, the latter not included, and what they are."""

    label: str
    start: int
    end: int


class AllowedTransitions(NamedTuple):
    """Which tag may follow which, `between[before, after]`; which may be first and last."""

    between: Bool[Tensor, "tags tags"]
    start: Bool[Tensor, " tags"]
    end: Bool[Tensor, " tags"]


def split_tag(tag: str) -> tuple[str, str]:
    """Prefix and label of a tag, split at its first hyphen: a label may hold others, or be empty.

    Raises:
        ValueError: If it is no tag of a span.
    """
    prefix, _, label = tag.partition("-")
    if tag != OUTSIDE and prefix not in tuple("BIES"):
        raise ValueError(
            f"tag {tag!r} writes no span: expected {OUTSIDE}, or B, I, E or S with a label, as in "
            "B-PER"
        )
    return prefix, label


def are_span_tags(tags: Iterable[str]) -> bool:
    """Whether all of the tags write spans, and none is a part of speech or the like."""
    try:
        for tag in tags:
            split_tag(tag)
    except ValueError:
        return False
    return True


def tag_spans(tags: Sequence[str]) -> list[TagSpan]:
    """The spans that tags write, in order.

    A span begins at each `B` and `S`; and at an `I` or `E` that has nothing to go on with, because
    what stands before it is outside, the end of a span, or of another label. It goes on until
    another begins, or the next token is outside.

    Raises:
        ValueError: If one is no tag of a span.

    Source:
        `startOfChunk` and `endOfChunk` of conlleval (2004), for `B`, `I` and `O`. That of `E` and
        `S` it knows the first in part, and not the second; here they end a span whatever follows.
    """
    spans: list[TagSpan] = []
    before, label_before = OUTSIDE, ""
    for i, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        goes_on = prefix in "IE" and before in "BI" and label == label_before
        if goes_on:
            spans[-1] = spans[-1]._replace(end=i + 1)
        elif prefix != OUTSIDE:
            spans.append(TagSpan(label, i, i + 1))
        before, label_before = prefix, label
    return spans


def span_tags(spans: Iterable[TagSpan], n_tokens: int, scheme: str = "BIO") -> list[str]:
    """Tags of a sentence of `n_tokens` tokens that write its spans, given in any order.

    Raises:
        ValueError: If a span has no token or lies beyond the sentence; if two share a token; if
            the scheme is no choice.
    """
    check_scheme(scheme)
    tags = [OUTSIDE] * n_tokens
    before = TagSpan("", 0, 0)
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        label, start, end = span
        if not 0 <= start < end <= n_tokens:
            raise ValueError(f"{span} is no span of the {n_tokens} tokens of its sentence")
        if start < before.end:
            raise ValueError(
                f"{before} and {span} share a token, but it can have one tag: leave one out"
            )
        prefixes = ["B", *"I" * (end - start - 1)]
        if scheme == "BIOES":
            prefixes[-1] = "S" if len(prefixes) == 1 else "E"
        tags[start:end] = [_tag(prefix, label) for prefix in prefixes]
        before = span
    return tags


def rewritten(tags: Sequence[str], scheme: str = "BIO") -> list[str]:
    """The same spans in `scheme`; tags that break its rules come out as conlleval reads them."""
    return span_tags(tag_spans(tags), len(tags), scheme)


def is_broken(tags: Sequence[str]) -> bool:
    """Whether the tags of a sentence follow the rules of no scheme.

    Raises:
        ValueError: If one is no tag of a span.
    """
    return not any(list(tags) == rewritten(tags, scheme) for scheme in SCHEMES)


def readable_by_conlleval(tags: Sequence[str]) -> list[str]:
    """The tags as they are, or in BIO where there is an `E-` or `S-`, which it reads otherwise."""
    return rewritten(tags) if any(split_tag(tag)[0] in "ES" for tag in tags) else list(tags)


def scheme_tags(labels: Iterable[str], scheme: str) -> list[str]:
    """All tags that sentences with spans of these labels can have: `O` first, labels sorted."""
    check_scheme(scheme)
    return [
        OUTSIDE,
        *(_tag(prefix, label) for label in sorted(set(labels)) for prefix in PREFIXES[scheme]),
    ]


def allowed_transitions(tags: Sequence[str], scheme: str) -> AllowedTransitions:
    """What a sentence may go on with after each of `tags`, begin with and end with.

    Raises:
        ValueError: If one is no tag of a span; if the scheme is no choice.
    """
    check_scheme(scheme)
    split = [split_tag(tag) for tag in tags]
    outside = (OUTSIDE, "")
    between = [[_may_follow(before, after, scheme) for after in split] for before in split]
    start = [_may_follow(outside, tag, scheme) for tag in split]
    end = [_may_follow(tag, outside, scheme) for tag in split]
    return AllowedTransitions(torch.tensor(between), torch.tensor(start), torch.tensor(end))


def check_scheme(scheme: str) -> None:
    """Refuse what is none of `SCHEMES`."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme is {scheme!r}, but expected one of {', '.join(SCHEMES)}")


def _may_follow(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    inside = before[0] in "BI"
    goes_on = after[0] in "IE"
    if goes_on:
        return inside and before[1] == after[1]
    return scheme == "BIO" or not inside


def _tag(prefix: str, label: str) -> str:
    return f"{prefix}-{label}" if label else prefix
