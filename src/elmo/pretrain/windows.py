"""A corpus as windows of equal size, packed as the original packs them.

Every row is a stream: when its sentence ends, it takes the next one of the corpus and goes on, so
that no step is padding; a window cuts a sentence where it must, and the next goes on with it.
The backward model gets the same sentences with their tokens reversed. `</S>` (for the backward
model `<S>`) is predicted but never read. Axes: directions, steps, rows.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int

from elmo.pretrain.corpus import Corpus

NO_TARGET = -1
"""Stands in `targets` where nothing is predicted."""


@runtime_checkable
class Order(Protocol):
    """Which sentence comes at each place; an `IndexError` ends it."""

    def __getitem__(self, k: int, /) -> int: ...


class Window(NamedTuple):
    """What one training step reads and predicts.

    Attributes:
        inputs: Types read.
        targets: Words that follow them; `NO_TARGET` where nothing is predicted.
        begins: True where a sentence begins.
        n_predicted: Predictions per direction, those of rows that are read elsewhere included.
    """

    inputs: Int[np.ndarray, "directions steps rows"]
    targets: Int[np.ndarray, "directions steps rows"]
    begins: Bool[np.ndarray, "directions steps rows"]
    n_predicted: int


class Position(NamedTuple):
    """Where a window starts.

    Attributes:
        drawn: Sentences taken from the order so far.
        sentences: The place in the order of the sentence that each row is in; −1 for none.
        offsets: How many of its steps were read.
    """

    drawn: int
    sentences: Int[np.ndarray, " rows"]
    offsets: Int[np.ndarray, " rows"]


class Windows(Iterator[Window]):
    """Sentences of a corpus, packed in the order given.

    When the sentences are used up, the window that could not be filled is left out, with what
    stood in it: fewer than `n_rows` sentences and a window.

    Args:
        corpus: The sentences.
        order: Which sentence comes when: a list, or a `Shuffled`, which never ends.
        n_rows: Rows of a window, of all processes together.
        n_steps: Steps of a window.
        rows: The rows that are wanted; what stands in them does not depend on which.
        position: Where to start: the `position` of other `Windows` of as many rows.

    Raises:
        ValueError: If a window would have no row or no step, or the position is of another number
            of rows.

    Source:
        `_get_batch` in `allenai/bilm-tf`.
    """

    def __init__(
        self,
        corpus: Corpus,
        order: Order,
        *,
        n_rows: int,
        n_steps: int,
        rows: slice = slice(None),
        position: Position | None = None,
    ) -> None:
        if n_rows < 1 or n_steps < 1:
            raise ValueError(f"a window of {n_rows} rows and {n_steps} steps holds nothing")
        if position is None:
            position = Position(0, np.full(n_rows, -1), np.zeros(n_rows, dtype=np.int64))
        if len(position.sentences) != n_rows:
            raise ValueError(
                f"the position is one of {len(position.sentences)} rows, but windows of {n_rows} "
                "rows are wanted: keep n_rows, or start anew"
            )
        self.corpus, self.order, self.n_rows, self.n_steps = corpus, order, n_rows, n_steps
        self._rows = range(n_rows)[rows]
        self._read_here = np.isin(np.arange(n_rows), self._rows)
        self._position = position
        # Per row: length of its sentence with one boundary, and (of rows read here) its types.
        self._lengths = [0] * n_rows
        self._streams: list[np.ndarray | None] = [None] * n_rows
        for row, k in enumerate(position.sentences.tolist()):
            if k >= 0:
                self._lengths[row], self._streams[row] = self._take(k, row)

    @property
    def position(self) -> Position:
        """Where the next window starts."""
        return self._position

    def __next__(self) -> Window:
        n_steps, column = self.n_steps, {row: i for i, row in enumerate(self._rows)}
        read = np.empty((2, len(column), n_steps), dtype=np.int64)
        follows = np.empty_like(read)
        begins = np.zeros(read.shape, dtype=bool)
        drawn, offsets = self._position.drawn, self._position.offsets.tolist()
        sentences = self._position.sentences.tolist()
        lengths, streams = list(self._lengths), list(self._streams)
        for row in range(self.n_rows):
            step = 0
            while step < n_steps:
                if offsets[row] >= lengths[row]:
                    try:
                        lengths[row], streams[row] = self._take(drawn, row)
                    except IndexError:
                        raise StopIteration from None
                    sentences[row], offsets[row] = drawn, 0
                    drawn += 1
                start = offsets[row]
                n = min(lengths[row] - start, n_steps - step)
                stream = streams[row]
                if stream is not None:
                    i, part = column[row], slice(step, step + n)
                    begins[:, i, step] = start == 0
                    read[0, i, part] = stream[start : start + n]
                    follows[0, i, part] = stream[start + 1 : start + n + 1]
                    back = stream[::-1]
                    read[1, i, part] = back[start : start + n]
                    follows[1, i, part] = back[start + 1 : start + n + 1]
                step += n
                offsets[row] = start + n
        self._position = Position(drawn, np.array(sentences), np.array(offsets))
        self._lengths, self._streams = lengths, streams
        by_time = (0, 2, 1)
        return Window(
            read.transpose(by_time),
            self.corpus.words[follows].transpose(by_time).astype(np.int64),
            begins.transpose(by_time),
            self.n_rows * n_steps,
        )

    def _take(self, k: int, row: int) -> tuple[int, np.ndarray | None]:
        """The steps of the sentence at place `k`, and its types if the row is read here."""
        i = self.order[k]
        here = self.corpus.sentence(i) if self._read_here[row] else None
        return self.corpus.length(i) + 1, here
