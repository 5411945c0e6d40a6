"""What every encoder gives: layers of vectors of tokens; and what tells two encoders apart.

Axes: layers, batch, tokens, dim.
"""

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from elmo.text import check_tokens

logger = logging.getLogger(__name__)


class LayersModule(nn.Module, ABC):
    """An encoder that learns with a task: a part of the task's model.

    Attributes:
        n_layers: Layers that it gives.
        dim: Width of each.
    """

    n_layers: int
    dim: int

    @abstractmethod
    def forward(
        self, sentences: Sequence[Sequence[str]]
    ) -> Float[Tensor, "layers batch tokens dim"]:
        """Encode tokenized sentences, padded to the longest; zero beyond a sentence's end.

        Raises:
            TypeError: If a sentence is a string instead of a sequence of tokens.
        """


@runtime_checkable
class Encoder(Protocol):
    """Layers of vectors of tokens, by weights that never change."""

    @property
    def name(self) -> str:
        """What it was asked for by, as `elmo:default`."""

    @property
    def n_layers(self) -> int:
        """Layers that a mix sees; 1 for static vectors."""

    @property
    def dim(self) -> int:
        """Width of a vector at any layer."""

    @property
    def identity(self) -> str:
        """A digest of all that its vectors depend on: kind, settings, weights."""

    def encode_layers(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[Float[np.ndarray, "layers tokens dim"]]:
        """Vectors of every token at every layer.

        Neighbours and order change them by no more than rounding.

        Args:
            sentences: Tokenized sentences of any lengths, none included.

        Returns:
            One float32 array per sentence, in input order.

        Raises:
            TypeError: If a sentence is a string instead of a sequence of tokens.
        """

    def trainable(self) -> LayersModule:
        """A copy that learns with a task.

        Raises:
            ValueError: If there is none of this kind.
        """


@dataclass(frozen=True)
class EncoderRecord:
    """What a saved model keeps of an encoder that it was trained on."""

    name: str
    n_layers: int
    dim: int
    identity: str


def record(encoder: Encoder) -> EncoderRecord:
    """What to store of an encoder with a model that was trained on it; see `check_same`."""
    return EncoderRecord(encoder.name, encoder.n_layers, encoder.dim, encoder.identity)


def check_same(encoder: Encoder, trained_on: EncoderRecord) -> None:
    """Refuse an encoder of another size than a model was trained on.

    One of the same size with other weights or settings is told in a warning.

    Raises:
        ValueError: If it has another number of layers, or layers of another width.
    """
    given = f"{encoder.n_layers} × {encoder.dim}"
    wanted = f"{trained_on.n_layers} × {trained_on.dim}"
    if given != wanted:
        raise ValueError(
            f"{encoder.name} gives {given} (layers × width), but the model was trained on "
            f"{trained_on.name} with {wanted}: give that encoder"
        )
    if encoder.identity != trained_on.identity:
        logger.warning(
            "%s has other weights or settings than %s, which the model was trained on",
            encoder.name,
            trained_on.name,
        )


def digest(kind: str, settings: Mapping[str, Any], arrays: Iterable[tuple[str, Any]]) -> str:
    """An identity: of a kind of encoder, its settings as JSON, and its named arrays."""
    made = hashlib.sha256(json.dumps([kind, settings], sort_keys=True).encode())
    for name, array in arrays:
        array = np.ascontiguousarray(array)
        made.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        made.update(array.data.cast("B") if array.size else b"")
    return made.hexdigest()


def checked(sentences: Sequence[Any]) -> list[list[str]]:
    """The sentences as lists of tokens.

    Raises:
        TypeError: If a sentence is a string or no sequence, or a token is no string.
    """
    if isinstance(sentences, str):
        raise TypeError(
            f"sentences is the string {sentences[:40]!r}, but a sequence of tokenized sentences is "
            "wanted"
        )
    tokenized = []
    for i, sentence in enumerate(sentences):
        check_tokens(sentence, i)
        for token in sentence:
            if not isinstance(token, str):
                raise TypeError(
                    f"sentences[{i}] holds {token!r} ({type(token).__name__}), but a token is a "
                    "string"
                )
        tokenized.append(list(sentence))
    return tokenized


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """A context to import in what belongs to an extra of the package.

    Args:
        name: Of the extra, as `compare`.
        what: Needs it.

    Raises:
        ImportError: If a package is missing; the message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or str(error)).partition(".")[0]
        raise ImportError(
            f"{what} needs {package}, which is not installed: pip install 'elmo-torch[{name}]'"
        ) from None
