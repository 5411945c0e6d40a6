"""Which layers of an encoder a probe looks at, and their vectors, some sentences at a time.

Axes: layers (all of the encoder's), chosen (layers and mixes that are looked at), tokens, dim.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from elmo.encoders import Encoder, open_encoders, read_specification
from elmo.model.device import named_device
from elmo.store import check_room

CHUNK = 512
"""Sentences whose vectors are in memory at a time."""
ALL, MEAN = "all", "mean"

Progress = Callable[[str, float, str], object]
"""Called with a label of some work, the share of it that is done, and a text beside."""


def open_one(
    specification: str, *, device: str | torch.device = "auto", offline: bool | None = None
) -> Encoder:
    """The encoder that a probe is to look at.

    Args:
        specification: As for `elmo.encoders.open_encoders`, of one encoder.
        device: Where to compute; `auto` is a GPU if there is one.
        offline: Never use the network; by default as ELMO_OFFLINE or HF_HUB_OFFLINE say.

    Raises:
        ValueError: If it asks for none, for several, or for `tfidf`.
        ImportError: As `open_encoders`, as are FileNotFoundError and OSError.
    """
    parts = read_specification(specification)
    if len(parts) != 1:
        asked = "several encoders" if parts else "no encoder"
        raise ValueError(f'"{specification}" asks for {asked}: a probe looks at one at a time')
    (encoder,) = open_encoders(parts, device=named_device(device), offline=offline)
    return encoder


@dataclass(frozen=True)
class Layers:
    """Layers of an encoder that are looked at, in order; None stands for the mean of all.

    Attributes:
        chosen: Numbers from 0.
        n_layers: Of the encoder.
    """

    chosen: tuple[int | None, ...]
    n_layers: int

    @classmethod
    def read(cls, text: str, n_layers: int) -> "Layers":
        """What a text asks for: numbers, negative ones from the last, and `mean`, commas between.

        `all` is every layer and, where there are several, their mean.

        Raises:
            ValueError: If it asks for something else, for a layer that there is not, or for one
                twice.
        """
        if text.strip() == ALL:
            return cls((*range(n_layers), *([None] if n_layers > 1 else [])), n_layers)
        chosen = tuple(_layer(part.strip(), n_layers, text) for part in text.split(","))
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"layers are {text!r}, which asks for one twice: leave one out")
        return cls(chosen, n_layers)

    @property
    def names(self) -> list[str]:
        """Of each, as a table says it."""
        return ["mean of layers" if k is None else f"layer {k}" for k in self.chosen]

    def take(
        self, vectors: Float[np.ndarray, "layers tokens dim"]
    ) -> Float[np.ndarray, "chosen tokens dim"]:
        """The chosen ones of the vectors of a sentence; a copy, so that the others can go."""
        return np.stack([vectors.mean(axis=0) if k is None else vectors[k] for k in self.chosen])


def encode(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    layers: Layers,
    *,
    label: str = "Reading",
    chunk: int = CHUNK,
    progress: Progress | None = None,
) -> Iterator[Float[np.ndarray, "chosen tokens dim"]]:
    """The vectors of each sentence in turn, at the chosen layers; memory does not grow with them.

    Args:
        encoder: Gives the vectors.
        sentences: Tokenized.
        layers: Of that encoder.
        label: Of this text, for `progress`.
        chunk: Sentences that are read at a time.
        progress: Called as sentences are read.
    """
    n = len(sentences)
    for start in range(0, n, chunk):
        some = sentences[start : start + chunk]
        for vectors in encoder.encode_layers(some):
            yield layers.take(vectors)
        if progress is not None:
            done = start + len(some)
            progress(label, done / n, f"{done:,} of {n:,} sentences")


@contextmanager
def on_disk(
    parts: Iterable[Float[np.ndarray, "chosen _ dim"]], shape: tuple[int, int, int]
) -> Iterator[Float[np.ndarray, "chosen rows dim"]]:
    """Vectors of a whole text, in a file of the system's temporary folder that is gone afterwards.

    It is mapped, so that a layer is read where it is looked at.

    Args:
        parts: Rows one after the other, at every chosen layer.
        shape: Of all together.

    Raises:
        OSError: If the disk has no room for them.
    """
    if not shape[1]:  # nothing to map
        yield np.empty(shape, np.float32)
        return
    check_room(Path(tempfile.gettempdir()) / "vectors", 4 * math.prod(shape))
    with tempfile.TemporaryFile() as file:
        vectors = np.memmap(file, np.float32, "w+", shape=shape)
        done = 0
        for part in parts:
            vectors[:, done : done + part.shape[1]] = part
            done += part.shape[1]
        assert done == shape[1]
        yield vectors


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1 along the last axis; those of length 0, which static words may be, stay.

    The cosine of such a vector with any is then 0.
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _layer(part: str, n_layers: int, text: str) -> int | None:
    if part == MEAN:
        return None if n_layers > 1 else 0  # the mean of one is that one
    try:
        layer = int(part)
    except ValueError:
        raise ValueError(
            f"layers are {text!r}, but expected all, or numbers and mean with commas between"
        ) from None
    if not -n_layers <= layer < n_layers:
        raise ValueError(f"there is no layer {layer}: the encoder has layers 0 to {n_layers - 1}")
    return layer % n_layers
