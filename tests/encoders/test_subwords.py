import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.encoders.subwords import choose_windows

RUNS = st.lists(st.integers(1, 9), min_size=1, max_size=40)


def brute_force(start, end, starts, room, n):
    """Most context on the poorer side that any window gives these pieces; None if none has them."""
    contexts = []
    for s in starts:
        if s <= start and end <= s + room:
            left = n if s == 0 else start - s
            right = n if s + room == n else s + room - end
            contexts.append(min(left, right))
    return max(contexts, default=None)


@given(runs=RUNS, room=st.integers(1, 20))
def test_every_piece_speaks_once_from_the_window_with_most_context(runs, room):
    words = [word for word, n in enumerate(runs) for _ in range(n)]
    n = len(words)
    windows = choose_windows(words, room)
    chosen = sorted(piece for _, _, pieces in windows for piece in pieces)
    assert chosen == list(range(n))
    assert all(start <= p < end for start, end, pieces in windows for p in pieces)
    assert all(end - start == min(room, n) for start, end, _ in windows)
    if n <= room:
        assert len(windows) == 1
        return
    stride = max(1, room // 2)
    starts = [*range(0, n - room, stride), n - room]
    of_piece = {p: s for s, _, pieces in windows for p in pieces}
    first = 0
    for length in runs:
        end = first + length
        most = brute_force(first, end, starts, room, n)
        spans = [(first, end)] if most is not None else [(i, i + 1) for i in range(first, end)]
        for a, b in spans:
            assert len({of_piece[i] for i in range(a, b)}) == 1
            s = of_piece[a]
            got = min(n if s == 0 else a - s, n if s + room == n else s + room - b)
            assert got == brute_force(a, b, starts, room, n)
        first = end


def test_no_pieces_need_no_window():
    assert choose_windows([], 5) == []


@pytest.mark.parametrize("room", [6, 7])
def test_windows_overlap_by_half(room):
    starts = [start for start, _, _ in choose_windows(list(range(30)), room)]
    assert starts[:3] == [0, 3, 6] and starts[-1] == 30 - room
