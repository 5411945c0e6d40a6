"""How alike are uses of a word, or sentences: cosines of their vectors.

Axes: texts (twice in a similarity matrix), tokens, dim.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from elmo.encode import Elmo
from elmo.text import Token, Tokenizer


class Marked(NamedTuple):
    """A text, and which part of it is meant: `text[start:end]`; None for the whole."""

    text: str
    span: tuple[int, int] | None


class Place(NamedTuple):
    """A token of a sentence: `tokens[position]`."""

    tokens: Sequence[str]
    position: int


def read_marked(text: str) -> Marked:
    r"""A text in which [brackets] mark a word or words.

    A bracket that belongs to the text is written with a backslash before it, `\[` or `\]`.

    Raises:
        ValueError: If there are several marks, one without an end, or an empty one.

    Example:
        >>> read_marked("We sat on the river [bank].")
        Marked(text='We sat on the river bank.', span=(20, 24))
    """
    clean, starts, ends = "", [], []
    for part in re.findall(r"\\[\[\]]|\[|\]|[^\\\[\]]+|\\", text):
        if part == "[":
            starts.append(len(clean))
        elif part == "]":
            ends.append(len(clean))
        else:
            clean += part[1:] if part in (r"\[", r"\]") else part
    if not starts and not ends:
        return Marked(clean, None)
    if len(starts) != 1 or len(ends) != 1 or starts[0] > ends[0]:
        raise ValueError(
            f'"{text}" has {len(starts)} opening and {len(ends)} closing brackets: mark one word '
            r"as [word], and write a bracket of the text itself as \[ or \]"
        )
    if not clean[starts[0] : ends[0]].strip():
        raise ValueError(f'"{text}" marks nothing: put a word between the brackets')
    return Marked(clean, (starts[0], ends[0]))


def marked_tokens(marked: Marked, tokenizer: Tokenizer) -> tuple[list[str], list[int]]:
    """Tokens of the text, and which of them are marked (all, where nothing is).

    A mark that ends within a token cuts it: what is marked is one or more tokens of its own.
    """
    tokens = tokenizer(marked.text)
    if marked.span is None:
        return [token.text for token in tokens], list(range(len(tokens)))
    start, end = marked.span
    if any(token.start < edge < token.end for token in tokens for edge in (start, end)):
        tokens = [
            Token(token.text, token.start + offset, token.end + offset)
            for offset, part in (
                (0, marked.text[:start]),
                (start, marked.text[start:end]),
                (end, marked.text[end:]),
            )
            for token in tokenizer(part)
        ]
    inside = [i for i, token in enumerate(tokens) if start <= token.start and token.end <= end]
    return [token.text for token in tokens], inside


def marked_place(text: str, tokenizer: Tokenizer) -> Place:
    r"""The token that [brackets] mark in a text.

    The brackets are removed, the text is split into tokens, and the token is found that covers
    what was marked; a mark within a token cuts it. A bracket of the text itself is written `\[`.

    Raises:
        ValueError: If not one place is marked, or it is no token or several.

    Example:
        >>> marked_place("We sat on the river [bank].", Tokenizer())
        Place(tokens=['We', 'sat', 'on', 'the', 'river', 'bank', '.'], position=5)
    """
    marked = read_marked(text)
    if marked.span is None:
        raise ValueError(f'"{text}" marks no word: put [brackets] around the one that is meant')
    tokens, inside = marked_tokens(marked, tokenizer)
    if len(inside) != 1:
        within = ", ".join(tokens[i] for i in inside)
        raise ValueError(
            f'"{text}" marks {len(inside)} tokens ({within}), but one word is asked for: mark one '
            "of them"
        )
    return Place(tokens, inside[0])


def similarity(
    elmo: Elmo, marked: Sequence[Marked], *, layers: int | str = "mix", state: str = "zero"
) -> Float[np.ndarray, "texts texts"]:
    """Cosine of each pair of marked words, or of sentences (means of tokens) without marks.

    Args:
        elmo: Where vectors come from.
        marked: At least two texts, all with a mark or all without.
        layers: As for `Elmo.encode_tokens`, like `state`.

    Raises:
        ValueError: If there are fewer than two texts, some have a mark and others do not, or one
            has no token.
    """
    if len(marked) < 2:
        raise ValueError(f"{len(marked)} text was given, but at least 2 are wanted to compare")
    with_mark = [text.span is not None for text in marked]
    if any(with_mark) and not all(with_mark):
        raise ValueError(
            f'"{marked[with_mark.index(False)].text}" marks no word, but other texts do: put '
            "[brackets] around one word of each text, or of none"
        )
    tokenized = [marked_tokens(text, elmo.tokenizer) for text in marked]
    for text, (_, inside) in zip(marked, tokenized, strict=True):
        if not inside:
            raise ValueError(f'"{text.text}" has no token to compare')
    vectors = elmo.encode_tokens([tokens for tokens, _ in tokenized], layers=layers, state=state)
    means = np.stack(
        [of[inside].mean(axis=0) for of, (_, inside) in zip(vectors, tokenized, strict=True)]
    )
    unit = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.float32(1e-12))
    return unit @ unit.T


def closest(matrix: Float[np.ndarray, "texts texts"]) -> Int[np.ndarray, " texts"]:
    """For each text, which other one is most like it."""
    others = matrix.copy()
    np.fill_diagonal(others, -np.inf)
    return others.argmax(axis=1)
