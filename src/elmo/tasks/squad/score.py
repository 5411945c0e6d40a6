"""Exact match and F1 of answers, as the official `evaluate-v1.1.py` counts them."""

import logging
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

logger = logging.getLogger(__name__)

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """An answer without what does not count: case, ASCII punctuation, articles, extra white space.

    Punctuation goes first, without a space in its place: "the-end" is one word, "theend".
    """
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(WITHOUT_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str) -> bool:
    """Whether two answers are the same once normalised."""
    return normalised(predicted) == normalised(gold)


def f1(predicted: str, gold: str) -> float:
    """Harmonic mean of precision and recall over normalised words, 0 to 1.

    Two answers that are both nothing but articles and punctuation share no word: 0, though they
    match exactly.
    """
    predicted_words, gold_words = normalised(predicted).split(), normalised(gold).split()
    n_same = (Counter(predicted_words) & Counter(gold_words)).total()
    if not n_same:
        return 0.0
    precision, recall = n_same / len(predicted_words), n_same / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def score(gold: Mapping[str, Sequence[str]], predicted: Mapping[str, str]) -> dict[str, float]:
    """Exact match and F1 in percent: means over questions of the best over their gold answers.

    A question without a prediction counts as 0, with a warning; predictions for other questions
    are not counted.

    Args:
        gold: Every acceptable answer to each question, by its id.
        predicted: One answer to each question, by its id.

    Returns:
        `exact_match` and `f1`.

    Raises:
        ValueError: If there is no question, or one without a gold answer.

    Example:
        >>> score({"1": ["the Red Sea", "Red Sea"]}, {"1": "Red Sea coast"})
        {'exact_match': 0.0, 'f1': 80.0}

    Source:
        `evaluate-v1.1.py` of Rajpurkar et al. (2016).
    """
    if not gold:
        raise ValueError("there is no question to score: give at least one with its answers")
    n_exact, total_f1 = 0, 0.0
    missing = []
    for question, answers in gold.items():
        if not answers:
            raise ValueError(f'question "{question}" has no gold answer, so it cannot be scored')
        if question not in predicted:
            missing.append(question)
            continue
        answer = predicted[question]
        n_exact += any(exact_match(answer, one) for one in answers)
        total_f1 += max(f1(answer, one) for one in answers)
    if missing:
        logger.warning(
            '%d of %d questions have no prediction and count as 0, the first of them "%s"',
            len(missing),
            len(gold),
            missing[0],
        )
    return {"exact_match": 100 * n_exact / len(gold), "f1": 100 * total_f1 / len(gold)}
