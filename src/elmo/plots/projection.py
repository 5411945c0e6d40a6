"""Vectors as points in the plane, their groups in colours and shapes, and labels beside them.

Axes: points, dim, plane (2).
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elmo.plots.figure import (
    LINE_COLOURS,
    new_figure,
    picture_path,
    plain,
    text_colour,
    write_picture,
)

METHODS = ("pca", "tsne", "umap")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""With the colours, what tells groups apart in grey too."""
LABEL_LETTERS = 36
"""Longer labels are cut."""
REACHES = (5.0, 9.0, 14.0, 20.0, 28.0, 38.0, 50.0, 64.0)
"""How far from its point a label may stand: the nearest place that is free is taken. In points."""
DIRECTIONS = 16
"""To each side a label may stand."""
ROOM = 1.5
"""Around each label, in points."""


class Projection(NamedTuple):
    """Vectors in the plane.

    Attributes:
        points: A place for each.
        method: One of `METHODS`.
        shares: Of the variance, that each axis has; PCA alone can say.
    """

    points: Float[np.ndarray, "points plane"]
    method: str
    shares: tuple[float, float] | None = None


def project(
    vectors: Float[np.ndarray, "points dim"],
    method: str = "pca",
    *,
    seed: int = 0,
    neighbours: float | None = None,
) -> Projection:
    """Lay vectors out in the plane.

    PCA keeps large distances, and is the same for the same vectors; its signs are such that the
    component with the largest weight is positive. t-SNE and UMAP keep neighbours, by cosine.

    Args:
        vectors: At least 3.
        method: `pca`, `tsne` or `umap`.
        seed: For t-SNE and UMAP.
        neighbours: About how many of them count for each point (t-SNE's perplexity, UMAP's
            n_neighbors); None for 30 or 15, but never more than a third of the points.

    Raises:
        ImportError: If the method needs scikit-learn or umap-learn, which is not installed.
        ValueError: If there are fewer than 3 vectors, vectors that are not finite, or the method is
            not known.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}, but expected one of {', '.join(METHODS)}")
    n = len(vectors)
    if n < 3:
        raise ValueError(f"{n} vectors were given, but at least 3 are wanted to lay out")
    if not np.isfinite(vectors).all():
        raise ValueError("some vectors are not finite, so they have no place in a plane")
    if method == "pca":
        return _pca(vectors.astype(np.float64))
    most = max(2.0, (n - 1) / 3)
    made: Any
    if method == "tsne":
        try:
            from sklearn.manifold import TSNE
        except ImportError:
            raise ImportError(
                't-SNE needs scikit-learn, which is not installed: pip install "elmo-torch[tasks]"'
            ) from None
        perplexity = min(30.0 if neighbours is None else neighbours, most, n - 1)
        # By cosine: the squared distance of vectors of length 1 is 2 − 2 · cosine.
        made = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(
            _unit(vectors)
        )
    else:
        try:
            from umap import UMAP
        except ImportError:
            raise ImportError(
                "UMAP needs umap-learn, which is not installed: pip install umap-learn; or choose "
                "pca or tsne"
            ) from None
        wanted = max(2, int(min(15.0 if neighbours is None else neighbours, most)))
        made = UMAP(n_neighbors=wanted, metric="cosine", random_state=seed, n_jobs=1).fit_transform(
            vectors
        )
    return Projection(np.asarray(made, dtype=np.float64), method)


def draw_projection(
    axes: Any,
    projection: Projection,
    *,
    groups: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    title: str = "",
) -> list[int]:
    """Draw points, each group in a colour and a shape, with labels that overlap nothing.

    A label takes the nearest free place around its point, with a thin line to it where that is
    not near. Where the picture is too full for all labels, those without a place are left out.

    Args:
        axes: Matplotlib's; set its size before, as labels are placed by it.
        projection: As `project` gives it.
        groups: Of each point, for instance its sense; a legend names them in order of appearance.
        labels: Of each point; an empty one is none. Long ones are cut.
        title: Above.

    Returns:
        Which labels were left out, by the number of their point.

    Raises:
        ValueError: If there are not as many groups, or labels, as points.
    """
    points = projection.points
    for name, given in (("groups", groups), ("labels", labels)):
        if given is not None and len(given) != len(points):
            raise ValueError(f"{len(given)} {name} were given for {len(points)} points: one each")
    names = list(dict.fromkeys(groups or [""]))
    of_group = {name: i for i, name in enumerate(names)}
    numbers = [of_group[name] for name in groups] if groups is not None else [0] * len(points)
    size = 6.0 if len(points) <= 60 else 4.5 if len(points) <= 400 else 3.0
    for i, name in enumerate(names):
        inside = np.flatnonzero(np.array(numbers) == i)
        axes.plot(
            points[inside, 0],
            points[inside, 1],
            MARKERS[(i + i // len(LINE_COLOURS)) % len(MARKERS)],
            color=LINE_COLOURS[i % len(LINE_COLOURS)],
            markersize=size,
            markeredgecolor="white",
            markeredgewidth=0.4,
            alpha=0.9,
            label=plain([textwrap.shorten(name, LABEL_LETTERS, placeholder=" …")])[0],
        )
    _frame(axes, projection, title)
    if groups is not None:
        axes.legend(
            ncols=min(len(names), 3),
            loc="upper left",
            bbox_to_anchor=(0, -0.06 if projection.shares is None else -0.14),
            frameon=False,
            fontsize=8,
            borderaxespad=0.0,
        )
    if labels is None:
        return []
    colours = [LINE_COLOURS[i % len(LINE_COLOURS)] for i in numbers]
    return _label(axes, points, labels, colours, size)


def save_projection(
    path: str | Path,
    panels: Sequence[Projection],
    *,
    groups: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    titles: Sequence[str] | None = None,
) -> list[list[int]]:
    """Write projections of the same points, side by side, as a picture.

    Args:
        path: The file; its suffix (`.png`, `.pdf`, `.svg`) chooses the format.
        panels: One or more, for instance one per layer.
        groups: As for `draw_projection`, like the labels.
        labels: Of each point.
        titles: One per panel.

    Returns:
        Of each panel, which labels were left out.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the suffix is no picture's, or as for `draw_projection`.
        FileNotFoundError: If the folder does not exist.
    """
    path = picture_path(path)
    if titles is None:
        titles = [""] * len(panels)
    side = 6.0 if labels is not None else 4.2
    figure = new_figure(side * len(panels), side, layout=None)
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.14, top=0.93, wspace=0.12)
    left_out = []
    for i, (projection, title) in enumerate(zip(panels, titles, strict=True)):
        axes = figure.add_subplot(1, len(panels), i + 1)
        left_out.append(
            draw_projection(axes, projection, groups=groups, labels=labels, title=title)
        )
        if groups is not None and i:  # the first panel's legend serves all
            axes.get_legend().remove()
    write_picture(figure, path)
    return left_out


def _pca(vectors: Float[np.ndarray, "points dim"]) -> Projection:
    centred = vectors - vectors.mean(axis=0)
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    shape = np.zeros((len(vectors), 2))
    n = min(2, len(values))
    largest = np.abs(right[:n]).argmax(axis=1)
    signs = np.where(right[np.arange(n), largest] < 0, -1.0, 1.0)
    shape[:, :n] = left[:, :n] * values[:n] * signs
    variance = np.square(values)
    of = [float(v / variance.sum()) if variance.sum() > 0 else 0.0 for v in variance[:2]]
    return Projection(shape, "pca", (of[0], of[1] if len(of) > 1 else 0.0))


def _unit(vectors: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points dim"]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def _frame(axes: Any, projection: Projection, title: str) -> None:
    axes.margins(0.09)
    axes.autoscale_view()
    # They stay as they are when labels come.
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())
    if projection.shares is None:  # places mean nothing here, only nearness does
        axes.set_xticks([])
        axes.set_yticks([])
    else:
        axes.set_xlabel(f"first component ({projection.shares[0]:.0%} of the variance)", fontsize=8)
        axes.set_ylabel(f"second ({projection.shares[1]:.0%})", fontsize=8)
        axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title, fontsize=9)


def _label(
    axes: Any,
    points: Float[np.ndarray, "points plane"],
    labels: Sequence[str],
    colours: Sequence[str],
    size: float,
) -> list[int]:
    """Write labels where nothing is yet; which ones found no place."""
    per_point = axes.figure.dpi / 72
    places = axes.transData.transform(points) / per_point
    bounds = np.array(axes.get_window_extent().extents) / per_point
    # What is taken: boxes of left, bottom, right, top.
    taken = np.concatenate([places - size / 2, places + size / 2], axis=1)
    angles = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    left_out = []
    for i, text in enumerate(labels):
        if not text.strip():
            continue
        shown = plain([textwrap.shorten(text, LABEL_LETTERS, placeholder=" …")])[0]
        label = axes.annotate(
            shown, points[i], xytext=(0, 0), textcoords="offset points", fontsize=7,
            color=text_colour(colours[i]), ha="center", va="center",
        )  # fmt: skip
        label.set_in_layout(False)
        extent = label.get_window_extent()
        half = np.array([extent.width, extent.height]) / per_point / 2 + ROOM
        for reach in REACHES:
            offset = _free(places[i], half, reach, angles, taken, bounds)
            if offset is not None:
                break
        else:
            label.remove()
            left_out.append(i)
            continue
        label.set_position(tuple(offset))
        middle = places[i] + offset
        boxes = [np.concatenate([middle - half, middle + half])]
        if reach > REACHES[0]:
            stops = _line(places[i], middle, half)
            boxes += [np.concatenate([stop - 0.5, stop + 0.5]) for stop in stops]
            ends = axes.transData.inverted().transform(np.array([places[i], stops[-1]]) * per_point)
            axes.plot(*ends.T, color=colours[i], linewidth=0.5, alpha=0.6, zorder=0.5)
        taken = np.concatenate([taken, boxes])
    return left_out


def _free(
    place: np.ndarray,
    half: np.ndarray,
    reach: float,
    angles: np.ndarray,
    taken: np.ndarray,
    bounds: np.ndarray,
) -> np.ndarray | None:
    """Where a label's middle may be, seen from its point, so far away; None if nowhere."""
    for angle in angles:
        towards = np.array([np.cos(angle), np.sin(angle)])
        # Its nearest edge or corner is so far from the point.
        offset = towards * reach + np.sign(towards.round(6)) * half
        low, high = place + offset - half, place + offset + half
        if (low < bounds[:2]).any() or (high > bounds[2:]).any():
            continue
        apart = (taken[:, :2] >= high).any(axis=1) | (taken[:, 2:] <= low).any(axis=1)
        if not apart.all():
            continue
        if reach > REACHES[0] and any(
            ((taken[:, :2] < stop) & (stop < taken[:, 2:])).all(axis=1).any()
            for stop in _line(place, place + offset, half)[2:]
        ):
            continue
        return offset
    return None


def _line(place: np.ndarray, middle: np.ndarray, half: np.ndarray) -> list[np.ndarray]:
    """Stops on the way from a point to the edge of its label."""
    edge = np.clip(place, middle - half, middle + half)
    n = max(3, int(np.linalg.norm(edge - place) / 2))
    return [place + (edge - place) * k / n for k in range(n + 1)]
