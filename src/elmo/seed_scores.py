"""Scores of several seeds: their mean, and how far they lie apart."""

from collections.abc import Sequence
from statistics import fmean, stdev


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the sample's standard deviation, which a single score has not."""
    return fmean(scores), stdev(scores) if len(scores) > 1 else None


def mean_told(scores: Sequence[float]) -> str:
    """`71.00 ± 0.50`, or the single score."""
    mean, deviation = mean_and_deviation(scores)
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"
