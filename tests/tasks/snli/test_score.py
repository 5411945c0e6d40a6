import re

import pytest

from elmo.tasks.snli.score import score


def test_accuracy_is_the_share_of_right_labels():
    gold, predicted = ["neutral", "entailment", "neutral"], ["neutral", "neutral", "neutral"]
    assert score(gold, predicted) == {"accuracy": pytest.approx(200 / 3)}


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
