"""One vector per word, whatever stands around it: Word2Vec, GloVe, FastText.

Axes: layers (one), tokens, dim; words (known ones).
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from elmo.encoders.encoder import LayersModule, checked, digest, extra
from elmo.encoders.ngrams import Ngrams
from elmo.encoders.static_files import read


class StaticEncoder:
    """Vectors of words as one layer; see `encoder.Encoder`.

    A word that is not known as it is written is looked up in lower case, so that vectors of
    lower-cased text serve too; then, for FastText, it is the mean of its n-grams; else it is zero.

    Args:
        words: Known words; of equal ones the first counts.
        vectors: Theirs.
        ngrams: Of FastText, for other words.
        name: What it was asked for by.

    Raises:
        ImportError: If there are n-grams but no gensim, which hashes them.
    """

    n_layers = 1

    def __init__(
        self,
        words: Sequence[str],
        vectors: Float[np.ndarray, "words dim"],
        ngrams: Ngrams | None = None,
        name: str = "static",
    ) -> None:
        if ngrams is not None:
            with extra("compare", name):
                import gensim.models.fasttext  # noqa: F401
        self.name = name
        self.words = list(words)
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self.ngrams = ngrams
        self._rows = {word: row for row, word in reversed(list(enumerate(self.words)))}

    @classmethod
    def open(cls, path: str | Path, *, name: str | None = None) -> "StaticEncoder":
        """The vectors in a file, of any kind that `static_files.read` knows; it raises as that."""
        words, vectors, ngrams = read(Path(path))
        return cls(words, vectors, ngrams, name or f"static:{path}")

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def identity(self) -> str:
        """See `Encoder`."""
        arrays = [
            ("words", np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)),
            ("vectors", self.vectors),
        ]
        settings = {}
        if self.ngrams is not None:
            arrays.append(("ngrams", self.ngrams.vectors))
            settings = {"min_n": self.ngrams.min_n, "max_n": self.ngrams.max_n}
        return digest("static", settings, arrays)

    def encode_layers(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[Float[np.ndarray, "layers tokens dim"]]:
        """See `Encoder`."""
        return [self._of_sentence(sentence)[None] for sentence in checked(sentences)]

    def coverage(self, sentences: Sequence[Sequence[str]]) -> float:
        """Share of the tokens that are known words, in lower case at least."""
        known = [self._row(token) >= 0 for sentence in checked(sentences) for token in sentence]
        return sum(known) / max(1, len(known))

    def trainable(self) -> LayersModule:
        """Static vectors do not learn with a task.

        Raises:
            ValueError: Always; the message says what to do.
        """
        raise ValueError(
            f"{self.name} cannot be fine-tuned: static vectors stay as they are; give elmo or a "
            "transformer, or leave them frozen"
        )

    def _row(self, word: str) -> int:
        row = self._rows.get(word, -1)
        return row if row >= 0 else self._rows.get(word.lower(), -1)

    def _of_sentence(self, tokens: list[str]) -> Float[np.ndarray, "tokens dim"]:
        rows = np.array([self._row(token) for token in tokens], dtype=np.int64)
        vectors = np.zeros((len(tokens), self.dim), dtype=np.float32)
        vectors[rows >= 0] = self.vectors[rows[rows >= 0]]
        if self.ngrams is not None:
            for i in np.flatnonzero(rows < 0).tolist():
                if buckets := self.ngrams.buckets(tokens[i]):
                    vectors[i] = self.ngrams.vectors[buckets].mean(axis=0)
        return vectors
