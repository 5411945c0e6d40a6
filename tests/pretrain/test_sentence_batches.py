from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models import TINY, random_bilm

from elmo.model.softmax import Softmax
from elmo.pretrain import sentence_batches
from elmo.pretrain.corpus import build_corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import perplexity
from elmo.pretrain.sentence_batches import SentenceBatches
from elmo.pretrain.shuffle import Shuffled
from elmo.pretrain.windows import NO_TARGET, Windows

lengths_of_sentences = st.lists(st.integers(1, 9), min_size=1, max_size=12)
sizes = {"n_rows": st.integers(1, 4), "n_steps": st.integers(1, 4)}


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr(sentence_batches, "POOL_BATCHES", 2)


def numbered(lengths):
    """Every token says which sentence and which place in it."""
    return [[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)]


def rows_of(corpus, window):
    """What is read and predicted in each row and direction, without padding."""
    for row in range(window.inputs.shape[2]):
        n = int((window.targets[0, :, row] != NO_TARGET).sum())
        assert (window.targets[:, :n, row] != NO_TARGET).all()
        assert (window.targets[:, n:, row] == NO_TARGET).all()
        yield [
            (
                [corpus.types[t] for t in window.inputs[d, :n, row]],
                [corpus.vocabulary.words[t] for t in window.targets[d, :n, row]],
            )
            for d in range(2)
        ]


@given(lengths=lengths_of_sentences, **sizes)
def test_every_sentence_is_read_once_and_whole(lengths, n_rows, n_steps):
    sentences = numbered(lengths)
    corpus = build_corpus(sentences)
    seen = []
    for window in SentenceBatches(corpus, range(len(lengths)), n_rows=n_rows, n_steps=n_steps):
        _, width, n_together = window.inputs.shape
        assert width * n_together <= n_rows * n_steps
        assert window.n_predicted == (window.targets[0] != NO_TARGET).sum()
        assert window.begins[:, 0].all() and not window.begins[:, 1:].any()
        seen.extend(rows_of(corpus, window))
    whole = [["<S>", *sentence, "</S>"] for sentence in sentences]
    if max(lengths) < n_rows * n_steps:
        expected = [[(s[:-1], s[1:]), (s[:0:-1], s[-2::-1])] for s in whole]
        assert sorted(seen) == sorted(expected)
    for direction in range(2):  # cut or not, nothing is lost
        predicted = sorted(word for rows in seen for word in rows[direction][1])
        given_up = "</S>" if direction else "<S>"
        assert predicted == sorted(w for s in whole for w in s if w != given_up)


@given(lengths=lengths_of_sentences, done=st.integers(0, 9), **sizes)
def test_they_go_on_from_any_position(lengths, done, n_rows, n_steps):
    corpus, order = build_corpus(numbered(lengths)), Shuffled(len(lengths), 1)
    size = {"n_rows": n_rows, "n_steps": n_steps, "seed": 5}
    whole = SentenceBatches(corpus, order, **size)
    list(islice(whole, done))
    again = SentenceBatches(corpus, order, **size, position=whole.position)
    for one, other in islice(zip(whole, again, strict=True), 6):
        for part, of_other in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, of_other)


@given(lengths=lengths_of_sentences, n_processes=st.integers(1, 3), **sizes)
def test_processes_share_each_batch_and_none_is_without_a_window(
    lengths, n_processes, n_rows, n_steps
):
    corpus, order = build_corpus(numbered(lengths)), range(len(lengths))
    size = {"n_rows": n_rows, "n_steps": n_steps}
    one = SentenceBatches(corpus, order, **size)
    shares = [
        SentenceBatches(corpus, order, **size, rows=slice(r, None, n_processes))
        for r in range(n_processes)
    ]
    for wanted, *parts in zip(one, *shares, strict=True):
        together = [row for part in parts for row in rows_of(corpus, part) if row[0][0]]
        assert sorted(together) == sorted(rows_of(corpus, wanted))
        assert all(part.n_predicted == wanted.n_predicted for part in parts)
        sizes_of_parts = [(part.targets[0] != NO_TARGET).sum() for part in parts]
        # Lengths are sorted: what one has more than another is less than a row and the slope.
        assert max(sizes_of_parts) - min(sizes_of_parts) <= 2 * wanted.inputs.shape[1]


def test_batches_come_in_another_order_with_another_seed():
    corpus = build_corpus(numbered(range(1, 40)))
    firsts = []
    for seed in (0, 0, 1):
        made = SentenceBatches(corpus, range(39), n_rows=20, n_steps=2, seed=seed)
        firsts.append([window.inputs.shape for window in made])
    assert firsts[0] == firsts[1] != firsts[2]
    assert sorted(firsts[0]) == sorted(firsts[2])


def test_they_lose_what_reading_sentence_by_sentence_loses():
    sentences = [["a", "bb", "ccc"], ["bb"], ["ccc", "a", "a", "bb"], ["dddd", "a"]]
    corpus = build_corpus(sentences)
    softmax = Softmax(len(corpus.vocabulary), 6)
    softmax.reset_parameters()
    model = LanguageModel(random_bilm(TINY), softmax).eval()
    sums, n = np.zeros(2), 0
    for window in SentenceBatches(corpus, range(4), n_rows=3, n_steps=3):
        losses = model(window, corpus.char_ids, model.zero_state(window.inputs.shape[2]))
        both = torch.stack([losses.forward_lm, losses.backward_lm]).detach().numpy()
        sums, n = sums + both * window.n_predicted, n + window.n_predicted
    measured = perplexity(model, corpus.vocabulary, sentences)
    expected = [measured.forward_lm, measured.backward_lm]
    np.testing.assert_allclose(np.exp(sums / n), expected, rtol=1e-5)


def test_batches_of_nothing_and_positions_of_windows_are_refused():
    corpus = build_corpus([["a"]] * 5)
    with pytest.raises(ValueError, match="a batch of 0 rows and 2 steps holds nothing"):
        SentenceBatches(corpus, range(5), n_rows=0, n_steps=2)
    windows = Windows(corpus, range(5), n_rows=1, n_steps=2)
    next(windows)
    with pytest.raises(ValueError, match="the position is one of windows of 1 rows"):
        SentenceBatches(corpus, range(5), n_rows=1, n_steps=2, position=windows.position)
    batches = SentenceBatches(corpus, range(5), n_rows=2, n_steps=2)
    with pytest.raises(ValueError, match="the position is one of 1 rows, but windows of 2"):
        Windows(corpus, range(5), n_rows=2, n_steps=2, position=batches.position)
