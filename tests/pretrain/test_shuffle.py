import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.pretrain.shuffle import Shuffled

seeds = st.integers(0, 2**70)


@given(n=st.integers(1, 400), seed=seeds, epoch=st.integers(0, 5))
def test_each_pass_has_every_number_once(n, seed, epoch):
    places = np.arange(epoch * n, (epoch + 1) * n)
    assert sorted(Shuffled(n, seed).many(places)) == list(range(n))


@given(n=st.integers(1, 10**12), seed=seeds, k=st.integers(0, 10**15))
def test_a_place_is_the_same_alone_and_among_others(n, seed, k):
    order = Shuffled(n, seed)
    assert order[k] == order.many(np.array([3, k, 0]))[1] == Shuffled(n, seed)[k] < n


@given(n=st.integers(20, 400), seed=st.integers(0, 2**40))
def test_passes_and_seeds_differ(n, seed):
    order, other = Shuffled(n, seed), Shuffled(n, seed + 1)
    first, second = order.many(np.arange(n)), order.many(np.arange(n, 2 * n))
    assert (first != second).any() and (first != other.many(np.arange(n))).any()
    assert (first != np.arange(n)).any()


@pytest.mark.parametrize("n", [3, 4, 5])
def test_every_order_of_few_numbers_is_about_as_frequent(n):
    drawn = Shuffled(n, 7).many(np.arange(n * 24_000)).reshape(-1, n)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    n_orders = np.prod(np.arange(1, n + 1))
    expected = 24_000 / n_orders
    # Of true chance 1 on the average; with 4 rounds of the network it is 13 to 76.
    assert ((counts - expected) ** 2 / expected).sum() / (n_orders - 1) < 4


def test_neighbours_are_unrelated():
    # The mean distance of two random numbers below n is n / 3.
    order = Shuffled(100_000, 0).many(np.arange(100_000))
    assert np.abs(np.diff(order)).mean() == pytest.approx(100_000 / 3, rel=0.01)
    assert np.corrcoef(order, np.arange(100_000))[0, 1] == pytest.approx(0, abs=0.01)


def test_an_order_of_nothing_and_places_before_the_first_are_refused():
    with pytest.raises(ValueError, match="n is 0, but an order is of at least 1 number"):
        Shuffled(0, 1)
    with pytest.raises(ValueError, match="seed is -1, but must be at least 0"):
        Shuffled(3, -1)
    with pytest.raises(IndexError, match="place -1 is before the first"):
        Shuffled(3, 1)[-1]
