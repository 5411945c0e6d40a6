import numpy as np
import pytest

from elmo.plots import draw_layer_curves, save_layer_curves
from elmo.plots.curves import LABEL_POINTS
from elmo.plots.figure import LINE_COLOURS

CURVES = {
    "elmo": {0: 50.0, 1: 60.0, 2: 58.0, None: 61.0},
    "static": {0: 52.0},
    "nothing": {0: None},
    "a $": {0: 40.0, 2: 60.5, 1: None},
}


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure(figsize=(5, 3)).add_subplot()


def test_layers_are_joined_and_their_mean_stands_behind(axes):
    draw_layer_curves(axes, CURVES, ylabel="accuracy", levels={"chance": 45.0}, title="WiC")
    lines = {
        (tuple(line.get_xdata()), tuple(line.get_ydata()), line.get_color()) for line in axes.lines
    }
    assert ((0, 1, 2), (50.0, 60.0, 58.0), LINE_COLOURS[0]) in lines
    assert ((3,), (61.0,), LINE_COLOURS[0]) in lines
    assert ((0,), (52.0,), LINE_COLOURS[1]) in lines
    assert ((0, 2), (40.0, 60.5), LINE_COLOURS[3]) in lines  # a value that is none is passed over
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1", "2", "mean"]
    assert {text.get_text() for text in axes.texts} == {"elmo", "static", r"a \$", "chance"}
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("layer", "accuracy", "WiC")


def test_without_a_mean_there_is_no_place_for_it(axes):
    draw_layer_curves(axes, {"elmo": {0: 1.0, 1: 2.0}}, ylabel="")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1"]


def test_names_of_curves_and_levels_do_not_overlap(axes):
    curves = {f"encoder {i}": {0: 0.5, 1: 0.5 + i / 1000} for i in range(5)}
    draw_layer_curves(axes, curves, ylabel="", levels={"chance": 0.5})
    points = 72 / axes.figure.dpi
    heights = [axes.transData.transform(t.xy)[1] * points + t.xyann[1] for t in axes.texts]
    assert len(heights) == 6
    assert min(np.diff(sorted(heights))) >= LABEL_POINTS - 1e-6


def test_panels_are_written(tmp_path):
    panel = {"curves": CURVES, "ylabel": "accuracy"}
    for n in (1, 2, 3):  # two in a row
        save_layer_curves(tmp_path / f"{n}.svg", [panel] * n)
        assert (tmp_path / f"{n}.svg").read_text().count('id="axes_') == n
