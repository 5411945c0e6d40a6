import pytest

from elmo.tasks.classification.score import score_labels

pytest.importorskip("sklearn")


def test_one_label_each_worked_by_hand():
    right = [["a"], ["a"], ["a"], ["b"], ["c"]]
    predicted = [["a"], ["a"], ["b"], ["b"], ["a"]]
    metrics = score_labels(right, predicted).metrics
    # a: 2 of 3 predicted, 2 of 3 right. b: 1 of 2, 1 of 1. c: never predicted.
    by_hand = {
        "accuracy": 3 / 5,
        "f1/a": 2 / 3,
        "precision/b": 1 / 2,
        "recall/b": 1,
        "f1/b": 2 / 3,
        "f1/c": 0,
        "precision/c": 0,
        "f1_macro": (2 / 3 + 2 / 3 + 0) / 3,
        "f1_micro": 3 / 5,
        "f1_weighted": (3 * 2 / 3 + 2 / 3) / 5,
    }
    assert {name: metrics[name] for name in by_hand} == pytest.approx(
        {name: 100 * value for name, value in by_hand.items()}
    )


def test_several_labels_each_worked_by_hand():
    right = [["a", "b"], ["a"], ["b"]]
    predicted = [["a"], ["a"], ["b", "a"]]
    metrics = score_labels(right, predicted).metrics
    # a: 2 of 3 predicted, 2 of 2 right. b: 1 of 1, 1 of 2. Together 3 of 4, 3 of 4.
    assert metrics["accuracy"] == pytest.approx(100 / 3)
    assert metrics["f1/a"] == pytest.approx(80)
    assert metrics["f1/b"] == pytest.approx(200 / 3)
    assert metrics["f1_macro"] == pytest.approx((80 + 200 / 3) / 2)
    assert metrics["f1_micro"] == pytest.approx(75)


def test_a_text_may_have_no_predicted_label():
    metrics = score_labels([["a"], ["b"]], [[], ["b"]]).metrics
    assert (metrics["accuracy"], metrics["recall/a"], metrics["f1_micro"]) == (
        50,
        0,
        pytest.approx(200 / 3),
    )


def test_labels_unknown_at_training_count_as_wrong():
    metrics = score_labels([["new"], ["b"]], [["b"], ["b"]]).metrics
    assert (metrics["accuracy"], metrics["f1/new"]) == (50, 0)


def test_the_report_names_each_label_by_number():
    rows = score_labels([["10"], ["9"]], [["10"], ["9"]]).report.splitlines()
    assert [row.split()[0] for row in rows if row.strip()][1:3] == ["9", "10"]


@pytest.mark.parametrize("predicted", [[], [["a"], ["b"]]])
def test_predictions_that_are_not_as_many_are_refused(predicted):
    with pytest.raises(ValueError, match=f"{len(predicted)} texts are predicted, but 1 are given"):
        score_labels([["a"]], predicted)


def test_scores_of_nothing_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        score_labels([], [])
    with pytest.raises(ValueError, match="no text has a label, right or predicted"):
        score_labels([[], []], [[], []])


def test_one_label_alone_is_scored_as_one_of_many():
    one, none = ("a",), ()
    scores = score_labels([one, one, one, one], [one, one, one, none]).metrics
    assert scores["accuracy"] == 75 and scores["precision/a"] == 100 and scores["recall/a"] == 75
    for average in ("macro", "micro", "weighted"):
        assert scores[f"f1_{average}"] == pytest.approx(100 * 2 * 0.75 / 1.75)
    assert set(score_labels([one, one], [one, one]).metrics.values()) == {100}
