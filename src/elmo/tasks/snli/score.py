"""Accuracy, as Bowman et al. (2015) report it, and how well each label is found."""

from collections import Counter
from collections.abc import Sequence


def score(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Share of pairs with the right label, in percent, and each label's scores.

    Args:
        gold: Labels of the pairs that have one; SNLI's pairs without are not scored.
        predicted: A label for each of these.

    Returns:
        `accuracy`; and `precision/neutral`, `recall/neutral`, `f1/neutral` of each label that is
        right or predicted. One that is never predicted has precision 0, and one that is never
        right has recall 0.

    Raises:
        ValueError: If there are no pairs, or not as many predictions.
    """
    if not gold:
        raise ValueError("there is no pair with a gold label to score: give at least one")
    if len(gold) != len(predicted):
        raise ValueError(
            f"there are {len(predicted)} predictions for {len(gold)} pairs, but one for each is "
            "wanted"
        )
    n_gold, n_predicted = Counter(gold), Counter(predicted)
    n_right = Counter(one for one, other in zip(gold, predicted, strict=True) if one == other)
    scores = {"accuracy": 100 * n_right.total() / len(gold)}
    for label in sorted(n_gold | n_predicted):
        scores[f"precision/{label}"] = 100 * n_right[label] / max(n_predicted[label], 1)
        scores[f"recall/{label}"] = 100 * n_right[label] / max(n_gold[label], 1)
        scores[f"f1/{label}"] = 200 * n_right[label] / (n_gold[label] + n_predicted[label])
    return scores
