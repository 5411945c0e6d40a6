"""The senses of a word in a text: its usages in clusters, with what is typical of each.

Usages are divided by k-means over their principal components. How many clusters there are is
chosen by the silhouette (Rousseeuw, 1987), the mean over all usages of (b - a) / max(a, b), where
a is the mean distance to the usages of the same cluster and b to those of the nearest other one.
K-means divides anything, so the same is done to random points without clusters, which have the
same variance along each component; where usages are not divided better than those, there is one
cluster. Collocates are ranked by log-likelihood (Dunning, 1993).

Axes: usages, dim, components, plane (2).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, log2
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from elmo.encoders.encoder import extra
from elmo.probes.found_usages import Found
from elmo.probes.layers import Progress, unit
from elmo.probes.usages import Usage

N_COMPONENTS = 50
"""Principal components that usages are compared by, at most."""
ALIKE_PLACES = 5
"""Digits after the point beyond which usages are alike: the rest is rounding."""
N_RANDOM = 19
"""Sets of random points. One set of usages in 20 without clusters is divided better than all."""
N_STARTS = 5
"""Of k-means, of which the best counts."""
WINDOW = 5
"""Tokens to either side of a word among which its collocates are."""
MIN_TOGETHER = 2
"""A collocate stands with the word so often at least."""
MIN_LOG_LIKELIHOOD = 3.84
"""Of a collocate; chance gives a word as much once in 20 times."""


class Clusters(NamedTuple):
    """Usages divided.

    Attributes:
        labels: Cluster of each usage; 0 is the largest.
        silhouettes: By number of clusters that was tried.
        by_chance: Of each set of random points, the largest silhouette of any number of clusters;
            empty where the number was given, or there was nothing to divide.
        of_usages: The silhouette of each usage; zero where there is one cluster.
    """

    labels: Int[np.ndarray, " usages"]
    silhouettes: Mapping[int, float]
    by_chance: Sequence[float]
    of_usages: Float[np.ndarray, " usages"]

    @property
    def n(self) -> int:
        """How many clusters."""
        return int(self.labels.max()) + 1


def counted(n: int) -> str:
    """So many usages, as a reader is told."""
    return f"{n:,} usage" if n == 1 else f"{n:,} usages"


class Collocate(NamedTuple):
    """A word that stands near another more often than elsewhere.

    Attributes:
        word: In lower case.
        n_together: How often it does.
        log_likelihood: G², how hard that is to explain by chance.
        pmi: Base-2 logarithm of how much more often than expected.
    """

    word: str
    n_together: int
    log_likelihood: float
    pmi: float


@dataclass(frozen=True)
class Sense:
    """One cluster of usages.

    Attributes:
        usages: Their places in `Senses.usages`.
        silhouette: Their mean.
        collocates: The most typical first.
        examples: Those of the usages that are nearest to their mean, nearest first.
    """

    usages: Sequence[int]
    silhouette: float
    collocates: Sequence[Collocate]
    examples: Sequence[int]


@dataclass(frozen=True, eq=False)
class Senses:
    """What the usages of a word fall into.

    Attributes:
        forms: Of the word.
        found: Its usages.
        clusters: How they are divided.
        senses: A cluster each, the largest first.
    """

    forms: Sequence[str]
    found: Found
    clusters: Clusters
    senses: Sequence[Sense]

    @property
    def word(self) -> str:
        """The first form."""
        return self.forms[0]

    @property
    def usages(self) -> Sequence[Usage]:
        """That were looked at, in the order of the text."""
        return self.found.usages

    def why(self) -> str:
        """Why there are so many clusters, in a sentence."""
        n, tried = self.clusters.n, self.clusters.silhouettes
        if self.clusters.by_chance:
            best = max(tried, key=lambda k: tried[k])
            chance = max(self.clusters.by_chance)
            said = f"{best} clusters have the largest silhouette, {tried[best]:.3f}"
            if n > 1:
                return f"{said}; random points without clusters reach {chance:.3f} at most"
            return f"{said}, but random points without clusters reach {chance:.3f}: one cluster"
        if n == 1 and tried:
            return "one cluster was asked for"
        if tried:
            return f"{n} clusters were asked for; their silhouette is {tried[n]:.3f}"
        return "the usages are too few or too alike to be divided"


def senses(
    forms: Sequence[str],
    found: Found,
    *,
    n_clusters: int | None = None,
    max_clusters: int = 8,
    n_collocates: int = 8,
    n_examples: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> Senses:
    """Divide the usages of a word, and say what is typical of each part.

    Collocates of a cluster stand near the word more often than in the other clusters; of the only
    one, more often than elsewhere in the text.

    Args:
        forms: Of the word.
        found: Its usages, by `usages_in_text` or `usages_in_index`.
        n_clusters: How many; None to choose.
        max_clusters: How many may be chosen.
        n_collocates: Per cluster.
        n_examples: Likewise; a cluster may have fewer.
        seed: Of k-means and of the random points.
        progress: Told of what is done.

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If there are fewer usages than clusters asked for.
    """
    clusters = cluster_usages(
        found.vectors,
        n_clusters=n_clusters,
        max_clusters=max_clusters,
        seed=seed,
        progress=progress,
    )
    own = {form.lower() for form in forms}
    near = [Counter(_near(usage, own)) for usage in found.usages]
    directions = unit(found.vectors)
    made = []
    for cluster in range(clusters.n):
        members = np.flatnonzero(clusters.labels == cluster)
        inside = sum((near[i] for i in members.tolist()), Counter[str]())
        outside = Counter[str]()
        if clusters.n > 1:
            for i in np.flatnonzero(clusters.labels != cluster).tolist():
                outside.update(near[i])
        else:
            words = {w: n for w, n in found.counts.items() if w not in own and _is_word(w)}
            outside = Counter(words) - inside
        middle = directions[members].mean(axis=0)
        order = np.argsort(-(directions[members] @ middle), kind="stable")
        made.append(
            Sense(
                members.tolist(),
                float(clusters.of_usages[members].mean()),
                collocates(inside, outside, n=n_collocates),
                members[order[:n_examples]].tolist(),
            )
        )
    return Senses(list(forms), found, clusters, made)


def cluster_usages(
    vectors: Float[np.ndarray, "usages dim"],
    *,
    n_clusters: int | None = None,
    max_clusters: int = 8,
    seed: int = 0,
    progress: Progress | None = None,
) -> Clusters:
    """Divide usages by their vectors, scaled to length 1.

    Args:
        vectors: Of the usages.
        n_clusters: How many; None to choose.
        max_clusters: How many may be chosen, if there are twice as many usages.
        seed: Of k-means and of the random points.
        progress: Told of what is done.

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If more clusters are asked for than there are usages, or distinct vectors.
    """
    points = _components(unit(vectors)).round(ALIKE_PLACES)  # equal ones are equal to k-means too
    n, n_distinct = len(points), len(np.unique(points, axis=0))
    if n_clusters is not None:
        return _given(points, n_clusters, n_distinct, seed)
    if max_clusters < 1:
        raise ValueError(f"max_clusters is {max_clusters}, but must be at least 1")
    numbers = range(2, min(max_clusters, n // 2, n_distinct) + 1)
    if not numbers:
        return Clusters(np.zeros(n, dtype=np.int64), {}, [], np.zeros(n, dtype=np.float32))
    labels = {k: _k_means(points, k, seed) for k in numbers}
    silhouettes = {k: float(_silhouettes(points, labels[k]).mean()) for k in numbers}
    best = max(numbers, key=lambda k: silhouettes[k])
    draw = np.random.default_rng(seed)
    by_chance = []
    for done in range(N_RANDOM):
        if progress is not None:
            progress("Dividing", done / N_RANDOM, f"{done} of {N_RANDOM} sets of random points")
        cloud = draw.standard_normal(points.shape) * points.std(axis=0)
        of_cloud = [_silhouettes(cloud, _k_means(cloud, k, seed)).mean() for k in numbers]
        by_chance.append(float(max(of_cloud)))
    if silhouettes[best] <= max(by_chance):
        nothing = np.zeros(n, dtype=np.float32)
        return Clusters(np.zeros(n, dtype=np.int64), silhouettes, by_chance, nothing)
    return Clusters(labels[best], silhouettes, by_chance, _silhouettes(points, labels[best]))


def collocates(
    inside: Mapping[str, int], outside: Mapping[str, int], *, n: int = 8
) -> list[Collocate]:
    """Words that are more frequent in one text than in another, by log-likelihood.

    Args:
        inside: How often the one has each word.
        outside: The other.
        n: How many words at most.
    """
    n_inside, n_outside = sum(inside.values()), sum(outside.values())
    found = []
    for word, together in inside.items():
        apart = outside.get(word, 0)
        share = (together + apart) / (n_inside + n_outside)
        if together < MIN_TOGETHER or together <= share * n_inside:
            continue
        surprise = _log_likelihood(together, apart, n_inside, n_outside)
        if surprise >= MIN_LOG_LIKELIHOOD:
            pmi = log2(together / n_inside / share)
            found.append(Collocate(word, together, surprise, pmi))
    found.sort(key=lambda of: (-of.log_likelihood, of.word))
    return found[:n]


def _near(usage: Usage, own: set[str]) -> list[str]:
    """Words of the window around a usage, in lower case, without the word itself."""
    first = max(0, usage.position - WINDOW)
    window = usage.tokens[first : usage.position]
    window += usage.tokens[usage.position + 1 : usage.position + 1 + WINDOW]
    lowered = [token.lower() for token in window]
    return [token for token in lowered if token not in own and _is_word(token)]


def _is_word(token: str) -> bool:
    return any(char.isalpha() for char in token)


def _components(vectors: Float[np.ndarray, "usages dim"]) -> Float[np.ndarray, "usages components"]:
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    return (left * values)[:, :N_COMPONENTS]


def _given(
    points: Float[np.ndarray, "usages components"], n_clusters: int, n_distinct: int, seed: int
) -> Clusters:
    n = len(points)
    if n_clusters < 1:
        raise ValueError(f"n_clusters is {n_clusters}, but there is at least 1")
    if n_clusters > n_distinct:
        alike = "" if n_distinct == n else f" with {n_distinct} different vectors"
        raise ValueError(
            f"{n_clusters} clusters were asked for, but there are {n} usages{alike}: ask for "
            "fewer clusters, or give more text"
        )
    if n_clusters in (1, n):
        labels = np.arange(n, dtype=np.int64) if n_clusters == n else np.zeros(n, dtype=np.int64)
        return Clusters(labels, {n_clusters: 0.0}, [], np.zeros(n, dtype=np.float32))
    labels = _k_means(points, n_clusters, seed)
    of_usages = _silhouettes(points, labels)
    return Clusters(labels, {n_clusters: float(of_usages.mean())}, [], of_usages)


def _k_means(
    points: Float[np.ndarray, "usages components"], k: int, seed: int
) -> Int[np.ndarray, " usages"]:
    """Clusters, the largest first; of equal ones that of the first usage first."""
    with extra("tasks", "clustering usages"):
        from sklearn.cluster import KMeans

    made = KMeans(k, n_init=N_STARTS, random_state=seed).fit_predict(points)
    sizes = np.bincount(made, minlength=k)
    firsts = [int(np.flatnonzero(made == cluster)[0]) for cluster in range(k)]
    order = sorted(range(k), key=lambda cluster: (-sizes[cluster], firsts[cluster]))
    return np.argsort(order)[made].astype(np.int64)


def _silhouettes(
    points: Float[np.ndarray, "usages components"], labels: Int[np.ndarray, " usages"]
) -> Float[np.ndarray, " usages"]:
    from sklearn.metrics import silhouette_samples

    return silhouette_samples(points, labels).astype(np.float32)


def _log_likelihood(together: int, apart: int, n_inside: int, n_outside: int) -> float:
    """G² of the table of a word and all others, in one text and another."""
    n, n_word = n_inside + n_outside, together + apart
    total = 0.0
    for seen, row, column in (
        (together, n_word, n_inside),
        (apart, n_word, n_outside),
        (n_inside - together, n - n_word, n_inside),
        (n_outside - apart, n - n_word, n_outside),
    ):
        if seen:
            total += seen * log(seen * n / (row * column))
    return 2 * total
