"""Batches of examples of similar lengths."""

from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.batches import share_of, shuffled_batches, sorted_batches

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=80)
SIZES = st.tuples(st.integers(1, 9), st.integers(1, 200))


@given(LENGTHS, st.integers(1, 4), SIZES, st.integers(0, 5))
def test_an_epoch_reads_each_example_once_within_the_bounds(lengths, most, sizes, epoch):
    batch_size, batch_tokens = sizes
    rows = [1 + length % most for length in lengths]
    batches = shuffled_batches(
        lengths, rows, batch_size=batch_size, batch_tokens=batch_tokens, seed=3, epoch=epoch
    )
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= batch_size
        n_tokens = sum(rows[i] for i in batch) * max(lengths[i] for i in batch)
        assert len(batch) == 1 or n_tokens <= batch_tokens


def test_epochs_differ_and_seeds_differ_and_both_repeat():
    def order(seed, epoch):
        return shuffled_batches(
            [5] * 64, [1] * 64, batch_size=4, batch_tokens=100, seed=seed, epoch=epoch
        )

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_sorted_batches_put_like_lengths_together():
    lengths = [9, 1, 8, 2]
    assert sorted_batches(lengths, [1] * 4, batch_size=2, batch_tokens=100) == [[1, 3], [2, 0]]


@given(st.integers(1, 20), st.integers(1, 5))
def test_processes_read_all_batches_and_equally_many(n_batches, n):
    batches = [[i] for i in range(n_batches)]
    shares = [share_of(batches, rank, n) for rank in range(n)]
    assert len({len(share) for share in shares}) == 1
    assert {batch[0] for share in shares for batch in share} == set(range(n_batches))
