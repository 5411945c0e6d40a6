import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
