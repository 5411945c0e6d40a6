"""Does a word mean the same here as there? Cosines of its uses, against a threshold or others.

Axes: chosen (layers), uses (of words in sentences; of training, of test), dim, pairs.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from elmo.encoders import Encoder
from elmo.probes.layers import Layers, Progress, encode, unit
from elmo.probes.linear import wilson_interval
from elmo.probes.word_in_context_data import Pair, SenseUse, Use

COSINE_PLACES = 5
"""Digits after the point beyond which cosines are equal: the rest is rounding."""
NONE_SAME = 2.0
"""The threshold that no cosine reaches."""


class Threshold(NamedTuple):
    """From which cosine on two uses are taken for the same sense, and how often that is right."""

    value: float
    n_right: int


@dataclass(frozen=True)
class PairScore:
    """How well a threshold tells pairs of the same sense at a layer.

    Attributes:
        layer: Its number; None for the mean of all layers.
        threshold: From which cosine on a pair counts as the same sense.
        tuned: Accuracy on the pairs by which it was chosen, in percent.
        accuracy: On the others, in percent.
        interval: Where that accuracy lies with 95 % confidence, by Wilson's score.
    """

    layer: int | None
    threshold: float
    tuned: float
    accuracy: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class SenseScore:
    """How well senses are told at a layer, in percent.

    Attributes:
        layer: Its number; None for the mean of all layers, and where `way` needs no vector.
        way: `nearest use`, `nearest mean` or `most frequent sense`.
        accuracy: Of all uses.
        interval: Where that lies with 95 % confidence, by Wilson's score.
        of_words: Mean of the words' accuracies.
        macro_f1: Mean over words of the mean over their senses of F1.
        words: Accuracy of each word.
    """

    layer: int | None
    way: str
    accuracy: float
    interval: tuple[float, float]
    of_words: float
    macro_f1: float
    words: dict[str, float]


def use_vectors(
    encoder: Encoder,
    uses: Sequence[Use],
    layers: Layers,
    progress: Progress | None = None,
    *,
    label: str = "Reading",
) -> Float[np.ndarray, "chosen uses dim"]:
    """The vector of each use at each chosen layer; of a word of several tokens, their mean."""
    read = encode(encoder, [use.tokens for use in uses], layers, progress=progress, label=label)
    vectors = [of[:, list(use.places)].mean(axis=1) for of, use in zip(read, uses, strict=True)]
    return np.stack(vectors, axis=1)


def pair_cosines(
    first: Float[np.ndarray, "chosen pairs dim"], second: Float[np.ndarray, "chosen pairs dim"]
) -> Float[np.ndarray, "chosen pairs"]:
    """Cosine of each pair, rounded so that equal vectors have equal ones."""
    cosines = (unit(first.astype(np.float64)) * unit(second.astype(np.float64))).sum(axis=-1)
    return cosines.round(COSINE_PLACES)


def best_threshold(
    cosines: Float[np.ndarray, " pairs"], same: Bool[np.ndarray, " pairs"]
) -> Threshold:
    """The threshold that is right most often; of equally good ones the lowest.

    It lies midway between two cosines; or at -1, where all pairs count as the same sense; or at
    `NONE_SAME`, where none does.

    Raises:
        ValueError: If all pairs have the same answer.
    """
    if same.all() or not same.any():
        answer = "same" if len(same) and same[0] else "different"
        raise ValueError(
            f"all {len(same)} pairs are {answer}: to choose a threshold, pairs of both kinds are "
            "wanted"
        )
    values = np.unique(cosines)
    thresholds = np.concatenate([[-1.0], (values[1:] + values[:-1]) / 2, [NONE_SAME]])
    # Of the pairs in order of cosine, those from the threshold on are called the same.
    order = np.argsort(cosines)
    below = np.searchsorted(cosines[order], thresholds)
    n_same = np.concatenate([[0], np.cumsum(same[order])])
    n_different = np.concatenate([[0], np.cumsum(~same[order])])
    right = n_different[below] + n_same[-1] - n_same[below]
    best = int(right.argmax())
    return Threshold(float(thresholds[best]), int(right[best]))


def score_pairs(
    encoder: Encoder,
    tune: Sequence[Pair],
    test: Sequence[Pair],
    layers: Layers,
    *,
    progress: Progress | None = None,
) -> list[PairScore]:
    """Tell pairs of the same sense by the cosine of the word's two vectors (as WiC asks).

    Args:
        encoder: Gives the vectors.
        tune: By which each layer's threshold is chosen.
        test: On which it is measured.
        layers: Of that encoder.
        progress: As `encode` calls it, or with words that are done.

    Raises:
        ValueError: If there is nothing to test, or the pairs of `tune` all have the same answer.
    """
    if not test:
        raise ValueError("there is no pair to test")
    kinds = np.array([pair.same for pair in tune], dtype=bool)
    best_threshold(np.zeros(len(kinds)), kinds)  # refuses pairs of one kind before all is read
    cosines = [
        _cosines(encoder, pairs, layers, progress, f"Reading {part}")
        for part, pairs in (("train", tune), ("test", test))
    ]
    answers = np.array([pair.same for pair in test], dtype=bool)
    scores = []
    for layer, of_tune, of_test in zip(layers.chosen, *cosines, strict=True):
        threshold = best_threshold(of_tune, kinds)
        n_right = int(((of_test >= threshold.value) == answers).sum())
        scores.append(
            PairScore(
                layer,
                threshold.value,
                100 * threshold.n_right / len(tune),
                100 * n_right / len(test),
                _percent(wilson_interval(n_right, len(test))),
            )
        )
    return scores


def nearest_use(
    train: Float[np.ndarray, "train dim"],
    senses: Sequence[str],
    test: Float[np.ndarray, "test dim"],
) -> list[str]:
    """The sense of the most similar use; of equally similar ones, that of the first."""
    cosines = unit(test) @ unit(train).T
    return [senses[int(i)] for i in cosines.round(COSINE_PLACES).argmax(axis=1)]


def nearest_mean(
    train: Float[np.ndarray, "train dim"],
    senses: Sequence[str],
    test: Float[np.ndarray, "test dim"],
) -> list[str]:
    """The sense whose uses' mean is most similar; of equally similar ones, that seen first."""
    names = list(dict.fromkeys(senses))
    of = np.array([names.index(sense) for sense in senses])
    means = np.stack([train[of == i].mean(axis=0) for i in range(len(names))])
    cosines = unit(test) @ unit(means).T
    return [names[int(i)] for i in cosines.round(COSINE_PLACES).argmax(axis=1)]


WAYS = {"nearest use": nearest_use, "nearest mean": nearest_mean}
MOST_FREQUENT = "most frequent sense"


def score_senses(
    encoder: Encoder,
    train: Sequence[SenseUse],
    test: Sequence[SenseUse],
    layers: Layers,
    *,
    progress: Progress | None = None,
) -> list[SenseScore]:
    """Tell senses by the most similar use in training, and by the most similar sense's mean.

    One word is in memory at a time. Beside each layer stands the sense that a word has most often.

    Args:
        encoder: Gives the vectors.
        train: Uses whose senses are known.
        test: Uses whose senses are told.
        layers: Of that encoder.
        progress: As `encode` calls it, or with words that are done.

    Raises:
        ValueError: If a word of the test has no use in training, or only one sense there.
    """
    of_train, of_test = _by_word(train), _by_word(test)
    for word in of_test:
        n_senses = len({use.sense for use in of_train.get(word, [])})
        if n_senses < 2:
            raise ValueError(
                f'"{word}" has {n_senses} senses among the {len(of_train.get(word, []))} uses to '
                "learn from, but at least 2 are wanted to choose among"
            )
    if not of_test:
        raise ValueError("there is no use to test")
    answers: dict[tuple[int | None, str], dict[str, list[str]]] = defaultdict(dict)
    most: dict[str, list[str]] = {}
    n_done, n_uses = 0, sum(len(of_train[word]) + len(asked) for word, asked in of_test.items())
    for word, asked in of_test.items():
        known = of_train[word]
        senses = [use.sense for use in known]
        vectors = use_vectors(encoder, [use.use for use in [*known, *asked]], layers)
        for layer, of in zip(layers.chosen, vectors, strict=True):
            for way, answer in WAYS.items():
                answers[layer, way][word] = answer(of[: len(known)], senses, of[len(known) :])
        most[word] = [Counter(senses).most_common(1)[0][0]] * len(asked)
        if progress is not None:
            n_done += len(known) + len(asked)
            progress("Reading", n_done / n_uses, f"{len(most)} of {len(of_test)} words")
    scores = [_score(layer, way, given, of_test) for (layer, way), given in answers.items()]
    return [*scores, _score(None, MOST_FREQUENT, most, of_test)]


def macro_f1(given: Sequence[str], right: Sequence[str]) -> float:
    """Mean over the senses that are right somewhere of F1, in percent."""
    names = set(right)
    total = 0.0
    for name in names:
        n_both = sum(g == r == name for g, r in zip(given, right, strict=True))
        total += 2 * n_both / (sum(g == name for g in given) + sum(r == name for r in right))
    return 100 * total / len(names)


def _score(
    layer: int | None,
    way: str,
    given: dict[str, list[str]],
    of_test: dict[str, list[SenseUse]],
) -> SenseScore:
    n_right = {
        word: sum(g == use.sense for g, use in zip(given[word], uses, strict=True))
        for word, uses in of_test.items()
    }
    n = sum(map(len, of_test.values()))
    words = {word: 100 * n_right[word] / len(uses) for word, uses in of_test.items()}
    f1s = [macro_f1(given[word], [u.sense for u in uses]) for word, uses in of_test.items()]
    total = sum(n_right.values())
    return SenseScore(
        layer,
        way,
        100 * total / n,
        _percent(wilson_interval(total, n)),
        float(np.mean(list(words.values()))),
        float(np.mean(f1s)),
        words,
    )


def _cosines(
    encoder: Encoder, pairs: Sequence[Pair], layers: Layers, progress: Progress | None, label: str
) -> Float[np.ndarray, "chosen pairs"]:
    uses = [use for pair in pairs for use in pair.uses]
    vectors = use_vectors(encoder, uses, layers, progress=progress, label=label)
    return pair_cosines(vectors[:, ::2], vectors[:, 1::2])


def _percent(interval: tuple[float, float]) -> tuple[float, float]:
    return 100 * interval[0], 100 * interval[1]


def _by_word(uses: Sequence[SenseUse]) -> dict[str, list[SenseUse]]:
    of_word: dict[str, list[SenseUse]] = defaultdict(list)
    for use in uses:
        of_word[use.word].append(use)
    return dict(of_word)
