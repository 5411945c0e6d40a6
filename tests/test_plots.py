import re
from itertools import pairwise

import numpy as np
import pytest

from elmo.plots import colour_limits, draw_heat_map, save_heat_maps

MATRIX = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.7], [0.4, 0.7, 1.0]], dtype="f4")
LABELS = ["We sat on the river [bank].", "It cost $5, not $6.", "a long text " * 20]


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure(figsize=(6, 3), layout="constrained").add_subplot()


def test_a_heat_map_shows_every_number_and_every_text(axes):
    draw_heat_map(axes, MATRIX, LABELS, title="layer 1")
    numbers = [text.get_text() for text in axes.texts]
    assert numbers == [f"{cosine:.2f}" for cosine in MATRIX.flatten()]
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names[0] == "1  We sat on the river [bank]."
    assert names[1] == r"2  It cost \$5, not \$6."
    assert names[2].startswith("3  a long text") and names[2].endswith("…")
    assert axes.get_title() == "layer 1"


def test_labels_of_rows_do_not_overlap(axes):
    figure = axes.figure
    draw_heat_map(axes, MATRIX, LABELS)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [t.get_window_extent(canvas.get_renderer()) for t in axes.get_yticklabels()]
    for upper, lower in pairwise(boxes):
        assert not upper.overlaps(lower)


def test_colours_span_what_is_off_the_diagonal_and_never_blow_up_trifles():
    assert colour_limits([MATRIX]) == pytest.approx((0.2, 0.7))
    assert colour_limits([MATRIX, MATRIX / 2]) == pytest.approx((0.1, 0.7))
    low, high = colour_limits([np.ones((2, 2), dtype="f4")])
    assert high - low == pytest.approx(0.05)


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_pictures_are_written_whole(tmp_path, suffix):
    path = tmp_path / f"map.{suffix}"
    save_heat_maps(path, [MATRIX, MATRIX], LABELS, ["layer 0", "layer 1"])
    assert path.stat().st_size > 1000
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_is_no_picture_is_refused(tmp_path, axes):
    with pytest.raises(ValueError, match=re.escape("end it in .png, .pdf or .svg")):
        save_heat_maps(tmp_path / "map.txt", [MATRIX], LABELS, [""])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        save_heat_maps(tmp_path / "no" / "map.png", [MATRIX], LABELS, [""])
    with pytest.raises(ValueError, match="2 labels were given for a matrix of 3 rows"):
        draw_heat_map(axes, MATRIX, LABELS[:2])
