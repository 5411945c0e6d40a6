"""Examples of similar lengths side by side: little padding, and another order in every epoch."""

from collections.abc import Sequence

import numpy as np

POOL = 100
"""Batches whose examples are drawn together and sorted by length."""


def shuffled_batches(
    lengths: Sequence[int],
    rows: Sequence[int],
    *,
    batch_size: int,
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[list[int]]:
    """Numbers of the examples of each batch of an epoch.

    Args:
        lengths: Tokens of each example.
        rows: How often a network reads them, side by side.
        batch_size: Examples per batch at most.
        batch_tokens: Tokens per batch at most, of all rows, padding included; a longer example goes
            alone.
        seed: With the epoch, of the order.
        epoch: From 0.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths)).tolist()
    size = POOL * batch_size
    batches = []
    for start in range(0, len(order), size):
        pool = sorted(order[start : start + size], key=lambda i: lengths[i])
        batches += _cut(pool, lengths, rows, batch_size, batch_tokens)
    return [batches[i] for i in rng.permutation(len(batches))]


def sorted_batches(
    lengths: Sequence[int], rows: Sequence[int], *, batch_size: int, batch_tokens: int
) -> list[list[int]]:
    """Numbers of the examples of each batch, the shortest first; as in `shuffled_batches`."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return _cut(order, lengths, rows, batch_size, batch_tokens)


def share_of(batches: list[list[int]], rank: int, n: int) -> list[list[int]]:
    """The batches of one of `n` processes: each gets as many, some batches being read twice."""
    n_each = -(-len(batches) // n)
    return [batches[(rank + k * n) % len(batches)] for k in range(n_each)]


def _cut(
    order: Sequence[int],
    lengths: Sequence[int],
    rows: Sequence[int],
    batch_size: int,
    batch_tokens: int,
) -> list[list[int]]:
    batches: list[list[int]] = []
    n_rows = 0
    for i in order:  # by rising length, so that the newest is the longest of its batch
        last = batches[-1] if batches else []
        if last and len(last) < batch_size and (n_rows + rows[i]) * lengths[i] <= batch_tokens:
            last.append(i)
            n_rows += rows[i]
        else:
            batches.append([i])
            n_rows = rows[i]
    return batches
