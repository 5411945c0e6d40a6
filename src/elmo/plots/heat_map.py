"""Similarity matrices with their numbers.

Axes: texts (twice).
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from elmo.plots.figure import new_figure, picture_path, plain, write_picture

LABEL_WIDTH = 44
CELL_INCHES = 0.62
COLOURS = "cividis"  # the same to colour-blind eyes, and in grey


def draw_heat_map(
    axes: Any,
    matrix: Float[np.ndarray, "texts texts"],
    labels: Sequence[str],
    *,
    title: str = "",
    limits: tuple[float, float] | None = None,
    row_labels: bool = True,
) -> Any:
    """Draw a similarity matrix with its numbers: texts by name on the rows, by number on columns.

    Args:
        axes: Matplotlib's.
        matrix: Cosines.
        labels: One text per row, wrapped where long.
        title: Above the matrix.
        limits: What the darkest and the lightest colour mean; None for the least and the greatest
            number off the diagonal.
        row_labels: Whether to write the texts; otherwise numbers only.

    Returns:
        Matplotlib's image, for a colour bar.
    """
    n = len(matrix)
    if len(labels) != n:
        raise ValueError(f"{len(labels)} labels were given for a matrix of {n} rows: one each")
    low, high = limits or colour_limits([matrix])
    image = axes.imshow(matrix, cmap=COLOURS, vmin=low, vmax=high)
    for i in range(n):
        for j in range(n):
            dark = (matrix[i, j] - low) / (high - low) < 0.5
            axes.text(
                j,
                i,
                f"{matrix[i, j]:.2f}",
                ha="center",
                va="center",
                fontsize=8 if n <= 12 else 6,
                color="white" if dark else "black",
            )
    names = [
        "\n".join(textwrap.wrap(f"{i}  {label}", LABEL_WIDTH, max_lines=2, placeholder=" …"))
        for i, label in enumerate(labels, start=1)
    ]
    axes.set_xticks(range(n), [str(i + 1) for i in range(n)])
    axes.set_yticks(range(n), plain(names) if row_labels else [str(i + 1) for i in range(n)])
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.tick_top()
    for side in axes.spines.values():
        side.set_visible(False)
    if title:
        axes.set_title(title, fontsize=9)
    return image


def colour_limits(
    matrices: Sequence[Float[np.ndarray, "texts texts"]],
) -> tuple[float, float]:
    """Least and greatest number off the diagonals, but never so close that trifles look large."""
    off = np.concatenate([m[~np.eye(len(m), dtype=bool)] for m in matrices])
    low, high = (float(off.min()), float(off.max())) if len(off) else (0.0, 1.0)
    spread = max(0.0, 0.05 - (high - low)) / 2
    return low - spread, high + spread


def save_heat_maps(
    path: str | Path,
    matrices: Sequence[Float[np.ndarray, "texts texts"]],
    labels: Sequence[str],
    titles: Sequence[str],
) -> None:
    """Write similarity matrices of the same texts, side by side, as a picture.

    Args:
        path: The file; its suffix (`.png`, `.pdf`, `.svg`) chooses the format.
        matrices: One or more.
        labels: One text per row.
        titles: One per matrix.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the suffix is no picture's.
        FileNotFoundError: If the folder does not exist.
    """
    path = picture_path(path)
    side = CELL_INCHES * max(3, len(labels))
    figure = new_figure(3.2 + (side + 0.4) * len(matrices), side + 0.8)
    limits = colour_limits(matrices)
    for i, (matrix, title) in enumerate(zip(matrices, titles, strict=True)):
        axes = figure.add_subplot(1, len(matrices), i + 1)
        image = draw_heat_map(axes, matrix, labels, title=title, limits=limits, row_labels=i == 0)
        if i == len(matrices) - 1:
            bar = figure.colorbar(image, ax=axes, shrink=0.8)
            bar.set_label("cosine", fontsize=8)
            bar.ax.tick_params(labelsize=8)
    write_picture(figure, path)
