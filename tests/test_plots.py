import re
from itertools import pairwise

import numpy as np
import pytest

from elmo.plots import (
    colour_limits,
    draw_curves,
    draw_heat_map,
    draw_layer_weights,
    draw_scores,
    save_curves,
    save_heat_maps,
    save_layer_weights,
    save_scores,
)
from elmo.plots.curves import LABEL_POINTS
from elmo.plots.figure import LINE_COLOURS, text_colour

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


CURVES = {
    "a $ run": ([1.0, 2.0], [9.0, 4.0]),
    "none": ([], []),
    "b": ([1.0, 2.0, 3.0], [8.0, 6.0, 4.1]),
}


def test_each_curve_is_drawn_in_its_colour_and_named_in_a_darker_one(axes):
    draw_curves(axes, CURVES, xlabel="minutes", ylabel="perplexity", log=True)
    assert [list(line.get_ydata()) for line in axes.lines] == [[9, 4], [8, 6, 4.1]]
    names = {text.get_text(): text.get_color() for text in axes.texts}
    assert names == {r"a \$ run": text_colour(LINE_COLOURS[0]), "b": text_colour(LINE_COLOURS[2])}
    assert [line.get_color() for line in axes.lines] == [LINE_COLOURS[0], LINE_COLOURS[2]]
    assert axes.get_xlabel() == "minutes" and axes.get_yscale() == "log"


def test_names_of_curves_that_end_together_do_not_overlap(axes):
    curves = {f"run {i}": ([0.0, 1.0], [2.0, 1 + i / 1000]) for i in range(7)}
    draw_curves(axes, curves, xlabel="", ylabel="")
    points = 72 / axes.figure.dpi
    heights = [axes.transData.transform(t.xy)[1] * points + t.xyann[1] for t in axes.texts]
    assert min(np.diff(sorted(heights))) >= LABEL_POINTS - 1e-6


def test_curves_are_written_as_a_picture_of_rows_of_panels(tmp_path):
    panel = {"curves": CURVES, "xlabel": "minutes", "ylabel": "perplexity"}
    save_curves(tmp_path / "runs.svg", [[panel, {**panel, "log_x": True}], [panel]])
    assert (tmp_path / "runs.svg").stat().st_size > 1000
    with pytest.raises(ValueError, match="curve 'a' has 2 places, but 1 heights"):
        save_curves(tmp_path / "runs.png", [[{**panel, "curves": {"a": ([1.0, 2.0], [1.0])}}]])
    assert [p.name for p in tmp_path.iterdir()] == ["runs.svg"]


SCORES = {"none": [70.5, 71.5, 71.0], "elmo": [75.0, 75.4, 74.9]}


def test_scores_are_told_with_mean_and_deviation_and_all_runs_shown(axes):
    draw_scores(axes, SCORES, xlabel="F1 (%)")
    assert [text.get_text() for text in axes.texts] == ["71.00 ± 0.50", "75.10 ± 0.26"]
    points = [line.get_xdata() for line in axes.lines]
    assert [sorted(p) for p in points] == [sorted(values) for values in SCORES.values()]
    means = [strokes.get_segments()[0][0, 0] for strokes in axes.collections]
    assert means == pytest.approx([71.0, 75.1]) and not axes.patches
    left, right = axes.get_xlim()
    assert left < 70.5 and right > 75.4


def test_an_axis_of_scores_that_are_not_negative_begins_at_0_at_the_least(axes):
    draw_scores(axes, {"none": [10.0], "elmo": [60.0]}, xlabel="F1")
    assert axes.get_xlim()[0] == 0
    draw_scores(axes, {"none": [-0.1], "elmo": [0.6]}, xlabel="correlation")
    assert axes.get_xlim()[0] < -0.1


def test_a_name_without_scores_is_refused(axes):
    with pytest.raises(ValueError, match="elmo has no score to draw"):
        draw_scores(axes, {"none": [1.0], "elmo": []}, xlabel="F1")


def test_layer_weights_fill_the_row_in_order(axes):
    draw_layer_weights(axes, {"ner": [0.2, 0.5, 0.3], "srl": [0.02, 0.9, 0.08]})
    widths = [bar.get_width() for bar in axes.patches][:6]
    assert widths == pytest.approx([0.2, 0.5, 0.3, 0.02, 0.9, 0.08])
    assert [text.get_text() for text in axes.texts] == ["0.20", "0.50", "0.30", "0.90", "0.08"]


def test_scores_and_weights_are_written(tmp_path):
    save_scores(tmp_path / "s.png", {f"{task}: F1 (%)": SCORES for task in ("NER", "SRL", "SNLI")})
    save_layer_weights(tmp_path / "w.svg", {"input": {"ner": [0.2, 0.8]}, "output": {"ner": [1.0]}})
    assert (tmp_path / "s.png").stat().st_size > 1000
    assert (tmp_path / "w.svg").read_text().startswith("<?xml")
