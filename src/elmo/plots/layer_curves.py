"""A measure at each layer, as curves named at their ends; the mean of layers stands apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo.plots.curves import LINE_STYLES, label_ends
from elmo.plots.figure import LINE_COLOURS, N_COLUMNS, new_figure, picture_path, write_picture

LEFT_INCHES = 0.65
"""For what stands left of the axes."""
AXES_INCHES = 3.2
LINE_INCHES = 3.2
"""Height of a row of panels."""
NAME_INCHES = 0.068
"""A letter of a name, about."""

LayerValues = Mapping[int | None, float | None]
"""By number of the layer, None for the mean of layers; a value that is None is not drawn."""


def draw_layer_curves(
    axes: Any,
    curves: Mapping[str, LayerValues],
    *,
    ylabel: str,
    levels: Mapping[str, float] | None = None,
    title: str = "",
) -> None:
    """Draw the values of each name by layer: joined from layer to layer, their mean a point behind.

    Args:
        axes: Matplotlib's; set its size before, as names are placed by it.
        curves: Values of each name; a name without any is left out, but keeps its colour.
        ylabel: What a value is.
        levels: What does not depend on a layer, for instance a baseline: dotted, across.
        title: Above.
    """
    most = max((k for values in curves.values() for k in values if k is not None), default=0)
    with_mean = any(None in values for values in curves.values())
    right = most + 1 if with_mean else most
    ends = []
    for i, (name, values) in enumerate(curves.items()):
        colour = LINE_COLOURS[i % len(LINE_COLOURS)]
        points = sorted(
            (layer, value)
            for layer, value in values.items()
            if layer is not None and value is not None
        )
        if points:
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=colour,
                linestyle=LINE_STYLES[i // len(LINE_COLOURS) % len(LINE_STYLES)],
                marker="o",
                markersize=4,
                linewidth=1.6,
                clip_on=False,
            )
        mean = values.get(None)
        if mean is not None:
            points.append((right, mean))
            axes.plot(right, mean, "D", color=colour, markersize=5, clip_on=False)
        if points:
            ends.append((float(points[-1][0]), float(points[-1][1]), name, colour))
    for name, level in (levels or {}).items():
        axes.axhline(level, color="0.4", linestyle=":", linewidth=1.2)
        ends.append((float(right), float(level), name, "0.3"))
    axes.set_xticks(
        range(right + 1), [*(str(n) for n in range(most + 1)), *(["mean"] if with_mean else [])]
    )
    axes.set_xlim(-0.1, right + 0.1)
    axes.set_xlabel("layer")
    axes.set_ylabel(ylabel)
    axes.margins(y=0.12)
    axes.set_ylim(axes.get_ylim())
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title, fontsize=9)
    label_ends(axes, ends)


def save_layer_curves(path: str | Path, panels: Sequence[Mapping[str, Any]]) -> None:
    """Write panels of values by layer as a picture, two in a row.

    Args:
        path: The file; its suffix (`.png`, `.pdf`, `.svg`) chooses the format.
        panels: Each is what `draw_layer_curves` takes after its axes, by name.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the suffix is no picture's.
        FileNotFoundError: If the folder does not exist.
    """
    path = picture_path(path)
    n_lines = -(-len(panels) // N_COLUMNS)
    # Each column with room for its names, so that none runs into the next panel.
    rooms = [0.3 + NAME_INCHES * _longest(panels[c::N_COLUMNS]) for c in range(N_COLUMNS)]
    rooms = rooms[: len(panels)]
    width = sum(rooms) + (LEFT_INCHES + AXES_INCHES) * len(rooms)
    figure = new_figure(width, LINE_INCHES * n_lines, layout=None)
    for k, panel in enumerate(panels):
        line, column = divmod(k, N_COLUMNS)
        left = LEFT_INCHES * (column + 1) + AXES_INCHES * column + sum(rooms[:column])
        bottom = (n_lines - 1 - line + 0.15) / n_lines
        axes = figure.add_axes((left / width, bottom, AXES_INCHES / width, 0.75 / n_lines))
        draw_layer_curves(axes, **panel)
    write_picture(figure, path)


def _longest(panels: Sequence[Mapping[str, Any]]) -> int:
    """Letters of the longest name."""
    names = [name for panel in panels for name in (*panel["curves"], *(panel.get("levels") or {}))]
    return max(map(len, names), default=0)
