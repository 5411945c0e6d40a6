"""The usages of a word in a text, each with a vector of the word and of its surroundings.

What a biLM's vector of a word holds besides its meaning is, first of all, its form: usages that are
divided by it fall into *Bank*, *bank* and *banks*. The words around know nothing of the form and
much of the meaning, so that the vector of a usage is

    u / 3 + 2 c / 3,    c = unit(sum over j of exp(-|j - i| / context) · -log p(j) · u(j)),

where u is the word's vector and u(j) those of the other tokens of the sentence, all of length 1,
|j - i| how far token j stands from the word, and p(j) its share of the text's tokens: a rare word
tells more. `docs/LOG.md` has what this gains. With `context` 0 it is u alone.

Axes: usages, tokens, dim.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float16

from elmo.encoders import Encoder
from elmo.probes.layers import Layers, Progress, encode, unit
from elmo.probes.usages import (
    Layer,
    Usage,
    UsageIndex,
    check_layer,
    never_occurs,
    tell,
    tokens_of,
)
from elmo.text import Errors, Tokenizer, count_lines, read_lines

CONTEXT: int | float = 8
"""How fast words around a usage count less: at this distance e times less than beside it."""
CHUNK = 64
"""Sentences that are encoded between two words on how far that is."""
OWN_SHARE = 1 / 3
"""Of the word's own vector in that of a usage."""


class Found(NamedTuple):
    """Usages of a word that are looked at, with their vectors.

    Attributes:
        usages: In the order of the text.
        vectors: Theirs, of the word and what stands around it.
        n_found: Usages in the text, repeated sentences left out.
        counts: How often the text has each token, in lower case.
    """

    usages: Sequence[Usage]
    vectors: Float[np.ndarray, "usages dim"]
    n_found: int
    counts: Mapping[str, int]


def usages_in_text(
    files: Iterable[str | Path],
    forms: Sequence[str],
    encoder: Encoder,
    *,
    layer: Layer = -1,
    tokenizer: Tokenizer | None = None,
    errors: Errors = "strict",
    context: int | float = CONTEXT,
    max_usages: int = 500,
    seed: int = 0,
    progress: Progress | None = None,
) -> Found:
    """The usages of a word in files of text; only their sentences are encoded.

    A sentence that the text has several times counts once.

    Args:
        files: A sentence on each line, compressed or not.
        forms: Of the word; case does not count.
        encoder: Where vectors come from.
        layer: Which ones; -1 for the last layer, None for the mean of all.
        tokenizer: Splits lines; None where there is white space between tokens.
        errors: As for `elmo.text.read_lines`.
        context: Tokens from the word to where another one counts e times less; 0 for the word
            alone.
        max_usages: Of more, so many are drawn.
        seed: For that.
        progress: Told of what is done.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a form never occurs (the nearest forms are named), there is no such layer, or
            the context is no number of tokens, or the encoder has no vector for the word (nor, with
            a context, for what stands around it).
    """
    layer = _from_end(layer, encoder.n_layers)
    check_layer(layer, encoder)
    _check_context(context)
    wanted = {form.lower() for form in forms}
    sample = _Sample(max_usages, seed)
    counts = Counter[str]()
    paths = [Path(file) for file in files]
    totals = [count_lines(path) if path.is_file() else None for path in paths]
    total = None if None in totals else sum(n for n in totals if n is not None)
    sentence, n_read = 0, 0
    for path in paths:
        for line in read_lines(path, errors):
            n_read += 1
            if progress is not None and n_read % 1000 == 0:
                tell(progress, "Reading", n_read, total, "lines")
            tokens = tokens_of(line, tokenizer)
            lowered = [token.lower() for token in tokens]
            counts.update(lowered)
            for position, token in enumerate(lowered):
                if token in wanted:
                    sample.add(Usage(sentence, position, tokens))
            sentence += bool(tokens)
    _check_forms(forms, counts, ", ".join(path.name for path in paths))
    usages = sample.drawn()

    chosen = Layers((layer,), encoder.n_layers)
    sentences = [usage.tokens for usage in usages]
    encoded = encode(encoder, sentences, chosen, label="Encoding", chunk=CHUNK, progress=progress)
    told = surprisals(counts)
    vectors = [
        in_context(of[0], usage, told, wanted, context)
        for of, usage in zip(encoded, usages, strict=True)
    ]
    _check_known(vectors, encoder.name, forms)
    return Found(usages, np.stack(vectors), sample.n_added, counts)


def usages_in_index(
    index: UsageIndex,
    forms: Sequence[str],
    *,
    layer: Layer = -1,
    context: int | float = CONTEXT,
    max_usages: int = 500,
    seed: int = 0,
) -> Found:
    """The usages of a word in an index, without an encoder; see `usages_in_text`.

    Raises:
        ValueError: If a form never occurs, the index does not have that layer, or the context is no
            number of tokens.
    """
    _check_context(context)
    sample = _Sample(max_usages, seed)
    counts = Counter[str]()
    of_types = np.bincount(index.tokens, minlength=len(index.types)).tolist()
    for form, n in zip(index.types, of_types, strict=True):
        counts[form.lower()] += n
    rows = index.rows(forms)
    for row in rows.tolist():
        sample.add(index.usage(row))
    usages = sample.drawn()
    of_layer = index.vectors(_from_end(layer, index.n_layers))
    own, told = {form.lower() for form in forms}, surprisals(counts)
    vectors = []
    for usage in usages:
        start, end = index.starts[usage.sentence : usage.sentence + 2].tolist()
        vectors.append(in_context(of_layer[start:end], usage, told, own, context))
    _check_known(vectors, index.encoder_name, forms)
    return Found(usages, np.stack(vectors), sample.n_added, counts)


def in_context(
    vectors: Float[np.ndarray, "tokens dim"] | Float16[np.ndarray, "tokens dim"],
    usage: Usage,
    surprisals: Mapping[str, float],
    own: Collection[str],
    context: int | float = CONTEXT,
) -> Float[np.ndarray, " dim"]:
    """The vector of a usage: a third the word's own, two thirds of what stands around it.

    Args:
        vectors: Of all tokens of its sentence.
        usage: Which token of which sentence.
        surprisals: Of each token of the text, by `surprisals`.
        own: Forms of the word, in lower case, which tell nothing of their surroundings.
        context: Tokens from here to where a word counts e times less; 0 for the word alone.
    """
    word = unit(vectors[usage.position].astype(np.float32))
    if context == 0:
        return word
    directions = unit(vectors.astype(np.float32))
    lowered = [token.lower() for token in usage.tokens]
    distances = np.abs(np.arange(len(lowered)) - usage.position)
    weights = np.exp(-distances / context) * [surprisals[token] for token in lowered]
    weights[[token in own for token in lowered]] = 0
    around = unit(weights.astype(np.float32) @ directions)
    return OWN_SHARE * word + (1 - OWN_SHARE) * around


def surprisals(counts: Mapping[str, int]) -> dict[str, float]:
    """-log of each token's share of a text, by how often the text has it."""
    n_tokens = sum(counts.values())
    return {token: -log(n / n_tokens) for token, n in counts.items()}


class _Sample:
    """So many usages of all that are added, each as likely; repeated sentences count once."""

    def __init__(self, size: int, seed: int) -> None:
        if size < 1:
            raise ValueError(f"max_usages is {size}, but at least 1 is wanted")
        self.n_added = 0
        self._size, self._random = size, random.Random(seed)
        self._kept: list[Usage] = []
        self._seen: set[bytes] = set()

    def add(self, usage: Usage) -> None:
        key = hashlib.blake2b(
            "\0".join([str(usage.position), *usage.tokens]).encode("utf-8", "surrogatepass"),
            digest_size=16,
        ).digest()
        if key in self._seen:
            return
        self._seen.add(key)
        self.n_added += 1
        if len(self._kept) < self._size:
            self._kept.append(usage)
        elif (place := self._random.randrange(self.n_added)) < self._size:
            self._kept[place] = usage

    def drawn(self) -> list[Usage]:
        return sorted(self._kept, key=lambda usage: (usage.sentence, usage.position))


def _check_forms(forms: Sequence[str], counts: Mapping[str, int], where: str) -> None:
    for form in forms:
        if form.lower() not in counts:
            raise ValueError(never_occurs(form, counts, where))


def _check_known(vectors: Sequence[np.ndarray], encoder: str, forms: Sequence[str]) -> None:
    """Refuse to go on with nothing, which static vectors may have for a word."""
    if not any(vector.any() for vector in vectors):
        raise ValueError(f"{encoder} has no vector for {', '.join(forms)}")


def _from_end(layer: Layer, n_layers: int) -> Layer:
    return n_layers + layer if layer is not None and layer < 0 else layer


def _check_context(context: int | float) -> None:
    if not 0 <= context < float("inf"):
        raise ValueError(f"context is {context}, but 0 or a number of tokens is wanted")
