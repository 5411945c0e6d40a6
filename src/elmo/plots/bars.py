"""Scores side by side, a point for each run; weights of layers as bars."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from elmo.plots.figure import (
    LINE_COLOURS,
    N_COLUMNS,
    new_figure,
    picture_path,
    plain,
    write_picture,
)
from elmo.seed_scores import mean_told

ROW_INCHES = 0.42


def draw_scores(axes: Any, scores: Mapping[str, Sequence[float]], *, xlabel: str) -> None:
    """Draw the mean of each name's scores as a stroke, with its number, and each score as a point.

    The axis begins near the least score, as differences are what such a picture is looked at for
    (so there are no bars, whose lengths would not be the scores), and below 0 only where a score
    is.

    Args:
        axes: Matplotlib's.
        scores: Of each name, one per run.
        xlabel: What a score is.

    Raises:
        ValueError: If a name has no score.
    """
    for name, values in scores.items():
        if not values:
            raise ValueError(f"{name} has no score to draw")
    every = [value for values in scores.values() for value in values]
    low, high = min(every), max(every)
    room = max(high - low, 1.0)
    left, right = low - 0.35 * room, high + 0.45 * room
    if low >= 0:
        left = max(left, 0.0)
    for row, values in enumerate(scores.values()):
        mean = fmean(values)
        colour = LINE_COLOURS[row % len(LINE_COLOURS)]
        axes.vlines(mean, row - 0.26, row + 0.26, color=colour, linewidth=2.5)
        axes.plot(values, [row] * len(values), "o", color=colour, alpha=0.75, markersize=5)
        axes.annotate(
            mean_told(values),
            (max(values), row),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(scores)), plain(list(scores)))
    axes.set_xlim(left, right)
    axes.set_xlabel(xlabel)
    axes.grid(axis="both", color="0.9")
    axes.set_axisbelow(True)
    axes.set_ylim(len(scores) - 0.5, -0.5)
    axes.spines[["top", "right"]].set_visible(False)


def save_scores(path: str | Path, panels: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Write panels of scores as a picture, two in a row.

    Args:
        path: The file; its suffix (`.png`, `.pdf`, `.svg`) chooses the format.
        panels: By what a score is, the label of its axis, what `draw_scores` draws.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the suffix is no picture's, or as for `draw_scores`.
        FileNotFoundError: If the folder does not exist.
    """
    path = picture_path(path)
    n_columns = min(N_COLUMNS, len(panels))
    n_lines = -(-len(panels) // n_columns)
    height = 1.1 + ROW_INCHES * max(map(len, panels.values()))
    figure = new_figure(6.4 * n_columns, height * n_lines)
    for i, (xlabel, scores) in enumerate(panels.items()):
        axes = figure.add_subplot(n_lines, n_columns, i + 1)
        draw_scores(axes, scores, xlabel=xlabel)
    write_picture(figure, path)


def draw_layer_weights(
    axes: Any, weights: Mapping[str, Sequence[float]], *, title: str = ""
) -> None:
    """Draw the weight of each layer, a bar per layer and a row per name (figure 2 of the paper).

    Args:
        axes: Matplotlib's.
        weights: softmax(w) of each name, which sum to 1.
        title: Above the bars.
    """
    n_layers = max(map(len, weights.values()))
    for row, values in enumerate(weights.values()):
        start = 0.0
        for layer, weight in enumerate(values):
            colour = LINE_COLOURS[layer % len(LINE_COLOURS)]
            axes.barh(row, weight, left=start, height=0.62, color=colour, alpha=0.75)
            if weight > 0.06:
                axes.text(
                    start + weight / 2, row, f"{weight:.2f}", ha="center", va="center", fontsize=8
                )
            start += weight
    axes.set_yticks(range(len(weights)), plain(list(weights)))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("weight after the softmax")
    axes.spines[["top", "right"]].set_visible(False)
    names = [f"layer {layer}" for layer in range(n_layers)]
    handles = [
        axes.barh(0, 0, color=LINE_COLOURS[k % len(LINE_COLOURS)], alpha=0.75)[0]
        for k in range(n_layers)
    ]
    axes.legend(
        handles,
        names,
        ncols=n_layers,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
        fontsize=8,
    )
    if title:
        axes.set_title(title, fontsize=9, pad=22)


def save_layer_weights(
    path: str | Path, panels: Mapping[str, Mapping[str, Sequence[float]]]
) -> None:
    """Write panels of layer weights as a picture, side by side.

    Args:
        path: The file; its suffix (`.png`, `.pdf`, `.svg`) chooses the format.
        panels: By title, what `draw_layer_weights` draws.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the suffix is no picture's.
        FileNotFoundError: If the folder does not exist.
    """
    path = picture_path(path)
    n_rows = max(map(len, panels.values()))
    figure = new_figure(5.2 * len(panels), 1.5 + ROW_INCHES * n_rows)
    for i, (title, weights) in enumerate(panels.items()):
        draw_layer_weights(figure.add_subplot(1, len(panels), i + 1), weights, title=title)
    write_picture(figure, path)
