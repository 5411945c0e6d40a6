"""How much do vectors of a word change with its sentence? The measures of Ethayarajh (2019).

In a space where all vectors point to one side, any two words are alike; so each measure comes with
what it is for words drawn at random (the anisotropy), and less that: adjusted.

Axes: chosen (layers), uses (of a word), tokens, dim.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from jaxtyping import Float

from elmo.encoders import Encoder
from elmo.probes.layers import Layers, Progress, encode, unit


def self_similarity(vectors: Float[np.ndarray, "uses dim"]) -> float:
    """Mean cosine of each pair of uses: 1 where a word's vector is the same everywhere.

    Of words drawn at random, it is the anisotropy: 0 where vectors point to all sides alike.

    Raises:
        ValueError: If there are fewer than two uses.
    """
    n = len(vectors)
    if n < 2:
        raise ValueError(f"{n} use of a word was given, but at least 2 are wanted to compare")
    of_one = unit(vectors.astype(np.float64))
    # The squared length of the sum is the sum of all cosines, those with itself included.
    total = np.square(of_one.sum(axis=0)).sum() - np.square(of_one).sum()
    return float(total / (n * (n - 1)))


def intra_sentence_similarity(vectors: Float[np.ndarray, "tokens dim"]) -> float:
    """Mean cosine of each token of a sentence with the mean of its tokens."""
    of_tokens = vectors.astype(np.float64)
    return float((unit(of_tokens) @ unit(of_tokens.mean(axis=0))).mean())


def explained_variance(vectors: Float[np.ndarray, "uses dim"], *, centred: bool = False) -> float:
    """Share of a word's uses that one vector can explain: σ₁² / Σ σᵢ² of the matrix of its uses.

    Never less than 1 / uses. As the paper defines it, the matrix is not centred; the program that
    was published with it centres the matrices of words.

    Args:
        vectors: Of the uses.
        centred: Whether to take the mean use away first, so that it is the share of the
            *differences* that lies in one direction.

    Raises:
        ValueError: If there are fewer than two uses.
    """
    n, dim = vectors.shape
    if n < 2:
        raise ValueError(f"{n} use of a word was given, but at least 2 are wanted to compare")
    matrix = vectors.astype(np.float64)
    scale = np.square(matrix).sum()
    if centred:
        matrix = matrix - matrix.mean(axis=0)
    # Both products have the same eigenvalues, the squares of the singular values.
    squares = np.linalg.eigvalsh(matrix @ matrix.T if n <= dim else matrix.T @ matrix)
    total = squares.sum()
    # Uses that differ by rounding alone: one vector explains them wholly.
    if total <= 1e-12 * scale:
        return 1.0
    return float(squares[-1] / total)


@dataclass(frozen=True)
class ContextualityConfig:
    """What is measured, and on how much.

    Attributes:
        min_sentences: Rarer words are left out: so many different sentences have to have a word.
        max_words: Only so many words are measured, drawn at random; None for all.
        max_uses: Of each word, only so many uses are read, drawn at random: one per sentence.
        n_random: Sentences drawn at random for similarity within a sentence; a token of each, also
            drawn, is what adjusts.
        centred: As for `explained_variance`; also of the random words.
        seed: Of all that is drawn.
    """

    min_sentences: int = 5
    max_words: int | None = 1000
    max_uses: int = 50
    n_random: int = 1000
    centred: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what measures nothing.

        Raises:
            ValueError: If a number is too small.
        """
        for name, least in (("min_sentences", 2), ("max_uses", 2), ("n_random", 2)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, but at least {least} is wanted: what is "
                    "measured are pairs"
                )
        if self.max_words is not None and self.max_words < 1:
            raise ValueError(f"max_words is {self.max_words}, but at least 1 is wanted")


@dataclass(frozen=True)
class LayerContextuality:
    """What is measured at a layer; of words and sentences, the mean.

    Attributes:
        layer: Its number; None for the mean of all layers.
        anisotropy: Mean cosine of words drawn at random from different sentences.
        self_similarity: Mean cosine of two uses of a word.
        intra_sentence: Mean cosine of a token and its sentence.
        explained: Share of a word's uses that one vector explains.
        explained_random: The same of words drawn at random.
    """

    layer: int | None
    anisotropy: float
    self_similarity: float
    intra_sentence: float
    explained: float
    explained_random: float

    @property
    def adjusted_self_similarity(self) -> float:
        """Less the anisotropy."""
        return self.self_similarity - self.anisotropy

    @property
    def adjusted_intra_sentence(self) -> float:
        """Less the anisotropy."""
        return self.intra_sentence - self.anisotropy

    @property
    def adjusted_explained(self) -> float:
        """Less that of words drawn at random."""
        return self.explained - self.explained_random


@dataclass(frozen=True)
class WordContextuality:
    """A word's measures, a number per chosen layer.

    Attributes:
        word: Its form.
        n_uses: That were read.
        self_similarity: Mean cosine of two uses.
        explained: Share of its uses that one vector explains.
    """

    word: str
    n_uses: int
    self_similarity: tuple[float, ...]
    explained: tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    """What is read of a text: the same for any encoder.

    Attributes:
        texts: Its different sentences.
        uses: Of each word that is measured: a sentence and a place in it for each use.
        random: Sentences drawn at random, and a place in each.
        needed: Which sentences have to be read.
        n_frequent: Words in enough sentences, of which those measured were drawn.
        config: How it was drawn.
    """

    texts: Sequence[Sequence[str]]
    uses: Mapping[str, Sequence[tuple[int, int]]]
    random: Mapping[int, int]
    needed: Sequence[int]
    n_frequent: int
    config: ContextualityConfig


@dataclass(frozen=True)
class Contextuality:
    """What `contextuality` finds.

    Attributes:
        layers: In the order of those chosen.
        words: By form.
        unknown: Words that were to be measured, but of which the encoder has no vector.
    """

    layers: list[LayerContextuality]
    words: list[WordContextuality]
    unknown: list[str]

    def ranked(self, place: int = -1) -> list[tuple[WordContextuality, float]]:
        """Words and their adjusted self-similarity, those that change most with context first.

        Args:
            place: Of the layer among those chosen.
        """
        anisotropy = self.layers[place].anisotropy
        of_words = [(word, word.self_similarity[place] - anisotropy) for word in self.words]
        # What differs by rounding alone is in the order of the alphabet.
        return sorted(of_words, key=lambda pair: (round(pair[1], 6), pair[0].word))


def sample_uses(
    sentences: Iterable[Sequence[str]],
    config: ContextualityConfig | None = None,
    *,
    words: Sequence[str] | None = None,
) -> Sample:
    """Choose the words, uses and sentences of a text that `contextuality` reads.

    Args:
        sentences: Tokenized; forms count as they are written, and equal sentences once.
        config: How much is measured.
        words: These, and no others; None for those with a letter that are frequent enough.

    Raises:
        ValueError: If no word is frequent enough, one of `words` occurs in fewer than two
            sentences (the nearest forms are named), or there are fewer than two sentences.
    """
    config = config or ContextualityConfig()
    rng = np.random.default_rng(config.seed)
    texts = list(dict.fromkeys(tuple(sentence) for sentence in sentences if len(sentence)))
    if len(texts) < 2:
        raise ValueError(
            f"the text has {len(texts)} sentence, each counted once, but at least 2 are wanted"
        )
    counts = Counter(form for text in texts for form in dict.fromkeys(text))
    frequent = [
        form
        for form, n in counts.items()
        if n >= config.min_sentences and any(map(str.isalpha, form))
    ]
    chosen = _drawn(frequent, config, rng) if words is None else _given(words, counts)
    if not chosen:
        raise ValueError(
            f"no word occurs in {config.min_sentences} different sentences: give more text, or a "
            "smaller least number of sentences"
        )
    uses = _uses(texts, chosen, config, rng)
    drawn = sorted(int(i) for i in rng.permutation(len(texts))[: config.n_random])
    random = {i: int(rng.integers(len(texts[i]))) for i in drawn}
    needed = sorted({i for places in uses.values() for i, _ in places} | set(random))
    return Sample(texts, uses, random, needed, len(frequent), config)


def contextuality(
    encoder: Encoder, sample: Sample, layers: Layers, *, progress: Progress | None = None
) -> Contextuality:
    """Measure how much the vectors of words change with their sentences.

    Vectors of all uses that are read are in memory, words × uses × layers × dim × 4 bytes at most:
    300 MB for 1,000 words, 50 uses, 3 layers and 512 dimensions.

    Args:
        encoder: Gives the vectors.
        sample: What is read; of its sentences, those that are needed.
        layers: Of that encoder.
        progress: As `encode` calls it.

    Raises:
        ValueError: If the encoder has no vector for any word that is to be measured.
    """
    centred = sample.config.centred
    wanted: dict[int, list[tuple[str, int]]] = {i: [] for i in sample.needed}
    for word, places in sample.uses.items():
        for i, place in places:
            wanted[i].append((word, place))
    of_words: dict[str, list[np.ndarray]] = {word: [] for word in sample.uses}
    of_random: list[np.ndarray] = []
    of_sentences: list[list[float]] = []
    read = encode(encoder, [sample.texts[i] for i in sample.needed], layers, progress=progress)
    for i, vectors in zip(sample.needed, read, strict=True):
        known = np.asarray(vectors.any(axis=2).all(axis=0))  # static vectors do not know every word
        for word, place in wanted[i]:
            if known[place]:
                of_words[word].append(vectors[:, place].copy())
        if i in sample.random:
            if known[sample.random[i]]:
                of_random.append(vectors[:, sample.random[i]].copy())
            if known.sum() >= 2:
                of_sentences.append([intra_sentence_similarity(of[known]) for of in vectors])
    measured = [
        _measure(word, np.stack(of, axis=1), centred)
        for word, of in sorted(of_words.items())
        if len(of) >= 2
    ]
    if not measured or len(of_random) < 2 or not of_sentences:
        raise ValueError(
            f"{encoder.name} has vectors for hardly any word of this text: nothing to compare"
        )
    random = np.stack(of_random, axis=1)
    return Contextuality(
        [
            LayerContextuality(
                layer,
                self_similarity(random[k]),
                float(np.mean([word.self_similarity[k] for word in measured])),
                float(np.mean([of[k] for of in of_sentences])),
                float(np.mean([word.explained[k] for word in measured])),
                explained_variance(random[k], centred=centred),
            )
            for k, layer in enumerate(layers.chosen)
        ],
        measured,
        [word for word, of in sorted(of_words.items()) if len(of) < 2],
    )


def _measure(
    word: str, vectors: Float[np.ndarray, "chosen uses dim"], centred: bool
) -> WordContextuality:
    return WordContextuality(
        word,
        vectors.shape[1],
        tuple(self_similarity(of) for of in vectors),
        tuple(explained_variance(of, centred=centred) for of in vectors),
    )


def _drawn(
    frequent: Sequence[str], config: ContextualityConfig, rng: np.random.Generator
) -> list[str]:
    if config.max_words is None or len(frequent) <= config.max_words:
        return list(frequent)
    ranks = rng.permutation(len(frequent))[: config.max_words]
    return [frequent[int(rank)] for rank in sorted(ranks)]


def _given(words: Sequence[str], counts: Counter[str]) -> list[str]:
    if not words:
        raise ValueError("no word was given to measure")
    for word in words:
        if not counts[word]:
            near = get_close_matches(word, counts)
            raise ValueError(
                f'"{word}" never occurs in the text'
                + (f"; the nearest forms are {', '.join(near)}" if near else "")
            )
        if counts[word] < 2:
            raise ValueError(f'"{word}" occurs in 1 sentence, but at least 2 are wanted to compare')
    return list(dict.fromkeys(words))


def _uses(
    texts: Sequence[Sequence[str]],
    words: Sequence[str],
    config: ContextualityConfig,
    rng: np.random.Generator,
) -> dict[str, list[tuple[int, int]]]:
    """Sentence and place of the uses of each word that are read: its first in a sentence."""
    places: dict[str, list[tuple[int, int]]] = {word: [] for word in words}
    for i, text in enumerate(texts):
        for place, form in reversed(list(enumerate(text))):
            if form in places:
                of = places[form]
                if of and of[-1][0] == i:
                    of[-1] = (i, place)
                else:
                    of.append((i, place))
    for word, of in places.items():
        if len(of) > config.max_uses:
            ranks = np.sort(rng.permutation(len(of))[: config.max_uses])
            places[word] = [of[int(rank)] for rank in ranks]
    return places
