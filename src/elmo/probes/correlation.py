"""Spearman's correlation, with how far it can be trusted."""

from collections.abc import Sequence
from math import atanh, isfinite, sqrt, tanh
from typing import NamedTuple

import numpy as np

from elmo.encoders.encoder import extra

Z_95 = 1.959964


class Correlation(NamedTuple):
    """How well two orders agree.

    Attributes:
        rho: Spearman's, from -1 to 1; None where one side is the same everywhere, as the cosine of
            a word with itself is in static vectors.
        n: How many things are ordered.
        interval: Where it lies with 95 % confidence, after Bonett and Wright (2000); None for
            fewer than four things, where there is no correlation, and where rho is 1 or -1, of
            which it has no end.
    """

    rho: float | None
    n: int
    interval: tuple[float, float] | None


def finite(text: str) -> float:
    """A rating, as it is written.

    Raises:
        ValueError: If it is no finite number.
    """
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


def correlate(
    first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray
) -> Correlation:
    """Spearman's rank correlation; equal values share the mean of their ranks.

    Raises:
        ValueError: If there are not as many of one as of the other, or one is no finite number.
        ImportError: If scipy is not installed.
    """
    with extra("tasks", "rank correlation"):
        from scipy.stats import rankdata
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values were given for {len(second)}: one each")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("some values are not finite numbers, which have no rank")
    n = len(first)
    ranks = np.stack([rankdata(first), rankdata(second)]) if n else np.zeros((2, 0))
    ranks = ranks - ranks.mean(axis=1, keepdims=True) if n else ranks
    spread = sqrt(np.square(ranks).sum(axis=1).prod())  # exact for equal orders
    if spread == 0:
        return Correlation(None, n, None)
    rho = float((ranks[0] * ranks[1]).sum() / spread)
    rho = max(-1.0, min(1.0, rho))
    if n < 4 or abs(rho) == 1:
        return Correlation(rho, n, None)
    half = Z_95 * sqrt((1 + rho * rho / 2) / (n - 3))
    return Correlation(rho, n, (tanh(atanh(rho) - half), tanh(atanh(rho) + half)))
