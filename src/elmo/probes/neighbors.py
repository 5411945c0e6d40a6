"""Usages like another one, wherever they stand in a text (table 4 of Peters et al., 2018).

Axes: tokens, rows (some of the tokens), dim; usages, queries.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float16, Int

from elmo.compare import Place
from elmo.encoders import Encoder
from elmo.encoders.static import StaticEncoder
from elmo.probes.layers import unit
from elmo.probes.usages import Layer, Usage, UsageIndex, check_layer, layer_of

BLOCK_BYTES = 1 << 20
"""Vectors are widened to float32 so many bytes at a time, which stay in the processor's cache."""


class Neighbor(NamedTuple):
    """A usage, and the cosine of its vector and the query's."""

    cosine: float
    usage: Usage


class SenseShares(NamedTuple):
    """How often the nearest usage of a word has the sense of the query.

    Attributes:
        nearest: Share of the queries.
        random: The same share where a usage of the word is drawn at random, as expected.
        n_queries: Those whose word has usages.
    """

    nearest: float
    random: float
    n_queries: int


def query_vector(encoder: Encoder, place: Place, layer: Layer = None) -> Float[np.ndarray, " dim"]:
    """The vector of a token in its sentence, scaled to length 1.

    Raises:
        ValueError: If the encoder has no such layer, or no vector for the token.
    """
    check_layer(layer, encoder)
    (layers,) = encoder.encode_layers([place.tokens])
    vector = unit(layer_of(layers, layer)[place.position])
    if not vector.any():
        raise ValueError(f'{encoder.name} has no vector for "{place.tokens[place.position]}"')
    return vector


def neighbors(
    index: UsageIndex,
    query: Float[np.ndarray, " dim"],
    *,
    layer: Layer = None,
    n: int = 10,
    forms: Iterable[str] | None = None,
    but: Place | None = None,
) -> list[Neighbor]:
    """The usages nearest to a vector, all of them compared.

    A sentence that a text has several times counts once; tokens without a vector count not at all.

    Args:
        index: Where to look.
        query: As `query_vector` makes it, by the encoder of the index.
        layer: Which vectors to compare.
        n: How many usages; fewer if there are no more.
        forms: Only usages of these forms, whatever their case; None for any word.
        but: A usage that does not count: that of the query, if it may be in the text too.

    Raises:
        ValueError: If the index does not have that layer, a form never occurs, or none is wanted.
    """
    check_n(n)
    rows = None if forms is None else index.rows(forms)
    vectors = index.vectors(layer)
    cosines = all_cosines(vectors, query, rows)
    seen = {(tuple(but.tokens), but.position)} if but is not None else set()
    n_seen = len(seen)
    found: list[Neighbor] = []
    n_looked_at = 0
    while len(found) < n and n_looked_at < len(cosines):
        order = largest(cosines, 2 * n_looked_at + n + n_seen)
        for i in order[n_looked_at:].tolist():
            row = i if rows is None else int(rows[i])
            if not vectors[row].any():
                continue
            usage = index.usage(row)
            key = (tuple(usage.tokens), usage.position)
            if key not in seen and len(found) < n:
                seen.add(key)
                found.append(Neighbor(float(cosines[i]), usage))
        n_looked_at = len(order)
    return found


def all_cosines(
    vectors: Float16[np.ndarray, "tokens dim"],
    query: Float[np.ndarray, " dim"],
    rows: Int[np.ndarray, " rows"] | None = None,
) -> Float[np.ndarray, " rows"]:
    """The cosine of a vector and each of many, all of length 1; none is approximated.

    Args:
        vectors: They may lie in a file that is mapped; read once, in order.
        query: What they are compared with.
        rows: Which of them; None for all.
    """
    matrix, wanted = torch.from_numpy(vectors), torch.from_numpy(query.astype(np.float32))
    chosen = None if rows is None else torch.from_numpy(rows)
    n_rows = len(matrix) if chosen is None else len(chosen)
    n_block = max(1, BLOCK_BYTES // (4 * matrix.shape[1]))
    block, cosines = torch.empty(n_block, matrix.shape[1]), torch.empty(n_rows)
    for start in range(0, n_rows, n_block):
        end = min(start + n_block, n_rows)
        some = matrix[start:end] if chosen is None else matrix[chosen[start:end]]
        torch.mv(block[: end - start].copy_(some), wanted, out=cosines[start:end])
    return cosines.clamp_(-1, 1).numpy()


def largest(numbers: Float[np.ndarray, " rows"], n: int) -> Int[np.ndarray, " found"]:
    """Where the `n` largest numbers stand, the largest first; of equal ones the first first."""
    if n < len(numbers):
        threshold = np.partition(numbers, len(numbers) - n)[len(numbers) - n]
        places = np.flatnonzero(numbers >= threshold)
    else:
        places = np.arange(len(numbers))
    return places[np.argsort(-numbers[places], kind="stable")][:n]


def static_neighbors(static: StaticEncoder, word: str, *, n: int = 10) -> list[tuple[str, float]]:
    """The words whose static vectors are nearest to a word's, and the cosines.

    The word itself, in whatever case, is left out.

    Raises:
        ValueError: If the word has no vector, or none is wanted.
    """
    check_n(n)
    query = query_vector(static, Place([word], 0))
    lengths = np.linalg.norm(static.vectors, axis=1)
    cosines = static.vectors @ query / np.maximum(lengths, np.float32(1e-12))
    n_same = sum(known.lower() == word.lower() for known in static.words)
    best = largest(cosines.astype(np.float32), n + n_same).tolist()
    others = [i for i in best if static.words[i].lower() != word.lower()]
    return [(static.words[i], min(1.0, float(cosines[i]))) for i in others[:n]]


def same_sense(
    vectors: Float[np.ndarray, "usages dim"],
    words: Sequence[Hashable],
    senses: Sequence[str],
    query_vectors: Float[np.ndarray, "queries dim"],
    query_words: Sequence[Hashable],
    query_senses: Sequence[str],
) -> SenseShares:
    """How often the nearest usage of the same word has the same sense.

    Args:
        vectors: Of usages whose senses are known; of any length.
        words: Of which word each is a usage: its lemma and part of speech, say.
        senses: What it means there.
        query_vectors: Of other usages, each compared with all of its word.
        query_words: Theirs.
        query_senses: Likewise.

    Raises:
        ValueError: If no query's word has a usage.
    """
    rows_of: dict[Hashable, list[int]] = {}
    for row, word in enumerate(words):
        rows_of.setdefault(word, []).append(row)
    queries_of: dict[Hashable, list[int]] = {}
    for query, word in enumerate(query_words):
        if word in rows_of:
            queries_of.setdefault(word, []).append(query)
    nearest, random, n = 0.0, 0.0, 0
    for word, queries in queries_of.items():
        rows = rows_of[word]
        of_rows = np.array([senses[row] for row in rows], dtype=object)
        cosines = unit(query_vectors[queries]) @ unit(vectors[rows]).T
        for query, row in zip(queries, cosines.argmax(axis=1).tolist(), strict=True):
            same = of_rows == query_senses[query]
            nearest += bool(same[row])
            random += float(same.mean())
            n += 1
    if not n:
        raise ValueError("no query is of a word that has usages: give usages of the same words")
    return SenseShares(nearest / n, random / n, n)


def check_n(n: int) -> None:
    """Refuse to look for nothing."""
    if n < 1:
        raise ValueError(f"n is {n}, but at least 1 neighbour is wanted")
