from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo import Vocabulary
from elmo.pretrain.corpus import BEGIN_TYPE, END_TYPE, build_corpus
from elmo.pretrain.shuffle import Shuffled
from elmo.pretrain.windows import Windows

lengths_of_sentences = st.lists(st.integers(1, 6), min_size=1, max_size=12)


@given(lengths=lengths_of_sentences, n_rows=st.integers(1, 3), n_steps=st.integers(1, 5))
def test_each_row_is_a_stream_of_whole_sentences_in_both_directions(lengths, n_rows, n_steps):
    # Every token says which sentence and which place in it.
    sentences = [[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)]
    corpus = build_corpus(sentences)
    words, types = corpus.vocabulary.words, corpus.types
    made = list(Windows(corpus, range(len(sentences)), n_rows=n_rows, n_steps=n_steps))
    n_begun = 0
    for row in range(n_rows if made else 0):
        for direction in range(2):
            inputs, targets, begins = (
                np.concatenate([getattr(w, name)[direction, :, row] for w in made])
                for name in ("inputs", "targets", "begins")
            )
            first, last = ((BEGIN_TYPE, END_TYPE), (END_TYPE, BEGIN_TYPE))[direction]
            np.testing.assert_array_equal(begins, inputs == first)
            assert begins[0] and last not in inputs
            starts = np.flatnonzero(begins).tolist()
            n_begun += len(starts) if direction == 0 else 0
            for start, end in zip(starts, [*starts[1:], len(inputs)], strict=True):
                predicted = [words[t] for t in targets[start:end]]
                number = int(predicted[0].partition(".")[0])
                stream = [types[BEGIN_TYPE], *sentences[number], types[END_TYPE]]
                stream = stream if direction == 0 else stream[::-1]
                assert [types[t] for t in inputs[start:end]] == stream[: end - start]
                assert predicted == stream[1 : end - start + 1]
                # Only the end of all windows cuts a sentence.
                assert end == len(inputs) or end - start == len(stream) - 1
    # Only the window that could not be filled is left out, with the sentences that stood in it.
    n_read = len(made) * n_rows * n_steps
    n_all = sum(lengths) + len(lengths)
    assert n_read <= n_all < n_read + n_rows * (n_steps + 7)
    assert n_begun <= len(sentences)


def test_a_sentence_longer_than_a_window_goes_on_in_the_next():
    corpus = build_corpus([list("abcdef")])
    first, second = Windows(corpus, [0], n_rows=1, n_steps=3)
    read = [corpus.types[t] for t in (*first.inputs[0, :, 0], *second.inputs[0, :, 0])]
    assert read == ["<S>", "a", "b", "c", "d", "e"]
    back = [corpus.types[t] for t in (*first.inputs[1, :, 0], *second.inputs[1, :, 0])]
    assert back == ["</S>", "f", "e", "d", "c", "b"]
    assert not second.begins.any()


def test_rows_take_the_next_sentence_in_the_order_given():
    corpus = build_corpus([["a1", "a2"], ["b1"], ["c1", "c2", "c3"], ["d1"], ["e1"]])
    first, second = Windows(corpus, [3, 0, 2, 1, 4], n_rows=2, n_steps=3)
    read = [[corpus.types[t] for t in first.inputs[0, :, row]] for row in range(2)]
    # The first row is filled before the second takes its first sentence.
    assert read == [["<S>", "d1", "<S>"], ["<S>", "c1", "c2"]]
    assert first.begins[0].T.tolist() == [[True, False, True], [True, False, False]]
    read = [[corpus.types[t] for t in second.inputs[0, :, row]] for row in range(2)]
    assert read == [["a1", "a2", "<S>"], ["c3", "<S>", "e1"]]


def test_unknown_words_are_predicted_as_unknown_and_read_as_they_are():
    corpus = build_corpus([["a", "zzz"]], Vocabulary(["<S>", "</S>", "<UNK>", "a"]))
    (window,) = Windows(corpus, [0], n_rows=1, n_steps=3)
    assert [corpus.types[t] for t in window.inputs[0, :, 0]] == ["<S>", "a", "zzz"]
    assert window.targets[:, :, 0].tolist() == [[3, 2, 1], [2, 3, 0]]


def test_sentences_that_fill_no_window_make_none():
    corpus = build_corpus([["a"], ["b"]])
    assert list(Windows(corpus, [0, 1], n_rows=3, n_steps=2)) == []
    assert len(list(Windows(corpus, [0, 1], n_rows=2, n_steps=2))) == 1


@pytest.mark.parametrize("size", [{"n_rows": 0, "n_steps": 2}, {"n_rows": 2, "n_steps": 0}])
def test_windows_that_hold_nothing_are_refused(size):
    with pytest.raises(ValueError, match="holds nothing"):
        next(Windows(build_corpus([["a"]]), [0], **size))


def packed(corpus, order, n_rows, n_steps):
    """One row after the other takes sentences until it is full, as bilm-tf's batches do."""
    sentences = iter(order)
    left = [([], [])] * n_rows
    while True:
        window = np.empty((2, 2, n_steps, n_rows), dtype=int)  # inputs and targets
        for row in range(n_rows):
            step = 0
            while step < n_steps:
                inputs, targets = left[row]
                if not inputs:
                    i = next(sentences, None)
                    if i is None:
                        return
                    types = corpus.sentence(i).tolist()
                    back = types[::-1]
                    inputs = list(zip(types[:-1], back[:-1], strict=True))
                    targets = list(zip(types[1:], back[1:], strict=True))
                window[:, :, step, row] = inputs[0], targets[0]
                left[row] = inputs[1:], targets[1:]
                step += 1
        yield window[0], corpus.words[window[1]]


def same(some, others):
    some, others = list(some), list(others)
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        for part, of_other in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, of_other)


sizes = {"n_rows": st.integers(1, 4), "n_steps": st.integers(1, 5)}


@given(lengths=lengths_of_sentences, seed=st.integers(0, 99), **sizes)
def test_they_are_packed_as_a_plain_loop_packs_them(lengths, seed, n_rows, n_steps):
    corpus = build_corpus([[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)])
    order = Shuffled(len(lengths), seed).many(np.arange(2 * len(lengths) + 1)).tolist()
    made = Windows(corpus, order, n_rows=n_rows, n_steps=n_steps)
    same(((w.inputs, w.targets) for w in made), packed(corpus, order, n_rows, n_steps))


@given(lengths=lengths_of_sentences, done=st.integers(0, 12), data=st.data(), **sizes)
def test_they_go_on_from_any_position(lengths, done, data, n_rows, n_steps):
    corpus = build_corpus([[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)])
    order = data.draw(st.sampled_from([range(len(lengths)), Shuffled(len(lengths), 1)]))
    size = {"n_rows": n_rows, "n_steps": n_steps}
    whole = Windows(corpus, order, **size)
    list(islice(whole, done))
    position = whole.position
    again = Windows(corpus, order, **size, position=position)
    same(islice(again, 9), islice(whole, 9))
    same([again.position], [whole.position])
    # A position is a value: reading on does not move it.
    same(
        islice(Windows(corpus, order, **size, position=position), 1),
        islice(islice(Windows(corpus, order, **size), done, None), 1),
    )


@given(lengths=lengths_of_sentences, n_processes=st.integers(1, 3), done=st.integers(0, 3), **sizes)
def test_the_rows_of_all_processes_are_those_of_one(lengths, n_processes, done, n_rows, n_steps):
    corpus = build_corpus([[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)])
    order = Shuffled(len(lengths), 3)
    size = {"n_rows": n_rows * n_processes, "n_steps": n_steps}
    one = Windows(corpus, order, **size)
    list(islice(one, done))
    shares = [
        Windows(corpus, order, **size, rows=slice(a, a + n_rows), position=one.position)
        for a in range(0, n_rows * n_processes, n_rows)
    ]
    for wanted, *parts in islice(zip(one, *shares, strict=True), 5):
        for k in range(3):
            together = np.concatenate([part[k] for part in parts], axis=2)
            np.testing.assert_array_equal(together, wanted[k])
        assert all(p.n_predicted == wanted.n_predicted == wanted.targets[0].size for p in parts)
    for share in shares:
        same([share.position], [one.position])


def test_a_position_of_other_rows_is_refused():
    corpus = build_corpus([["a"]] * 9)
    three = Windows(corpus, range(9), n_rows=3, n_steps=2)
    with pytest.raises(ValueError, match="the position is one of 3 rows, but windows of 2 rows"):
        Windows(corpus, range(9), n_rows=2, n_steps=2, position=three.position)
