"""Pictures: heat maps of similarity, and curves of training runs.

Each picture has a function that draws into an Axes of yours, and one that writes a file.
"""

import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

LABEL_WIDTH = 44
CELL_INCHES = 0.62
COLOURS = "cividis"  # the same to colour-blind eyes, and in grey
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of Okabe and Ito, which colour-blind eyes tell apart."""
LINE_STYLES = ("-", "--", ":")
"""What tells curves apart when colours come round again."""
FEW_POINTS = 40
"""Up to here every point of a curve is marked."""
LABEL_POINTS = 9
"""Height of a curve's label, which keeps it from the next."""

Curves = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Name of each curve, its places along x and its heights."""


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
    axes.set_yticks(range(n), _plain(names) if row_labels else [str(i + 1) for i in range(n)])
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
    path = _picture(path)
    side = CELL_INCHES * max(3, len(labels))
    figure = _figure(3.2 + (side + 0.4) * len(matrices), side + 0.8)
    limits = colour_limits(matrices)
    for i, (matrix, title) in enumerate(zip(matrices, titles, strict=True)):
        axes = figure.add_subplot(1, len(matrices), i + 1)
        image = draw_heat_map(axes, matrix, labels, title=title, limits=limits, row_labels=i == 0)
        if i == len(matrices) - 1:
            bar = figure.colorbar(image, ax=axes, shrink=0.8)
            bar.set_label("cosine", fontsize=8)
            bar.ax.tick_params(labelsize=8)
    _write(figure, path)


def draw_curves(axes: Any, curves: Curves, *, xlabel: str, ylabel: str, log: bool = False) -> None:
    """Draw curves, each with its name at its end, where no two names overlap.

    Args:
        axes: Matplotlib's; set its size and limits before, as labels are placed by them.
        curves: Points in the order of x; one without points is left out, but keeps its colour.
        xlabel: What x is.
        ylabel: What the height is.
        log: Whether heights are on a logarithmic scale.

    Raises:
        ValueError: If a curve has more places than heights, or fewer.
    """
    if log:
        axes.set_yscale("log")
    ends = []
    for i, (name, (x, y)) in enumerate(curves.items()):
        if len(x) != len(y):
            raise ValueError(f"curve {name!r} has {len(x)} places, but {len(y)} heights")
        if not len(x):  # its colour stays its own, in the next panel too
            continue
        (line,) = axes.plot(
            x,
            y,
            color=LINE_COLOURS[i % len(LINE_COLOURS)],
            linestyle=LINE_STYLES[i // len(LINE_COLOURS) % len(LINE_STYLES)],
            marker="o" if len(x) <= FEW_POINTS else "",
            markersize=3,
            linewidth=1.6,
            clip_on=False,  # the last point lies on the edge
        )
        ends.append((x[-1], y[-1], name, line.get_color()))
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_xlim(left=0)
    if log:
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    _label_ends(axes, ends)


def _label_ends(axes: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names beside the right edge, at the heights of the curves' ends as far as there is room."""
    scale = axes.figure.dpi / 72
    wanted = sorted(
        (float(axes.transData.transform((x, y))[1]), x, y, name, colour)
        for x, y, name, colour in ends
    )
    right = float(axes.transAxes.transform((1, 0))[0])
    heights: list[float] = []
    for height, *_ in wanted:
        heights.append(max(height, heights[-1] + LABEL_POINTS * scale) if heights else height)
    # What was pushed up is let down again by half of the push, as one block.
    pushed = max((a - b[0] for a, b in zip(heights, wanted, strict=True)), default=0.0) / 2
    for height, (_, x, y, name, colour) in zip(heights, wanted, strict=True):
        at = axes.transData.transform((x, y))
        offset = ((right - at[0]) / scale + 6, (height - pushed - at[1]) / scale)
        axes.annotate(
            _plain([name])[0],
            (x, y),
            xytext=offset,
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.5},
        )


def save_curves(path: str | Path, rows: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Write panels of curves as a picture.

    Args:
        path: The file; its suffix (`.png`, `.pdf`, `.svg`) chooses the format.
        rows: Rows of panels; each panel is what `draw_curves` takes after its axes, by name.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the suffix is no picture's, or as for `draw_curves`.
        FileNotFoundError: If the folder does not exist.
    """
    path = _picture(path)
    n_columns = max(map(len, rows))
    figure = _figure(6.2 * n_columns, 3.6 * len(rows), layout=None)
    figure.subplots_adjust(
        left=0.65 / (6.2 * n_columns), right=1 - 1.5 / (6.2 * n_columns), wspace=0.45, hspace=0.25
    )
    for i, row in enumerate(rows):
        for j, panel in enumerate(row):
            axes = figure.add_subplot(len(rows), n_columns, i * n_columns + j + 1)
            draw_curves(axes, **panel)
    _write(figure, path)


def _picture(path: str | Path) -> Path:
    """The path of a picture that can be written; what stands in its way is said before drawing."""
    path = Path(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        raise ImportError(
            'pictures need matplotlib, which is not installed: pip install "elmo-torch[plots]"'
        ) from None
    if path.suffix[1:].lower() not in FigureCanvasAgg.get_supported_filetypes():
        raise ValueError(f"{path} is no name of a picture: end it in .png, .pdf or .svg")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {path.parent} does not exist")
    return path


def _figure(width: float, height: float, layout: Any = "constrained") -> Any:
    """A figure that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def _write(figure: Any, path: Path) -> None:
    """Write a picture beside its place, and rename it."""
    beside = path.with_name(f"{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        figure.savefig(beside, dpi=200, bbox_inches="tight")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _plain(labels: Sequence[str]) -> list[str]:
    """Labels as they are: a dollar sign does not begin a formula."""
    return [label.replace("$", r"\$") for label in labels]
