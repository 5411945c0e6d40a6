"""From the antecedent of each mention to clusters, and back."""

from collections.abc import Sequence

from elmo.tasks.coref.data import Clusters, Span, in_order_of_reading

NO_ANTECEDENT = -1


def clusters_of_antecedents(
    spans: Sequence[Span], antecedents: Sequence[int], *, singletons: Sequence[bool] = ()
) -> Clusters:
    """Clusters of spans of which each follows another or none.

    Args:
        spans: Candidates; no two are the same.
        antecedents: Of each span the index of one before it in `spans`, or −1 for none.
        singletons: Whether a span that follows none, and none follows, is a mention all the same.
            Empty for never, as in Lee et al. (2017).

    Raises:
        ValueError: If an antecedent is not before its span.
    """
    clusters: list[list[int]] = []
    cluster_of: list[int] = []
    for i, antecedent in enumerate(antecedents):
        if not NO_ANTECEDENT <= antecedent < i:
            raise ValueError(
                f"the antecedent of span {i} is span {antecedent}, but expected one before it, or "
                f"{NO_ANTECEDENT} for none"
            )
        if antecedent == NO_ANTECEDENT:
            cluster_of.append(len(clusters))
            clusters.append([i])
        else:
            cluster_of.append(cluster_of[antecedent])
            clusters[cluster_of[i]].append(i)
    kept = [
        [spans[i] for i in cluster]
        for cluster in clusters
        if len(cluster) > 1 or (len(singletons) and singletons[cluster[0]])
    ]
    return tuple(map(tuple, in_order_of_reading(kept)))


def cluster_numbers(spans: Sequence[Span], clusters: Sequence[Sequence[Span]]) -> list[int]:
    """For each span the number of its cluster from 1, or 0 if it is no mention.

    A span of several clusters is of the first.
    """
    numbers: dict[Span, int] = {}
    for n, cluster in enumerate(clusters, 1):
        for span in cluster:
            numbers.setdefault(span, n)
    return [numbers.get(span, 0) for span in spans]
