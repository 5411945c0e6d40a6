"""Curves, each with its name at its end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo.plots.figure import (
    LINE_COLOURS,
    new_figure,
    picture_path,
    plain,
    text_colour,
    write_picture,
)

LINE_STYLES = ("-", "--", ":")
"""What tells curves apart when colours come round again."""
FEW_POINTS = 40
"""Up to here every point of a curve is marked."""
LABEL_POINTS = 9
"""Height of a curve's label, which keeps it from the next."""

Curves = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Name of each curve, its places along x and its heights."""


def draw_curves(
    axes: Any,
    curves: Curves,
    *,
    xlabel: str,
    ylabel: str,
    log: bool = False,
    log_x: bool = False,
) -> None:
    """Draw curves, each with its name at its end, where no two names overlap.

    Args:
        axes: Matplotlib's; set its size and limits before, as labels are placed by them.
        curves: Points in the order of x; one without points is left out, but keeps its colour.
        xlabel: What x is.
        ylabel: What the height is.
        log: Whether heights are on a logarithmic scale.
        log_x: Whether places are.

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
    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.set_xlim(left=0)
    if log:
        axes.yaxis.set_major_formatter("{x:g}")
        low, high = axes.get_ylim()
        axes.yaxis.set_minor_formatter("{x:g}" if high < 10 * low else "")
        axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    label_ends(axes, ends)


def label_ends(axes: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write names beside the right edge, as near to the curves' ends as there is room.

    Args:
        axes: Matplotlib's.
        ends: Of each curve, its last point, its name and its colour.
    """
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
            plain([name])[0],
            (x, y),
            xytext=offset,
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=text_colour(colour),
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
    path = picture_path(path)
    n_columns = max(map(len, rows))
    figure = new_figure(6.2 * n_columns, 3.6 * len(rows), layout=None)
    figure.subplots_adjust(
        left=0.65 / (6.2 * n_columns), right=1 - 1.5 / (6.2 * n_columns), wspace=0.45, hspace=0.25
    )
    for i, row in enumerate(rows):
        for j, panel in enumerate(row):
            axes = figure.add_subplot(len(rows), n_columns, i * n_columns + j + 1)
            draw_curves(axes, **panel)
    write_picture(figure, path)
