"""The senses of a word as a page of HTML that stands alone: picture, collocates, example lines."""

import numpy as np
from jaxtyping import Float

from elmo.plots.figure import LINE_COLOURS
from elmo.plots.html import page, table, text
from elmo.probes.senses import Sense, Senses, counted

SIZE, MARGIN = 460, 22
"""Of the picture, in pixels."""
N_AROUND = 12
"""Tokens of an example to either side of the word."""


def senses_page(
    senses: Senses, points: Float[np.ndarray, "usages plane"] | None, *, source: str
) -> str:
    """A page with a section for each cluster.

    Args:
        senses: Of a word.
        points: A place in the plane for each usage; None for no picture.
        source: Which text and which vectors they are of, for the reader.
    """
    n, found = len(senses.usages), senses.found.n_found
    drawn = f"{n:,} drawn of {found:,} usages" if n < found else counted(n)
    parts = [f'<p class="facts">{text(source)}; {drawn}. {text(senses.why())}.</p>']
    if len(senses.clusters.silhouettes) > 1:
        parts.append(_silhouettes(senses))
    if points is not None:
        parts.append(_picture(senses, points))
    parts += [_section(senses, i, sense) for i, sense in enumerate(senses.senses)]
    return page(f"{senses.word}: {_clusters(senses.clusters.n)}", "\n".join(parts))


def _clusters(n: int) -> str:
    return f"{n} clusters of usages" if n > 1 else "one cluster of usages"


def _silhouettes(senses: Senses) -> str:
    tried = senses.clusters.silhouettes
    return table(
        ["clusters", *map(str, tried)],
        [["silhouette", *(f"{score:.3f}" for score in tried.values())]],
        ["", *["number"] * len(tried)],
    )


def _section(senses: Senses, i: int, sense: Sense) -> str:
    swatch = f'<span class="swatch" style="background:{_colour(i)}"></span>'
    share = len(sense.usages) / len(senses.usages)
    mean = f", mean silhouette {sense.silhouette:.3f}" if senses.clusters.n > 1 else ""
    parts = [
        f"<h2>{swatch}Cluster {i + 1}</h2>",
        f'<p class="facts">{counted(len(sense.usages))}, {share:.0%}{mean}</p>',
    ]
    if sense.collocates:
        words = ", ".join(
            f'<span title="{of.n_together} times, G² {of.log_likelihood:.1f}, PMI {of.pmi:.1f}">'
            f"{text(of.word)}</span>"
            for of in sense.collocates
        )
        parts.append(f"<p>Typical beside it: {words}</p>")
    lines = [senses.usages[u].parts(N_AROUND) for u in sense.examples]
    parts.append(table(["", "", ""], [list(map(text, of)) for of in lines], ["before", "word", ""]))
    return "\n".join(parts)


def _picture(senses: Senses, points: Float[np.ndarray, "usages plane"]) -> str:
    """A dot for each usage, which says its sentence where the pointer rests on it."""
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (SIZE - 2 * MARGIN) / max(float((high - low).max()), 1e-12)
    places = (points - (low + high) / 2) * [scale, -scale] + SIZE / 2
    dots = []
    for usage, cluster, (x, y) in zip(
        senses.usages, senses.clusters.labels.tolist(), places.tolist(), strict=True
    ):
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{_colour(cluster)}" '
            f'fill-opacity=".8" stroke="#fff" stroke-width=".7"><title>{cluster + 1}: '
            f"{text(usage.marked(N_AROUND))}</title></circle>"
        )
    for cluster in range(senses.clusters.n):
        x, y = np.median(places[senses.clusters.labels == cluster], axis=0).tolist()
        dots.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="17" font-weight="700" text-anchor="middle" '
            f'dominant-baseline="central" paint-order="stroke" stroke="#fff" stroke-width="4">'
            f"{cluster + 1}</text>"
        )
    return (
        f'<figure><svg viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" role="img" '
        f'aria-label="usages in the plane, coloured by cluster">\n' + "\n".join(dots) + "\n</svg>\n"
        "<figcaption>Each dot is a usage; rest on one to read it.</figcaption></figure>"
    )


def _colour(cluster: int) -> str:
    return LINE_COLOURS[cluster % len(LINE_COLOURS)]
