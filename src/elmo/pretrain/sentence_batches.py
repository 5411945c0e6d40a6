"""A corpus as batches of whole sentences, each read from its beginning to its end.

As vectors are computed later: no sentence is cut, none goes on from another's state. Sentences of
similar length stand side by side, what is left of a row is padding. Axes: directions, steps, rows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from elmo.pretrain.corpus import BEGIN_TYPE, END_TYPE, Corpus
from elmo.pretrain.windows import NO_TARGET, Order, Position, Window
from elmo.text import length_sorted_batches

POOL_BATCHES = 50
"""Sentences of a pool, in batches of one sentence per row: enough for rows of similar lengths."""


class _Piece(NamedTuple):
    """Steps of a sentence: all, unless it is longer than a batch."""

    sentence: int
    start: int
    n_steps: int


class SentenceBatches(Iterator[Window]):
    """Batches of whole sentences, of at most `n_rows` × `n_steps` steps, padding included.

    Sentences are taken from the order a pool at a time, sorted by length, cut into batches, and
    these shuffled. A sentence of more steps than a batch holds is cut into pieces, each read from
    a zero state. Where a share has no sentence it is one step that predicts nothing, so that each
    process makes as many steps as the others.

    Args:
        corpus: The sentences.
        order: Which sentence comes when: a list, or a `Shuffled`, which never ends.
        n_rows: Rows of a batch if all had `n_steps` steps, of all processes together.
        n_steps: Their steps.
        rows: The sentences of each batch that are wanted: `slice(r, None, n)` for process r of n.
        seed: Of the order of batches.
        position: Where to start: the `position` of other batches of this size and seed. Of its
            parts, `drawn` is where the pool starts, `offsets` how many of its batches were read.

    Raises:
        ValueError: If a batch would hold nothing, or the position is one of windows.
    """

    def __init__(
        self,
        corpus: Corpus,
        order: Order,
        *,
        n_rows: int,
        n_steps: int,
        rows: slice = slice(None),
        seed: int = 0,
        position: Position | None = None,
    ) -> None:
        if n_rows < 1 or n_steps < 1:
            raise ValueError(f"a batch of {n_rows} rows and {n_steps} steps holds nothing")
        if position is None:
            position = Position(0, np.array([-1]), np.array([0]))
        if len(position.offsets) != 1 or position.sentences[0] != -1:
            raise ValueError(
                f"the position is one of windows of {len(position.offsets)} rows, but whole "
                "sentences are wanted: go on with windows, or start anew"
            )
        self.corpus, self.order, self.n_rows, self.n_steps = corpus, order, n_rows, n_steps
        self.seed = seed
        self._rows, self._position = rows, position
        self._pool: list[list[_Piece]] | None = None
        self._pool_end = position.drawn

    @property
    def position(self) -> Position:
        """Where the next batch starts."""
        return self._position

    def __next__(self) -> Window:
        start, done = self._position.drawn, int(self._position.offsets[0])
        if self._pool is None:
            self._pool, self._pool_end = self._read_pool(start)
        if not self._pool:
            raise StopIteration
        batch = self._pool[done]
        if done + 1 < len(self._pool):
            self._position = self._position._replace(offsets=np.array([done + 1]))
        else:
            self._position = Position(self._pool_end, np.array([-1]), np.array([0]))
            self._pool = None
        return self._window(batch)

    def _read_pool(self, start: int) -> tuple[list[list[_Piece]], int]:
        """Batches of the pool that starts at a place, and where it ends."""
        pieces, most, end = [], self.n_rows * self.n_steps, start
        while end < start + self.n_rows * POOL_BATCHES:
            try:
                i = self.order[end]
                n_steps = self.corpus.length(i) + 1
            except IndexError:
                break
            for first in range(0, n_steps, most):
                pieces.append(_Piece(i, first, min(most, n_steps - first)))
            end += 1
        batches = length_sorted_batches([piece.n_steps for piece in pieces], most)
        shuffled = np.random.default_rng([self.seed, start]).permutation(len(batches))
        return [[pieces[i] for i in batches[b]] for b in shuffled.tolist()], end

    def _window(self, batch: list[_Piece]) -> Window:
        here = batch[self._rows]
        shape = (2, max((piece.n_steps for piece in here), default=1), max(1, len(here)))
        inputs = np.empty(shape, dtype=np.int64)
        inputs[0], inputs[1] = BEGIN_TYPE, END_TYPE
        targets = np.full(shape, NO_TARGET, dtype=np.int64)
        begins = np.zeros(shape, dtype=bool)
        for row, (i, start, n) in enumerate(here):
            stream = self.corpus.sentence(i)
            for direction, types in enumerate((stream, stream[::-1])):
                inputs[direction, :n, row] = types[start : start + n]
                targets[direction, :n, row] = self.corpus.words[types[start + 1 : start + n + 1]]
        begins[:, 0] = True
        return Window(inputs, targets, begins, sum(piece.n_steps for piece in batch))
