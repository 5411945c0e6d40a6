"""Word senses by what an encoder's vectors of a word have in common (Peters et al., 2018, 5.3).

The senses among which is chosen are those that the lemma has in the training text, as the same
part of speech; nearest to which a use is, is the answer. A lemma that was never seen gets the first
sense of the inventory, or without one, no answer. A lemma that was seen with one sense needs no
vectors.

Axes: uses (of a word, in the training text), asked (uses whose sense is asked for), senses (of the
word, the most frequent first), dim; chosen (layers).
"""

import warnings
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from elmo.encoders import Encoder
from elmo.encoders.encoder import extra
from elmo.probes.layers import Layers, Progress, encode, on_disk, unit
from elmo.probes.wsd_data import Instance, Inventory, Word, WsdSentence, instances_of

COSINE_PLACES = 5
"""Digits after the point beyond which cosines are equal: the rest is rounding."""
FIRST_SENSE, MOST_FREQUENT = "first sense", "most frequent sense"
DEFAULT_L2 = 0.1
MAX_ITERATIONS = 1000

Uses = Float[np.ndarray, "uses dim"]
Of = Bool[np.ndarray, "uses senses"]
"""Which use has which senses: at least one."""
Asked = Float[np.ndarray, "asked dim"]
Scores = Float[np.ndarray, "asked senses"]
"""The greatest wins; of equal ones the first, which is the more frequent sense's."""


class Method(ABC):
    """A way to choose among the senses of a word."""

    @property
    @abstractmethod
    def name(self) -> str:
        """For tables."""

    @abstractmethod
    def scores(self, asked: Asked, uses: Uses, of: Of) -> Scores:
        """How well each sense suits each use that is asked for."""


@dataclass(frozen=True)
class NearestMean(Method):
    """The cosine to the mean of a sense's vectors: its *sense vector*; the paper's way.

    Source:
        O. Melamud, J. Goldberger, I. Dagan (2016): context2vec. CoNLL.
    """

    @property
    def name(self) -> str:
        """For tables."""
        return "nearest mean"

    def scores(self, asked: Asked, uses: Uses, of: Of) -> Scores:
        """See `Method`."""
        means = unit(of.T.astype(np.float32) @ uses)  # a sum has the same direction
        return (unit(asked) @ means.T).round(COSINE_PLACES)


@dataclass(frozen=True)
class NearestUses(Method):
    """How many of the `k` nearest uses by cosine have a sense; of all, where there are fewer."""

    k: int = 1

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k is {self.k}, but at least 1 use has to decide")

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.k} nearest uses" if self.k > 1 else "nearest use"

    def scores(self, asked: Asked, uses: Uses, of: Of) -> Scores:
        """See `Method`."""
        # Of uses equally near, those of the more frequent sense come first, as senses do.
        by_sense = np.argsort(of.argmax(axis=1), kind="stable")
        uses, of = uses[by_sense], of[by_sense]
        cosines = (unit(asked) @ unit(uses).T).round(COSINE_PLACES)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, : self.k]
        return of[nearest].sum(axis=1).astype(np.float32)


@dataclass(frozen=True)
class LinearSenses(Method):
    """The probability by a multinomial logistic regression of the word's own.

    Vectors are taken relative to the mean of the word's uses, and divided by one number that makes
    the mean square of a coordinate 1. A use with several senses counts for each in part.

    Attributes:
        l2: λ of λ/2 · |weights|² beside the mean loss.

    Raises:
        ValueError: If `l2` is not greater than 0.
        ImportError: If scikit-learn is not installed.
    """

    l2: float = DEFAULT_L2

    def __post_init__(self) -> None:
        if not self.l2 > 0:
            raise ValueError(f"l2 is {self.l2:g}, but it has to be greater than 0")
        with extra("tasks", "a linear classifier of senses"):
            import sklearn.linear_model  # noqa: F401

    @property
    def name(self) -> str:
        """As it is asked for."""
        return f"linear:{self.l2:g}"

    def scores(self, asked: Asked, uses: Uses, of: Of) -> Scores:
        """See `Method`."""
        from sklearn.linear_model import LogisticRegression

        mean = uses.mean(axis=0)
        size = np.sqrt(np.square(uses - mean).mean()) or 1.0
        rows, senses = np.nonzero(of)
        share = (1 / of.sum(axis=1))[rows]
        # For two classes scikit-learn penalises the difference of their weights, whose square is
        # twice the sum of both squares.
        halves = 2 if of.shape[1] == 2 else 1
        model = LogisticRegression(C=halves / (self.l2 * len(uses)), max_iter=MAX_ITERATIONS)
        with warnings.catch_warnings():
            # It takes senses with few uses each for numbers to be predicted.
            warnings.filterwarnings("ignore", message="The number of unique classes is greater")
            model.fit((uses[rows] - mean) / size, senses, sample_weight=share)
        scores = np.zeros((len(asked), of.shape[1]), np.float32)
        scores[:, model.classes_] = model.predict_proba((asked - mean) / size)
        return scores


def read_methods(text: str) -> tuple[Method, ...]:
    """What a text asks for: `mean`, `K-nn`, `linear` and `linear:L2`, commas between.

    Raises:
        ValueError: If it asks for something else, or for one twice.
        ImportError: If `linear` needs scikit-learn, which is not installed.
    """
    methods = tuple(_method(part.strip()) for part in text.split(","))
    if len(set(methods)) < len(methods):
        raise ValueError(f"methods are {text!r}, which asks for one twice: leave one out")
    return methods


@dataclass(frozen=True)
class WsdAnswers:
    """The senses that are chosen in one way.

    Attributes:
        layer: Name of the layer or mix; empty for what needs no vectors.
        method: Name of the method.
        senses: Of each instance by its id, in the order of the text; none if not answered.
    """

    layer: str
    method: str
    senses: Mapping[str, tuple[str, ...]]


class SenseCounts:
    """How often each word has each sense in a training text, and in which order they are tried.

    Args:
        train: Sentences with senses.
        inventory: Senses of words in their order; None if there is none.

    Raises:
        ValueError: If no word of the sentences has a sense.
    """

    def __init__(self, train: Sequence[WsdSentence], inventory: Inventory | None = None) -> None:
        if not any(instance.senses for instance in instances_of(train)):
            raise ValueError("the training text has no word with a sense: read it with its keys")
        self._first = {word: senses[0] for word, senses in (inventory or {}).items()}
        counts: dict[Word, Counter[str]] = defaultdict(Counter)
        for instance in instances_of(train):
            counts[instance.word].update(instance.senses)
        self.senses = {
            word: self._ordered(count, (inventory or {}).get(word, ()))
            for word, count in counts.items()
        }
        """The senses of each word that was seen, the most frequent first; among equally frequent
        ones as the inventory has them, then by which was seen first."""

    def first(self, word: Word) -> tuple[str, ...]:
        """The first sense of the inventory, if it has the word."""
        return (self._first[word],) if word in self._first else ()

    def most_frequent(self, word: Word) -> tuple[str, ...]:
        """The most frequent sense, if the word was seen; else the first."""
        return self.senses[word][:1] if word in self.senses else self.first(word)

    def several(self, word: Word) -> bool:
        """Whether the word was seen with several senses, so that there is something to choose."""
        return len(self.senses.get(word, ())) > 1

    def groups(self, instances: Sequence[Instance]) -> dict[str, list[Instance]]:
        """Those whose word was seen, and those whose word was seen with several senses."""
        return {
            "seen": [i for i in instances if i.word in self.senses],
            "several": [i for i in instances if self.several(i.word)],
        }

    def _ordered(self, count: Counter[str], listed: Sequence[str]) -> tuple[str, ...]:
        places = {sense: place for place, sense in enumerate(listed)}
        return tuple(sorted(count, key=lambda s: (-count[s], places.get(s, len(places)))))


def disambiguate(
    encoder: Encoder,
    train: Sequence[WsdSentence],
    test: Sequence[WsdSentence],
    *,
    layers: Layers | None = None,
    methods: Sequence[Method] = (NearestMean(),),
    inventory: Inventory | None = None,
    progress: Progress | None = None,
) -> list[WsdAnswers]:
    """Choose a sense for each instance of a text, in each way at each layer, and by frequency.

    A word of several tokens is the mean of their vectors. Where nothing distinguishes senses, the
    most frequent one is chosen. Vectors of the training text are kept on disk meanwhile, those of
    words alone that have to be told apart.

    Args:
        encoder: Gives the vectors.
        train: Sentences with senses.
        test: Sentences whose instances are asked for; the senses they have are not looked at.
        layers: Which ones; by default all, and their mean.
        methods: Which ways.
        inventory: For words that the training text lacks; None to leave them unanswered.
        progress: Called while vectors are computed, and senses chosen.

    Returns:
        By the most frequent sense of the training text, by the first of the inventory if there is
        one, then for each method each layer.

    Raises:
        OSError: If there is no room for the vectors.
    """
    layers = layers or Layers.read("all", encoder.n_layers)
    counts = SenseCounts(train, inventory)
    asked = instances_of(test)
    usual = {instance.id: counts.most_frequent(instance.word) for instance in asked}
    hard = {instance.word for instance in asked if counts.several(instance.word)}
    chosen: dict[tuple[int, int], dict[str, tuple[str, ...]]] = {
        (m, k): dict(usual) for m in range(len(methods)) for k in range(len(layers.chosen))
    }
    learnt, wanted = _with_words(train, hard), _with_words(test, hard)
    use_rows, query_rows = _rows(learnt, hard), _rows(wanted, hard)
    n_uses, n_asked = (sum(map(len, rows.values())) for rows in (use_rows, query_rows))
    n_chosen = len(layers.chosen)
    with (
        on_disk(
            _vectors(encoder, learnt, hard, layers, "Training text", progress),
            (n_chosen, n_uses, encoder.dim),
        ) as uses,
        on_disk(
            _vectors(encoder, wanted, hard, layers, "Test text", progress),
            (n_chosen, n_asked, encoder.dim),
        ) as queries,
    ):
        for done, word in enumerate(sorted(hard), 1):
            senses = counts.senses[word]
            of = np.array([[s in use.senses for s in senses] for use in use_rows[word].values()])
            for k in range(n_chosen):
                known, x = uses[k, list(use_rows[word])], queries[k, list(query_rows[word])]
                for m, method in enumerate(methods):
                    best = method.scores(x, known, of).argmax(axis=1).tolist()
                    chosen[m, k] |= {
                        instance.id: (senses[i],)
                        for instance, i in zip(query_rows[word].values(), best, strict=True)
                    }
            if progress is not None:
                progress("Choosing", done / len(hard), f"{done:,} of {len(hard):,} words")
    answers = [WsdAnswers("", MOST_FREQUENT, usual)]
    if inventory is not None:
        answers.append(WsdAnswers("", FIRST_SENSE, {i.id: counts.first(i.word) for i in asked}))
    return answers + [
        WsdAnswers(layers.names[k], methods[m].name, senses) for (m, k), senses in chosen.items()
    ]


def _method(text: str) -> Method:
    name, colon, value = text.partition(":")
    if text == "mean":
        return NearestMean()
    if text.endswith("-nn") and text[: -len("-nn")].isdecimal():
        return NearestUses(int(text[: -len("-nn")]))
    if name == "linear":
        try:
            return LinearSenses(float(value)) if colon else LinearSenses()
        except ValueError as error:
            raise ValueError(f"method {text!r}: {error}") from None
    raise ValueError(f"method is {text!r}, but expected mean, K-nn (as 10-nn), linear or linear:L2")


def _with_words(sentences: Sequence[WsdSentence], words: set[Word]) -> list[WsdSentence]:
    return [s for s in sentences if any(instance.word in words for instance in s.instances)]


def _rows(sentences: Sequence[WsdSentence], words: set[Word]) -> dict[Word, dict[int, Instance]]:
    """The uses of each word, by their rows in `_vectors`."""
    rows: dict[Word, dict[int, Instance]] = defaultdict(dict)
    for row, instance in enumerate(i for i in instances_of(sentences) if i.word in words):
        rows[instance.word][row] = instance
    return rows


def _vectors(
    encoder: Encoder,
    sentences: Sequence[WsdSentence],
    words: set[Word],
    layers: Layers,
    label: str,
    progress: Progress | None,
) -> Iterator[Float[np.ndarray, "chosen 1 dim"]]:
    """The vectors of each use of the words in turn."""
    texts = [sentence.tokens for sentence in sentences]
    read = encode(encoder, texts, layers, label=label, progress=progress)
    for sentence, vectors in zip(sentences, read, strict=True):
        for instance in sentence.instances:
            if instance.word in words:
                yield vectors[:, instance.start : instance.end].mean(axis=1, keepdims=True)
