"""One vector per document: how often it has each term, rare terms counting for more.

Axes: documents, dim (terms).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from elmo.checkpoints.together import replaced_together
from elmo.config import config_from_dict, config_to_dict, read_json_object
from elmo.encoders.encoder import checked, digest, extra

CONFIG_FILE, WEIGHTS_FILE = "tfidf.json", "tfidf.safetensors"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class TfidfConfig:
    """What counts as a term.

    Args:
        max_terms: The most frequent ones are kept.
        max_tokens: A term is one to so many tokens in a row.
        min_documents: Terms of fewer documents are left out.
        lower: Whether case is ignored.
        sublinear: Whether a term counts 1 + log of how often a document has it.
    """

    max_terms: int = 20_000
    max_tokens: int = 2
    min_documents: int = 2
    lower: bool = True
    sublinear: bool = True

    def __post_init__(self) -> None:
        for name in ("max_terms", "max_tokens", "min_documents"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")


class Tfidf:
    """Vectors of documents by their terms, each of length 1; of unknown terms alone, zeros.

    Args:
        config: What counts as a term.
        terms: Sorted; each one's place is a dimension.
        weights: Of each term: ln((1 + n) / (1 + documents with it)) + 1.
    """

    name = "tfidf"

    def __init__(
        self, config: TfidfConfig, terms: Sequence[str], weights: Float[np.ndarray, " dim"]
    ) -> None:
        self.config = config
        self.terms = list(terms)
        self.weights = np.asarray(weights, dtype=np.float32)
        self._vectorizer = _vectorizer(config, vocabulary=self.terms)
        self._vectorizer.idf_ = self.weights

    @classmethod
    def fit(cls, documents: Sequence[Sequence[str]], config: TfidfConfig | None = None) -> "Tfidf":
        """Choose and weigh terms by the tokenized documents to train on.

        Raises:
            ImportError: If scikit-learn is not installed.
            ValueError: If no term is left.
            TypeError: If a document is a string instead of a sequence of tokens.
        """
        config = config or TfidfConfig()
        tokenized = checked(documents)
        vectorizer = _vectorizer(config)
        n_tokens = sum(map(len, tokenized))
        if len(tokenized) < config.min_documents or not n_tokens:
            raise ValueError(_no_term(len(tokenized), n_tokens, config))
        try:
            vectorizer.fit(tokenized)
        except ValueError:  # there is no other reason left
            raise ValueError(_no_term(len(tokenized), n_tokens, config)) from None
        return cls(config, vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)

    @property
    def dim(self) -> int:
        """Terms."""
        return len(self.terms)

    @property
    def identity(self) -> str:
        """A digest of all that the vectors depend on."""
        settings = {**config_to_dict(self.config), "terms": self.terms}
        return digest("tfidf", settings, [("weights", self.weights)])

    def encode(self, documents: Sequence[Sequence[str]]) -> Float[np.ndarray, "documents dim"]:
        """Vectors of tokenized documents, as float32.

        Raises:
            TypeError: If a document is a string instead of a sequence of tokens.
        """
        if not documents:
            return np.zeros((0, self.dim), dtype=np.float32)
        return self._vectorizer.transform(checked(documents)).toarray().astype(np.float32)

    def save(self, folder: str | Path) -> None:
        """Write terms and weights into a folder: `tfidf.json` and `tfidf.safetensors`."""
        values = {
            "format": "tfidf",
            "version": FORMAT_VERSION,
            "config": config_to_dict(self.config),
            "terms": self.terms,
        }
        with replaced_together(Path(folder), CONFIG_FILE, [WEIGHTS_FILE]) as beside:
            text = json.dumps(values, ensure_ascii=False) + "\n"
            beside(CONFIG_FILE).write_text(text, encoding="utf-8")
            save_file({"weights": self.weights}, beside(WEIGHTS_FILE))

    @classmethod
    def load(cls, folder: str | Path) -> "Tfidf":
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: If a file is missing.
            ImportError: If scikit-learn is not installed.
            ValueError: If a file is damaged, or of another version.
        """
        where = Path(folder) / CONFIG_FILE
        values = read_json_object(where)
        if values.get("format") != "tfidf" or values.get("version") != FORMAT_VERSION:
            raise ValueError(
                f"{where} has format {values.get('format')!r}, version {values.get('version')!r}, "
                f'but "tfidf", version {FORMAT_VERSION} was expected'
            )
        config = config_from_dict(TfidfConfig, values.get("config"), str(where))
        terms = values.get("terms")
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise ValueError(f'{where}: "terms" is no list of strings')
        weights_file = Path(folder) / WEIGHTS_FILE
        if not weights_file.exists():
            raise FileNotFoundError(f"{weights_file} does not exist")
        try:
            weights = load_file(weights_file)["weights"]
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"{weights_file} is damaged: {error}") from None
        if weights.shape != (len(terms),):
            raise ValueError(
                f"{weights_file} has weights of shape {weights.shape}, but {where} has "
                f"{len(terms):,} terms"
            )
        return cls(config, terms, weights)


def _vectorizer(config: TfidfConfig, vocabulary: list[str] | None = None) -> Any:
    with extra("tasks", "tfidf"):
        from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        analyzer=_Terms(config.max_tokens, config.lower),
        max_features=config.max_terms if vocabulary is None else None,
        min_df=config.min_documents if vocabulary is None else 1,
        sublinear_tf=config.sublinear,
        vocabulary=vocabulary,
        dtype=np.float64,
    )


class _Terms:
    """Terms of a tokenized document: its tokens, and tokens in a row with spaces between."""

    def __init__(self, max_tokens: int, lower: bool) -> None:
        self._max_tokens, self._lower = max_tokens, lower

    def __call__(self, document: Sequence[str]) -> list[str]:
        tokens = [token.lower() if self._lower else token for token in document]
        return [
            " ".join(tokens[start : start + n])
            for n in range(1, self._max_tokens + 1)
            for start in range(len(tokens) - n + 1)
        ]


def _no_term(n_documents: int, n_tokens: int, config: TfidfConfig) -> str:
    return (
        f"no term occurs in {config.min_documents} of {n_documents:,} documents with {n_tokens:,} "
        "tokens: give more text, or a smaller min_documents"
    )
