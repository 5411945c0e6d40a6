"""A corpus as windows of equal size, packed as the original packs them.

Every row is a stream: when its sentence ends, it takes the next one of the corpus and goes on, so
that no step is padding; a window cuts a sentence where it must, and the next goes on with it.
The backward model gets the same sentences with their tokens reversed. `</S>` (for the backward
model `<S>`) is predicted but never read. Axes: directions, steps, rows.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from elmo.pretrain.corpus import Corpus


class Window(NamedTuple):
    """What one training step reads and predicts.

    Attributes:
        inputs: Types read.
        targets: Words that follow them.
        begins: True where a sentence begins.
    """

    inputs: Int[np.ndarray, "directions steps rows"]
    targets: Int[np.ndarray, "directions steps rows"]
    begins: Bool[np.ndarray, "directions steps rows"]


def windows(corpus: Corpus, order: Iterable[int], *, n_rows: int, n_steps: int) -> Iterator[Window]:
    """Pack sentences of a corpus in the order given.

    When the sentences are used up, the window that could not be filled is left out, with what
    stood in it: fewer than `n_rows` sentences and a window.

    Raises:
        ValueError: If a window would have no row or no step.

    Source:
        `_get_batch` in `allenai/bilm-tf`.
    """
    if n_rows < 1 or n_steps < 1:
        raise ValueError(f"a window of {n_rows} rows and {n_steps} steps holds nothing")
    sentences = iter(order)
    streams = [np.empty(0, dtype=np.int64)] * n_rows
    done = [0] * n_rows
    while True:
        read = np.empty((2, n_rows, n_steps), dtype=np.int64)
        follows = np.empty((2, n_rows, n_steps), dtype=np.int64)
        begins = np.zeros((2, n_rows, n_steps), dtype=bool)
        for row in range(n_rows):
            step = 0
            while step < n_steps:
                if done[row] >= len(streams[row]) - 1:
                    i = next(sentences, None)
                    if i is None:
                        return
                    streams[row], done[row] = corpus.sentence(i), 0
                    begins[:, row, step] = True
                stream, start = streams[row], done[row]
                n = min(len(stream) - 1 - start, n_steps - step)
                for direction, tokens in enumerate((stream, stream[::-1])):
                    read[direction, row, step : step + n] = tokens[start : start + n]
                    follows[direction, row, step : step + n] = tokens[start + 1 : start + n + 1]
                step += n
                done[row] = start + n
        by_time = (0, 2, 1)
        yield Window(
            read.transpose(by_time),
            corpus.words[follows].transpose(by_time),
            begins.transpose(by_time),
        )
