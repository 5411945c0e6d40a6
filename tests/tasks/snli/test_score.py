import re

import pytest

from elmo.tasks.snli.score import score


def test_accuracy_is_the_share_of_right_labels():
    gold, predicted = ["neutral", "entailment", "neutral"], ["neutral", "neutral", "neutral"]
    assert score(gold, predicted)["accuracy"] == pytest.approx(200 / 3)


def test_each_label_has_scores_of_its_own():
    gold = ["neutral", "neutral", "neutral", "entailment", "contradiction"]
    predicted = ["neutral", "neutral", "entailment", "entailment", "other"]
    assert score(gold, predicted) == pytest.approx(
        {
            "accuracy": 60,
            "precision/contradiction": 0,
            "recall/contradiction": 0,
            "f1/contradiction": 0,
            "precision/entailment": 50,
            "recall/entailment": 100,
            "f1/entailment": 200 / 3,
            "precision/neutral": 100,
            "recall/neutral": 200 / 3,
            "f1/neutral": 80,
            "precision/other": 0,
            "recall/other": 0,
            "f1/other": 0,
        }
    )


@pytest.mark.parametrize(
    ("gold", "predicted", "said"),
    [
        ([], [], "there is no pair with a gold label to score"),
        (["neutral"], [], "there are 0 predictions for 1 pairs, but one for each is wanted"),
    ],
)
def test_what_cannot_be_scored_is_refused(gold, predicted, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        score(gold, predicted)
