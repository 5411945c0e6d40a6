"""Accuracy and F1 of labels, and the report of scikit-learn's `classification_report`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo.tasks.classification.data import in_order

SCORES = {"precision": "precision", "recall": "recall", "f1": "f1-score"}
"""What we and scikit-learn call them."""


@dataclass(frozen=True)
class LabelScore:
    """How well labels are predicted.

    Attributes:
        metrics: In percent: `accuracy` (all labels of a text right, and no other), `f1_macro` (the
            mean of the labels' F1), `f1_micro` (of all decisions together), `f1_weighted` (by how
            often a label is right), and `f1/joy`, `precision/joy`, `recall/joy` of each label.
        report: The same as a table.
    """

    metrics: dict[str, float]
    report: str


def score_labels(right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> LabelScore:
    """Compare predicted labels with the right ones; both may be several for a text.

    Scores are over the labels that are right or predicted for a text. One that is never predicted
    has precision 0, and one that is never right has recall 0.

    Raises:
        ValueError: If there are not as many predictions as texts, or none; if no label is right or
            predicted for any; if scikit-learn is not installed.
    """
    if len(right) != len(predicted) or not right:
        raise ValueError(
            f"{len(predicted)} texts are predicted, but {len(right)} are given: as many, and at "
            "least one, are needed"
        )
    try:
        from sklearn import metrics
        from sklearn.preprocessing import MultiLabelBinarizer
    except ImportError:
        raise ValueError(
            "scikit-learn is not installed, which scores need: pip install 'elmo-torch[tasks]'"
        ) from None
    labels = in_order(label for row in (*right, *predicted) for label in row)
    if not labels:
        raise ValueError("no text has a label, right or predicted: there is nothing to score")
    binarizer = MultiLabelBinarizer(classes=labels)
    # Texts by labels, 1 where a text has the label. A column more, which is not reported: a single
    # one would be read as two classes.
    given, guessed = (
        np.pad(has, ((0, 0), (0, 1)))
        for has in (binarizer.fit_transform(right), binarizer.transform(predicted))
    )
    table: dict[str, Any] = {
        "labels": range(len(labels)),
        "target_names": labels,
        "zero_division": 0,
        "digits": 4,
    }
    by_name = metrics.classification_report(given, guessed, output_dict=True, **table)
    scores = {"accuracy": 100 * float(metrics.accuracy_score(given, guessed))}
    for average in ("macro", "micro", "weighted"):
        scores[f"f1_{average}"] = 100 * float(by_name[f"{average} avg"]["f1-score"])
    for label in labels:
        for ours, theirs in SCORES.items():
            scores[f"{ours}/{label}"] = 100 * float(by_name[label][theirs])
    return LabelScore(scores, metrics.classification_report(given, guessed, **table))
