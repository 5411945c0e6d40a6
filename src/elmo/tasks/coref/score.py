"""MUC, B³, CEAFφ4 and their mean, as the CoNLL-2012 reference scorer v8.01 counts them.

Mentions match if their spans are the same. Key and response keep all of theirs, singletons and
those without a twin included; what is divided is summed over documents first. A mention of the
key that the response has twice counts once, where it is read first (v8.01 refuses to score more
than ten such); one that is not in the key, or that the key itself has twice, counts each time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo.tasks.coref.data import Span, in_order_of_reading

Clusters = Sequence[Sequence[Span]]


class Counts(NamedTuple):
    """What is divided for recall, and for precision."""

    recalled: float
    in_key: float
    precise: float
    in_response: float

    @property
    def recall(self) -> float:
        """In percent; 0 of nothing in the key."""
        return 100 * self.recalled / self.in_key if self.in_key else 0.0

    @property
    def precision(self) -> float:
        """In percent; 0 of nothing in the response."""
        return 100 * self.precise / self.in_response if self.in_response else 0.0

    @property
    def f1(self) -> float:
        """In percent."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


def score(keys: Iterable[Clusters], responses: Iterable[Clusters]) -> dict[str, float]:
    """Scores of documents in percent: `conll_f1`, the mean of `muc_f1`, `b_cubed_f1`, `ceaf_e_f1`.

    Of these three and of `mentions`, found whatever their clusters, there are `_precision` and
    `_recall` too.

    Args:
        keys: True clusters of each document.
        responses: Clusters that were found, of the same documents.
    """
    totals = {name: np.zeros(4) for name in MEASURES}
    for key, response in zip(keys, responses, strict=True):
        for name, counts in count(key, response).items():
            totals[name] += counts
    measured = {name: Counts(*total.tolist()) for name, total in totals.items()}
    mean = sum(measured[name].f1 for name in AVERAGED) / len(AVERAGED)
    return {
        "conll_f1": mean,
        **{
            f"{name}_{kind}": getattr(counts, kind)
            for name, counts in measured.items()
            for kind in ("f1", "precision", "recall")
        },
    }


def count(key: Clusters, response: Clusters) -> dict[str, Counts]:
    """What each of `MEASURES` counts in a document."""
    key = in_order_of_reading(key)
    response = without_repeated(response, key)
    return {name: measure(key, response) for name, measure in MEASURES.items()}


def without_repeated(response: Clusters, key: Clusters) -> list[list[Span]]:
    """Clusters without mentions of the key that have been read before."""
    in_key, seen = set(_cluster_of(key)), set[Span]()
    kept: list[list[Span]] = []
    for cluster in in_order_of_reading(response):
        kept.append([])
        for span in cluster:
            if span not in seen:
                kept[-1].append(span)
            if span in in_key:
                seen.add(span)
    return [cluster for cluster in kept if cluster]


def mentions(key: Clusters, response: Clusters) -> Counts:
    """How many of the spans are mentions."""
    in_key, in_response = set(_cluster_of(key)), set(_cluster_of(response))
    both = len(in_key & in_response)
    return Counts(both, len(in_key), both, len(in_response))


def muc(key: Clusters, response: Clusters) -> Counts:
    """Links: a cluster of n mentions has n − 1 (Vilain et al., 1995)."""
    of_key = _cluster_of(key)
    right = sum(
        sum(n - 1 for n in Counter(of_key[span] for span in cluster if span in of_key).values())
        for cluster in response
    )
    return Counts(right, _links(key), right, _links(response))


def b_cubed(key: Clusters, response: Clusters) -> Counts:
    """For each mention, how much of its two clusters is the same (Bagga and Baldwin, 1998)."""
    recalled = precise = 0.0
    of_key, distinct = _cluster_of(key), [set(cluster) for cluster in key]
    for cluster in response:
        for k, n in Counter(of_key[span] for span in cluster if span in of_key).items():
            shared = n * sum(span in distinct[k] for span in cluster)
            recalled += shared / len(key[k])
            precise += shared / len(cluster)
    return Counts(recalled, sum(map(len, key)), precise, sum(map(len, response)))


def ceaf_e(key: Clusters, response: Clusters) -> Counts:
    """Clusters, each with its counterpart of the best alignment: entity based CEAF, φ4 (Luo, 2005).

    φ4 of two clusters is the mentions that they share, relative to the mean of their sizes.
    """
    from scipy.optimize import linear_sum_assignment

    similarity = np.zeros((len(key), len(response)))
    of_response = _cluster_of(response)
    for k, cluster in enumerate(key):
        for r, n in Counter(of_response[span] for span in cluster if span in of_response).items():
            similarity[k, r] = 2 * n / (len(cluster) + len(response[r]))
    aligned = float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())
    return Counts(aligned, len(key), aligned, len(response))


MEASURES = {"muc": muc, "b_cubed": b_cubed, "ceaf_e": ceaf_e, "mentions": mentions}
AVERAGED = ("muc", "b_cubed", "ceaf_e")


def _cluster_of(clusters: Clusters) -> Mapping[Span, int]:
    """The cluster of each mention, the last if it is in several."""
    return {span: i for i, cluster in enumerate(clusters) for span in cluster}


def _links(clusters: Clusters) -> int:
    return sum(len(cluster) - 1 for cluster in clusters)
