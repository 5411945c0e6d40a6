import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo import Vocabulary
from elmo.pretrain.corpus import BEGIN_TYPE, END_TYPE, build_corpus
from elmo.pretrain.windows import windows

lengths_of_sentences = st.lists(st.integers(1, 6), min_size=1, max_size=12)


@given(lengths=lengths_of_sentences, n_rows=st.integers(1, 3), n_steps=st.integers(1, 5))
def test_each_row_is_a_stream_of_whole_sentences_in_both_directions(lengths, n_rows, n_steps):
    # Every token says which sentence and which place in it.
    sentences = [[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)]
    corpus = build_corpus(sentences)
    words, types = corpus.vocabulary.words, corpus.types
    made = list(windows(corpus, range(len(sentences)), n_rows=n_rows, n_steps=n_steps))
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
    first, second = windows(corpus, [0], n_rows=1, n_steps=3)
    read = [corpus.types[t] for t in (*first.inputs[0, :, 0], *second.inputs[0, :, 0])]
    assert read == ["<S>", "a", "b", "c", "d", "e"]
    back = [corpus.types[t] for t in (*first.inputs[1, :, 0], *second.inputs[1, :, 0])]
    assert back == ["</S>", "f", "e", "d", "c", "b"]
    assert not second.begins.any()


def test_rows_take_the_next_sentence_in_the_order_given():
    corpus = build_corpus([["a1", "a2"], ["b1"], ["c1", "c2", "c3"], ["d1"], ["e1"]])
    first, second = windows(corpus, [3, 0, 2, 1, 4], n_rows=2, n_steps=3)
    read = [[corpus.types[t] for t in first.inputs[0, :, row]] for row in range(2)]
    # The first row is filled before the second takes its first sentence.
    assert read == [["<S>", "d1", "<S>"], ["<S>", "c1", "c2"]]
    assert first.begins[0].T.tolist() == [[True, False, True], [True, False, False]]
    read = [[corpus.types[t] for t in second.inputs[0, :, row]] for row in range(2)]
    assert read == [["a1", "a2", "<S>"], ["c3", "<S>", "e1"]]


def test_unknown_words_are_predicted_as_unknown_and_read_as_they_are():
    corpus = build_corpus([["a", "zzz"]], Vocabulary(["<S>", "</S>", "<UNK>", "a"]))
    (window,) = windows(corpus, [0], n_rows=1, n_steps=3)
    assert [corpus.types[t] for t in window.inputs[0, :, 0]] == ["<S>", "a", "zzz"]
    assert window.targets[:, :, 0].tolist() == [[3, 2, 1], [2, 3, 0]]


def test_sentences_that_fill_no_window_make_none():
    corpus = build_corpus([["a"], ["b"]])
    assert list(windows(corpus, [0, 1], n_rows=3, n_steps=2)) == []
    assert len(list(windows(corpus, [0, 1], n_rows=2, n_steps=2))) == 1


@pytest.mark.parametrize("size", [{"n_rows": 0, "n_steps": 2}, {"n_rows": 2, "n_steps": 0}])
def test_windows_that_hold_nothing_are_refused(size):
    with pytest.raises(ValueError, match="holds nothing"):
        next(windows(build_corpus([["a"]]), [0], **size))
