from collections import Counter

import numpy as np
import pytest

from elmo.pretrain.corpus import build_corpus
from elmo.pretrain.ngram import NGram, ngram_perplexity
from elmo.text import Vocabulary

WORDS = ["a", "b", "c", "d"]


@pytest.fixture
def sentences():
    rng = np.random.default_rng(0)
    # Zipf-like, so that counts of 1, 2, 3 and more all occur.
    return [
        [WORDS[min(3, int(x))] for x in rng.exponential(1.2, rng.integers(1, 6))] for _ in range(40)
    ]


@pytest.fixture
def vocabulary():
    return Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])  # "d" is unknown


def brute_force(sentences, vocabulary, order, reverse):
    """The textbook's recursion over dictionaries: a function (context, word) → probability."""
    begin, end = (
        (vocabulary.end, vocabulary.begin) if reverse else (vocabulary.begin, vocabulary.end)
    )
    counts = [Counter() for _ in range(order + 1)]
    for sentence in sentences:
        ids = [*[vocabulary.id(token) for token in sentence][:: -1 if reverse else 1], end]
        padded = [begin] * (order - 1) + ids
        for i in range(len(ids)):
            counts[order][tuple(padded[i : i + order])] += 1
    for n in range(order - 1, 0, -1):
        for ngram, count in counts[n + 1].items():
            plain = n > 1 and ngram[1] == begin
            counts[n][ngram[1:]] += count if plain else 1

    def discount(n, count):
        if count == 0:
            return 0.0
        k = min(count, 3)
        have = Counter(counts[n].values())
        if not (have[1] and have[k] and have[k + 1]):
            return 0.5
        y = have[1] / (have[1] + 2 * have[2])
        return min(max(k - (k + 1) * y * have[k + 1] / have[k], 0.05), k - 0.05)

    def probability(context, word):
        if context is None:
            return 1 / len(vocabulary)
        n = len(context) + 1
        shorter = probability(context[1:] if context else None, word)
        seen = {g: c for g, c in counts[n].items() if g[:-1] == context}
        if not seen:
            return shorter
        total = sum(seen.values())
        left = sum(discount(n, c) for c in seen.values()) / total
        own = seen.get((*context, word), 0)
        return (own - discount(n, own)) / total + left * shorter

    return probability


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_it_agrees_with_a_brute_force_version(sentences, vocabulary, order, reverse):
    model = NGram(build_corpus(sentences, vocabulary), order=order, reverse=reverse)
    probability = brute_force(sentences, vocabulary, order, reverse)
    begin, end = model.begin, model.end
    asked = [["a", "d", "zzz", "b"], ["c"]]
    expected = []
    for sentence in asked[:: -1 if reverse else 1]:
        ids = [*[vocabulary.id(t) for t in sentence][:: -1 if reverse else 1], end]
        padded = [begin] * (order - 1) + ids
        for i in range(len(ids)):
            *context, word = padded[i : i + order]
            expected.append(np.log(probability(tuple(context), word)))
    found = model.log_probabilities(build_corpus(asked, vocabulary))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("context", [(), ("a",), ("a", "b"), ("b", "never")])
def test_probabilities_of_all_words_sum_to_one(sentences, vocabulary, context):
    model = NGram(build_corpus(sentences, vocabulary), order=3)
    total = 0.0
    for word in vocabulary.words:
        corpus = build_corpus([[*context, "a"]], vocabulary)
        tokens = corpus.tokens.copy()
        words = np.append(corpus.words, vocabulary.id(word))  # any word, the specials too
        tokens[-1] = len(words) - 1
        asked = type(corpus)(tokens, corpus.starts, [*corpus.types, word], vocabulary, words)
        total += np.exp(model.log_probabilities(asked)[len(context)])
    assert total == pytest.approx(1.0, abs=1e-12)


def test_a_unigram_without_discounts_gives_relative_frequencies():
    # Every word has another count, so no discount can be estimated: 0.5 each, by hand.
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"])
    corpus = build_corpus([["a", "a", "b"]], vocabulary)
    model = NGram(corpus, order=1)
    left = 3 * 0.5 / 4  # of a, b and </S>, 4 predictions
    expected = np.log(
        [1.5 / 4 + left / 5, 1.5 / 4 + left / 5, 0.5 / 4 + left / 5, 0.5 / 4 + left / 5]
    )
    np.testing.assert_allclose(model.log_probabilities(corpus), expected)


def test_perplexity_counts_what_the_bilm_counts(sentences, vocabulary):
    corpus = build_corpus(sentences, vocabulary)
    both = NGram(corpus), NGram(corpus, reverse=True)
    measured = ngram_perplexity(*both, build_corpus([["a", "d"], ["b"]], vocabulary))
    assert (measured.n_tokens, measured.n_sentences, measured.n_unknown) == (5, 2, 1)
    assert 1 < measured.forward_lm < len(vocabulary)


def test_a_trigram_knows_its_own_text_better_than_a_unigram(sentences, vocabulary):
    corpus = build_corpus(sentences, vocabulary)
    for reverse in (False, True):
        longer, shorter = (NGram(corpus, order=n, reverse=reverse) for n in (3, 1))
        assert longer.log_probabilities(corpus).mean() > shorter.log_probabilities(corpus).mean()


def test_an_order_that_does_not_fit_is_refused(vocabulary, sentences):
    with pytest.raises(ValueError, match="63 bits"):
        NGram(build_corpus(sentences, vocabulary), order=30)
