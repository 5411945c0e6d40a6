"""Means of several seeds."""

import pytest

from elmo.seed_scores import mean_and_deviation, mean_told


def test_scores_are_told_by_mean_and_the_samples_deviation():
    # (1² + 1²) / (3 − 1) = 1
    assert mean_and_deviation([70.0, 72.0, 71.0]) == pytest.approx((71.0, 1.0))
    assert mean_told([70.0, 72.0, 71.0]) == "71.00 ± 1.00"


def test_a_single_score_has_no_deviation():
    assert mean_and_deviation([70.0]) == (70.0, None)
    assert mean_told([70.0]) == "70.00"
