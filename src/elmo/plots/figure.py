"""What all pictures share: figures that belong to no window, colours, files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of Okabe and Ito, which colour-blind eyes tell apart."""

N_COLUMNS = 2
"""Panels in a row, at most: more are too small to read on a page."""
TEXT_SHADE = 0.75
"""Of a colour: light ones are hard to read as text."""


def picture_path(path: str | Path) -> Path:
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


def new_figure(width: float, height: float, layout: Any = "constrained") -> Any:
    """A figure that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def write_picture(figure: Any, path: Path) -> None:
    """Write a picture beside its place, and rename it."""
    beside = path.with_name(f"{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        figure.savefig(beside, dpi=200, bbox_inches="tight")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def plain(labels: Sequence[str]) -> list[str]:
    """Labels as they are: a dollar sign does not begin a formula."""
    return [label.replace("$", r"\$") for label in labels]


def text_colour(colour: str) -> tuple[float, ...]:
    """A darker one of the same hue."""
    from matplotlib.colors import to_rgb

    return tuple(TEXT_SHADE * part for part in to_rgb(colour))
