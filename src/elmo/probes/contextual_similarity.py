"""Do cosines of a word's uses agree with what people say of their meanings?

Axes: chosen (layers), pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmo.compare import Marked, marked_tokens
from elmo.encoders import Encoder
from elmo.probes.correlation import Correlation, correlate, finite
from elmo.probes.layers import Layers, Progress
from elmo.probes.word_in_context import pair_cosines, use_vectors
from elmo.probes.word_in_context_data import Use
from elmo.text import Tokenizer, read_lines

COLUMNS = ("pair", "target", "sample", "sentence1", "index1", "sentence2", "index2", "mean")
"""That a file has to have; others are passed over."""
CONTROLS = ("Homonym", "Synonym", "Filler")
"""Targets that are none: pairs whose answer is clear, to see that raters take care."""
ALL, WITHOUT_CONTROLS = "all pairs", "without controls"


class RatedUses(NamedTuple):
    """Two uses of a word, and how alike people find their meanings.

    Attributes:
        target: The word, or what kind of control it is.
        uses: One per sentence.
        rating: The mean of theirs.
    """

    target: str
    uses: tuple[Use, Use]
    rating: float


@dataclass(frozen=True)
class ContextualSimilarity:
    """Agreement at a layer.

    Attributes:
        layer: Its number; None for the mean of all layers.
        pairs: Which: all, those without controls, or those of one target.
        correlation: Of cosines and ratings.
    """

    layer: int | None
    pairs: str
    correlation: Correlation


def read_rated_uses(path: str | Path, tokenizer: Tokenizer) -> list[RatedUses]:
    """Rated pairs of sentences in columns with a header, compressed or not.

    An index counts the words between spaces from 0, `2,4` or `2,3,4` from the first to the last;
    punctuation around them belongs to no target.

    Args:
        path: Tab-separated, with `COLUMNS`.
        tokenizer: Splits the sentences.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a column is missing, a line is short, or a number is none.
    """
    lines = enumerate(read_lines(path), start=1)
    header = next(lines, (1, ""))[1].split("\t")
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise ValueError(f"{path}: has no column {', '.join(missing)}; it has {', '.join(header)}")
    pairs = []
    for number, line in lines:
        where = f"{path}, line {number}"
        fields = line.split("\t")
        if len(fields) != len(header):
            raise ValueError(f"{where}: has {len(fields)} fields, but the header {len(header)}")
        of = dict(zip(header, fields, strict=True))
        try:
            rating = finite(of["mean"])
        except ValueError:
            raise ValueError(f"{where}: the mean rating {of['mean']!r} is no number") from None
        uses = [_use(of[f"sentence{k}"], of[f"index{k}"], tokenizer, where) for k in (1, 2)]
        pairs.append(RatedUses(of["target"], (uses[0], uses[1]), rating))
    return pairs


def score_rated_uses(
    encoder: Encoder,
    pairs: Sequence[RatedUses],
    layers: Layers,
    *,
    progress: Progress | None = None,
) -> list[ContextualSimilarity]:
    """Spearman's correlation of cosines and ratings: of all pairs, without controls, per target.

    Args:
        encoder: Gives the vectors.
        pairs: Rated by people.
        layers: Of that encoder.
        progress: As `encode` calls it.

    Raises:
        ValueError: If there are fewer than two pairs.
        ImportError: If scipy is not installed.
    """
    if len(pairs) < 2:
        raise ValueError(f"{len(pairs)} pairs were given, but at least 2 are wanted to correlate")
    vectors = use_vectors(encoder, [use for pair in pairs for use in pair.uses], layers, progress)
    cosines = pair_cosines(vectors[:, ::2], vectors[:, 1::2])
    ratings = [pair.rating for pair in pairs]
    targets = [pair.target for pair in pairs]
    kinds = {ALL: list(range(len(pairs)))}
    without = [i for i, target in enumerate(targets) if target not in CONTROLS]
    if 2 <= len(without) < len(pairs):
        kinds[WITHOUT_CONTROLS] = without
    for target in dict.fromkeys(targets):
        inside = [i for i, of in enumerate(targets) if of == target]
        if 2 <= len(inside) < len(pairs):
            kinds[target] = inside
    return [
        ContextualSimilarity(layer, name, correlate(of_layer[inside], [ratings[i] for i in inside]))
        for name, inside in kinds.items()
        for layer, of_layer in zip(layers.chosen, cosines, strict=True)
    ]


def _use(text: str, index: str, tokenizer: Tokenizer, where: str) -> Use:
    numbers = index.split(",")
    words = text.split(" ")
    if not all(number.strip().isdecimal() for number in numbers):
        raise ValueError(f"{where}: the index is {index!r}, but expected a number, or some as 2,4")
    first, last = int(numbers[0]), int(numbers[-1])
    if not first <= last < len(words):
        raise ValueError(f"{where}: the index is {index}, but the sentence has {len(words)} words")
    start = sum(len(word) + 1 for word in words[:first])
    end = start + len(" ".join(words[first : last + 1]))
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and not text[end - 1].isalnum():
        end -= 1
    tokens, inside = marked_tokens(Marked(text, (start, end)), tokenizer)
    if not inside:
        raise ValueError(f"{where}: word {index} of {text!r} holds no letter")
    return Use(tokens, tuple(inside))
