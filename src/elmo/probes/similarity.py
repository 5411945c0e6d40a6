"""Words on their own: pairs that people have rated, and analogies by 3CosAdd.

A contextual encoder reads each word as a sentence of one.

Axes: chosen (layers), words, dim, questions, three (a, b, c of a question).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from elmo.encoders import Encoder
from elmo.encoders.static import StaticEncoder
from elmo.probes.correlation import Correlation, correlate, finite
from elmo.probes.layers import Layers, Progress, encode, unit
from elmo.probes.word_in_context import pair_cosines
from elmo.text import read_lines

BLOCK = 256
"""Questions that are compared with all words at a time."""
SYNTACTIC = "gram"
"""How names of syntactic sections begin."""


class RatedPair(NamedTuple):
    """Two words, and how alike or related people find them."""

    first: str
    second: str
    rating: float


@dataclass(frozen=True)
class PairSimilarity:
    """Agreement with people at a layer.

    Attributes:
        layer: Its number; None for the mean of all layers.
        correlation: Of the pairs whose words both have a vector.
        n_pairs: All that were rated.
    """

    layer: int | None
    correlation: Correlation
    n_pairs: int


class Question(NamedTuple):
    """As a is to b, so c is to d, which is asked.

    Attributes:
        section: Where it stands.
        words: a, b, c and d.
    """

    section: str
    words: tuple[str, str, str, str]


@dataclass(frozen=True)
class AnalogyScore:
    """Questions answered at a layer.

    Attributes:
        layer: Its number; None for the mean of all layers.
        section: Of the questions; or `semantic`, `syntactic`, `all`.
        n_right: Answered rightly.
        n_asked: Whose four words are known.
        n_questions: All.
    """

    layer: int | None
    section: str
    n_right: int
    n_asked: int
    n_questions: int

    @property
    def accuracy(self) -> float | None:
        """Of those asked, in percent; None if none was."""
        return 100 * self.n_right / self.n_asked if self.n_asked else None


def read_rated_pairs(path: str | Path) -> list[RatedPair]:
    """Two words and a number per line, tab-separated, compressed or not.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is something else, or the file is empty.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        fields = line.split("\t")
        try:
            first, second, rating = fields
            pairs.append(RatedPair(first.strip(), second.strip(), finite(rating)))
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: is {line[:60]!r}, but expected two words and a number "
                "with tabs between"
            ) from None
    if not pairs:
        raise ValueError(f"{path} holds no pair")
    return pairs


def read_questions(path: str | Path) -> list[Question]:
    """Four words per line, `: name` before each section, as `questions-words.txt` has them.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is something else, or the file is empty.
    """
    section, questions = "", []
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        if not line.strip():
            continue
        words = line.split()
        if len(words) != 4:
            raise ValueError(f"{path}, line {number}: has {len(words)} words, but expected 4")
        questions.append(Question(section, (words[0], words[1], words[2], words[3])))
    if not questions:
        raise ValueError(f"{path} holds no question")
    return questions


def word_vectors(
    encoder: Encoder, words: Sequence[str], layers: Layers, progress: Progress | None = None
) -> Float[np.ndarray, "chosen words dim"]:
    """The vectors of words, each a sentence of its own; zero where static vectors know none."""
    read = encode(encoder, [[word] for word in words], layers, progress=progress)
    return np.stack([of[:, 0] for of in read], axis=1)


def score_pairs(
    encoder: Encoder,
    pairs: Sequence[RatedPair],
    layers: Layers,
    *,
    progress: Progress | None = None,
) -> list[PairSimilarity]:
    """Spearman's correlation of cosines and ratings, over pairs whose words both have a vector.

    Args:
        encoder: Gives the vectors.
        pairs: Rated by people.
        layers: Of that encoder.
        progress: As `encode` calls it.

    Raises:
        ValueError: If the encoder knows fewer than two pairs.
        ImportError: If scipy is not installed.
    """
    words = list(dict.fromkeys(word for pair in pairs for word in pair[:2]))
    rows = {word: row for row, word in enumerate(words)}
    vectors = word_vectors(encoder, words, layers, progress)
    known = np.asarray(vectors.any(axis=2).all(axis=0))
    kept = [pair for pair in pairs if known[rows[pair.first]] and known[rows[pair.second]]]
    if len(kept) < 2:
        raise ValueError(
            f"{encoder.name} has vectors for both words of {len(kept)} of {len(pairs)} pairs: at "
            "least 2 are wanted"
        )
    cosines = pair_cosines(
        vectors[:, [rows[pair.first] for pair in kept]],
        vectors[:, [rows[pair.second] for pair in kept]],
    )
    ratings = [pair.rating for pair in kept]
    return [
        PairSimilarity(layer, correlate(of, ratings), len(pairs))
        for layer, of in zip(layers.chosen, cosines, strict=True)
    ]


def vocabulary_of(encoder: Encoder, most: int | None = None) -> list[str]:
    """The words that static vectors know, the first `most`: frequent ones come first.

    Raises:
        ValueError: If the encoder knows no list of words, as contextual ones.
    """
    if not isinstance(encoder, StaticEncoder):
        raise ValueError(
            f"{encoder.name} has a vector for any word: say among which words answers are looked "
            "for, by a file of them (--vocabulary)"
        )
    return encoder.words[:most]


def score_analogies(
    encoder: Encoder,
    questions: Sequence[Question],
    vocabulary: Sequence[str],
    layers: Layers,
    *,
    progress: Progress | None = None,
) -> list[AnalogyScore]:
    """Answer "a is to b as c is to ?" with the word whose vector is most like b - a + c (3CosAdd).

    Vectors have length 1 before they are added; a, b and c are no answers (Mikolov et al., 2013).
    A word that is not known as it is written is looked up in lower case; questions with a word that
    is not known then either are not asked, but counted.

    Args:
        encoder: Gives the vectors.
        questions: Any number.
        vocabulary: Words among which the answer is looked for.
        layers: Of that encoder.
        progress: As `encode` calls it.

    Raises:
        ValueError: If there is no word to look among, or no question can be asked.
    """
    words = list(dict.fromkeys(vocabulary))
    vectors = word_vectors(encoder, words, layers, progress) if words else np.zeros((0, 0, 0))
    known = np.asarray(vectors.any(axis=2).all(axis=0))
    rows = {word: row for row, word in enumerate(words) if known[row]}
    asked: list[list[int]] = []
    sections: list[str] = []
    for question in questions:
        of = [rows.get(word, rows.get(word.lower(), -1)) for word in question.words]
        if min(of) >= 0:
            asked.append(of)
            sections.append(question.section)
    if not asked:
        raise ValueError(
            f"none of the {len(questions)} questions has all its words among the {len(rows):,} "
            f"that {encoder.name} gives a vector"
        )
    numbers = np.array(asked)
    scores = []
    for layer, of_layer in zip(layers.chosen, vectors, strict=True):
        right = three_cos_add(unit(of_layer), numbers[:, :3]) == numbers[:, 3]
        scores += _sections(layer, right.tolist(), sections, questions)
    return scores


def three_cos_add(
    vectors: Float[np.ndarray, "words dim"], asked: Int[np.ndarray, "questions three"]
) -> Int[np.ndarray, " questions"]:
    """Of each question, the row whose vector is most like b - a + c, other than a, b and c.

    Args:
        vectors: Of length 1, or 0.
        asked: Rows of a, b and c.
    """
    answers = np.empty(len(asked), dtype=np.int64)
    unknown = ~vectors.any(axis=1)
    for start in range(0, len(asked), BLOCK):
        of = asked[start : start + BLOCK]
        towards = vectors[of[:, 1]] - vectors[of[:, 0]] + vectors[of[:, 2]]
        cosines = towards @ vectors.T  # the length of `towards` changes no order
        np.put_along_axis(cosines, of, -np.inf, axis=1)
        cosines[:, unknown] = -np.inf
        answers[start : start + BLOCK] = cosines.argmax(axis=1)
    return answers


def _sections(
    layer: int | None, right: Sequence[bool], asked: Sequence[str], questions: Sequence[Question]
) -> list[AnalogyScore]:
    every = [question.section for question in questions]

    def score(name: str, belongs: Callable[[str], bool]) -> AnalogyScore:
        return AnalogyScore(
            layer,
            name,
            sum(r for r, of in zip(right, asked, strict=True) if belongs(of)),
            _count(asked, belongs),
            _count(every, belongs),
        )

    names = list(dict.fromkeys(every))
    scores = [score(name, lambda of, name=name: of == name) for name in names]  # type: ignore[misc]
    if any(name.startswith(SYNTACTIC) for name in names):
        scores.append(score("semantic", lambda of: not of.startswith(SYNTACTIC)))
        scores.append(score("syntactic", lambda of: of.startswith(SYNTACTIC)))
    return [*scores, score("all", lambda of: True)]


def _count(names: Iterable[str], belongs: Callable[[str], bool]) -> int:
    return sum(map(belongs, names))
