"""What a format of vectors has to do."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np


class Sentence(NamedTuple):
    """A sentence that waits for the next commit."""

    tokens: list[str]  # none where the format does not store them
    vectors: np.ndarray


class Format(Protocol):
    """How sentences become bytes at the end of a growing file."""

    stores_tokens: bool

    def admit(self, index: int, tokens: Sequence[str], vectors: np.ndarray) -> None:
        """Raise ValueError for a sentence that the format cannot hold."""

    def write(self, first: int, sentences: Sequence[Sentence]) -> None:
        """Append sentences, the first of which has this index."""

    def finish(self, n_sentences: int) -> None:
        """Append what belongs at the end."""

    def close(self) -> None:
        """Let go of the file."""


def unreadable(path: Path, kind: str, reason: object) -> ValueError:
    """What to raise for a file that is damaged or of another kind."""
    first_line = str(reason).partition("\n")[0]
    return ValueError(
        f"{path} cannot be read as {kind}: {first_line}. It may be cut short, or not ours; write "
        "it again"
    )
