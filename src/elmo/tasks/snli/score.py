"""Accuracy, as Bowman et al. (2015) report it."""

from collections.abc import Sequence


def score(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Share of pairs with the right label, in percent.

    Args:
        gold: Labels of the pairs that have one; SNLI's pairs without are not scored.
        predicted: A label for each of these.

    Returns:
        `accuracy`.

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
    n_right = sum(one == other for one, other in zip(gold, predicted, strict=True))
    return {"accuracy": 100 * n_right / len(gold)}
