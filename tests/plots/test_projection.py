import re
from itertools import combinations

import numpy as np
import pytest

from elmo.plots.figure import LINE_COLOURS
from elmo.plots.projection import Projection, draw_projection, project, save_projection

GROUPS = ["river", "money", "a $ tilt"] * 8


@pytest.fixture
def axes():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4), dpi=100)
    FigureCanvasAgg(figure)
    return figure.add_subplot()


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(24, 6)) + 3 * np.arange(3).repeat(2)[None] * (np.arange(24) % 3)[:, None]
    )


def test_principal_components_by_hand():
    # On a line along (3, 4), two apart.
    line = np.array([[0.0, 0.0], [1.2, 1.6], [2.4, 3.2]])
    found = project(line)
    np.testing.assert_allclose(found.points, [[-2, 0], [0, 0], [2, 0]], atol=1e-12)
    assert found.shares == pytest.approx((1, 0))


def test_principal_components_agree_with_scikit_learn(vectors):
    from sklearn.decomposition import PCA

    theirs = PCA(n_components=2)
    points = theirs.fit_transform(vectors)
    found = project(vectors)
    np.testing.assert_allclose(np.abs(found.points), np.abs(points), atol=1e-9)
    assert found.shares == pytest.approx(tuple(theirs.explained_variance_ratio_))


def test_tsne_is_the_same_for_the_same_seed_and_knows_directions_alone(vectors):
    found = project(vectors, "tsne", seed=1)
    again = project(vectors, "tsne", seed=1)
    np.testing.assert_array_equal(found.points, again.points)
    assert found.points.shape == (24, 2) and found.shares is None
    assert np.isfinite(project(vectors[:3], "tsne").points).all()


def test_umap_lays_out_or_says_how_to_install_it(vectors):
    try:
        import umap  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="pip install umap-learn; or choose pca or tsne"):
            project(vectors, "umap")
    else:
        assert project(vectors, "umap").points.shape == (24, 2)


def test_what_has_no_place_in_a_plane_is_refused(vectors):
    with pytest.raises(ValueError, match="method is 'mds', but expected one of pca, tsne, umap"):
        project(vectors, "mds")
    with pytest.raises(ValueError, match="2 vectors were given, but at least 3"):
        project(vectors[:2])
    vectors[0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        project(vectors)


def boxes(axes):
    axes.figure.canvas.draw()
    return [text.get_window_extent() for text in axes.texts]


@pytest.mark.parametrize("n", [6, 24])
def test_labels_overlap_neither_each_other_nor_any_point(axes, n):
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, 2))
    labels = [f"usage number {i}" for i in range(n)]
    left_out = draw_projection(axes, Projection(points, "pca", (0.5, 0.2)), labels=labels)
    drawn = boxes(axes)
    assert len(drawn) == n - len(left_out) and len(drawn) >= 6
    assert {text.get_text() for text in axes.texts} == {
        label for i, label in enumerate(labels) if i not in left_out
    }
    assert not any(a.overlaps(b) for a, b in combinations(drawn, 2))
    places = axes.transData.transform(points)
    assert not any(box.contains(*place) for box in drawn for place in places)
    inside = axes.get_window_extent()
    assert all(inside.x0 <= b.x0 and b.x1 <= inside.x1 for b in drawn)
    assert all(inside.y0 <= b.y0 and b.y1 <= inside.y1 for b in drawn)


def test_labels_without_room_are_told_and_empty_ones_are_none(axes):
    points = np.zeros((150, 2)) + np.arange(150)[:, None] / 1e6
    labels = ["much too long for so many of them"] * 149 + [" "]
    left_out = draw_projection(axes, Projection(points, "pca", (1.0, 0.0)), labels=labels)
    assert 0 < len(axes.texts) == 149 - len(left_out) < 149
    assert 149 not in left_out


def test_each_group_has_its_colour_shape_and_name(axes, vectors):
    draw_projection(axes, project(vectors), groups=GROUPS, title="layer 1")
    assert [line.get_color() for line in axes.lines] == list(LINE_COLOURS[:3])
    assert len({line.get_marker() for line in axes.lines}) == 3
    assert all(len(line.get_xdata()) == 8 for line in axes.lines)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["river", "money", r"a \$ tilt"]
    assert axes.get_title() == "layer 1"
    assert re.match(r"first component \(\d+% of the variance\)", axes.get_xlabel())
    axes.figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    assert legend.y1 <= axes.xaxis.label.get_window_extent().y0 + 1


def test_one_group_and_label_for_each_point(axes, vectors):
    with pytest.raises(ValueError, match="2 groups were given for 24 points"):
        draw_projection(axes, project(vectors), groups=["a", "b"])
    with pytest.raises(ValueError, match="1 labels were given for 24 points"):
        draw_projection(axes, project(vectors), labels=["a"])


def test_projections_are_written_side_by_side(tmp_path, vectors):
    panels = [project(vectors), project(vectors[:, :3])]
    labels = [f"w{i}" for i in range(24)]
    left_out = save_projection(
        tmp_path / "p.png", panels, groups=GROUPS, labels=labels, titles=["layer 0", "layer 1"]
    )
    assert len(left_out) == 2
    assert (tmp_path / "p.png").stat().st_size > 1000
    with pytest.raises(ValueError, match=re.escape("end it in .png, .pdf or .svg")):
        save_projection(tmp_path / "p.txt", panels)
    assert [path.name for path in tmp_path.iterdir()] == ["p.png"]
