"""An endless shuffled order in which every place can be looked up by itself.

Nothing is stored and nothing is drawn: an order is a formula of a seed, so that a run goes on where
it stopped, and every process sees the same order, from one number: how far it has come.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Int

N_ROUNDS = 10
"""So many that even orders of a handful of numbers are nearly all equally frequent."""
BLOCK = 1024
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Shuffled:
    """Numbers below `n` in random order, all of them before any comes again, for ever.

    Every pass has another order. What stands at a place depends on `n`, the seed and the place
    alone.

    Args:
        n: How many numbers.
        seed: Another seed is another order.

    Raises:
        ValueError: If there is nothing to put in order, or the seed is negative.

    Source:
        A Feistel network over the next even number of bits, applied again to what falls outside
        (Black and Rogaway, 2002, "Ciphers with arbitrary finite domains", section 4).
    """

    def __init__(self, n: int, seed: int) -> None:
        if n < 1:
            raise ValueError(f"n is {n}, but an order is of at least 1 number")
        if seed < 0:
            raise ValueError(f"seed is {seed}, but must be at least 0")
        self.n, self.seed = n, seed
        self._half = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
        self._key = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        # Places are mostly asked for one after the other; together they cost far less.
        self._block = lru_cache(4)(lambda b: self.many(np.arange(b * BLOCK, (b + 1) * BLOCK)))

    def __getitem__(self, k: int) -> int:
        """What stands at place `k`, the pass `k // n`.

        Raises:
            IndexError: If `k` is negative: there is no end to count from.
        """
        if k < 0:
            raise IndexError(f"place {k} is before the first")
        start, at = divmod(k, BLOCK)
        return int(self._block(start)[at])

    def many(self, places: Int[np.ndarray, " places"]) -> Int[np.ndarray, " places"]:
        """What stands at each of several places.

        Raises:
            IndexError: If a place is negative.
        """
        if len(places) and places.min() < 0:
            raise IndexError(f"place {places.min()} is before the first")
        passes, within = np.divmod(places.astype(np.uint64), np.uint64(self.n))
        keys = mixed(self._key + passes * _ODD)
        found = self._permuted(within, keys)
        while (outside := np.flatnonzero(found >= self.n)).size:
            found[outside] = self._permuted(found[outside], keys[outside])
        return found.astype(np.int64)

    def _permuted(self, numbers: Any, keys: Any) -> Any:
        mask = (np.uint64(1) << self._half) - np.uint64(1)
        left, right = numbers >> self._half, numbers & mask
        for turn in range(N_ROUNDS):
            bits = mixed(right + keys + np.uint64(turn + 1) * np.uint64(1 << 40))
            left, right = right, left ^ (bits & mask)
        return (left << self._half) | right


def mixed(x: Any) -> Any:
    """64 bits, each of which depends on all of `x` (splitmix64; Steele et al., 2014)."""
    x = x + _ODD
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
