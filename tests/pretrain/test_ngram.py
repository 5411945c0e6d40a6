import importlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pretrain.toy import RECIPE

from elmo.checkpoints.folder import Checkpoint, load_folder, save_folder
from elmo.pretrain.corpus import Corpus, Shard, build_corpus, read_sentences
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.ngram import NGram, ngram_perplexity
from elmo.pretrain.perplexity import perplexity
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import new_model
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


def ngrams_of(sentences, vocabulary, order, reverse):
    """Context and word of each prediction, in the order in which a model reads."""
    begin, end = (
        (vocabulary.end, vocabulary.begin) if reverse else (vocabulary.begin, vocabulary.end)
    )
    for sentence in sentences[:: -1 if reverse else 1]:
        ids = [*[vocabulary.id(t) for t in sentence][:: -1 if reverse else 1], end]
        padded = [begin] * (order - 1) + ids
        for i in range(len(ids)):
            *context, word = padded[i : i + order]
            yield tuple(context), word


toy_text = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1)


@pytest.mark.parametrize("reverse", [False, True])
@given(sentences=toy_text, asked=toy_text, order=st.integers(1, 4))
def test_it_agrees_with_a_brute_force_version(sentences, asked, order, reverse):
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
    model = NGram(build_corpus(sentences, vocabulary), order=order, reverse=reverse)
    probability = brute_force(sentences, vocabulary, order, reverse)
    asked = [*asked, ["a", "d", "zzz", "b"]]
    expected = [
        np.log(probability(context, word))
        for context, word in ngrams_of(asked, vocabulary, order, reverse)
    ]
    found = model.log_probabilities(build_corpus(asked, vocabulary))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_it_agrees_where_every_discount_is_estimated(sentences, vocabulary, reverse):
    # Enough text for counts of 1, 2, 3 and 4 at every length.
    model = NGram(build_corpus(sentences, vocabulary), reverse=reverse)
    probability = brute_force(sentences, vocabulary, 3, reverse)
    expected = [
        np.log(probability(context, word))
        for context, word in ngrams_of(sentences, vocabulary, 3, reverse)
    ]
    found = model.log_probabilities(build_corpus(sentences, vocabulary))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("context", [(), ("a",), ("a", "b"), ("b", "never")])
def test_probabilities_of_all_words_sum_to_one(sentences, vocabulary, context, order, reverse):
    model = NGram(build_corpus(sentences, vocabulary), order=order, reverse=reverse)
    total = 0.0
    for word in range(len(vocabulary)):
        # A type that stands for the word, the specials too: no token of a text is </S>.
        types = ["<S>", "</S>", *context, "asked"]
        words = np.array([*map(vocabulary.id, types[:-1]), word])
        tokens = np.arange(2, len(types), dtype=np.int32)
        starts = np.array([0, len(tokens)])
        shard = Shard(tokens[:: -1 if reverse else 1], starts)
        asked = Corpus([shard], types, np.zeros((len(types), 5), np.uint16), vocabulary, words)
        total += np.exp(model.log_probabilities(asked)[len(context)])
    assert total == pytest.approx(1.0, abs=1e-12)


def test_a_small_bigram_model_is_what_one_computes_by_hand():
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
    corpus = build_corpus([["a", "b"], ["a", "b"], ["a", "c"]], vocabulary)
    # Counts of bigrams: <S> a 3, a b 2, b </S> 2, a c 1, c </S> 1. Two occur once, two twice, one
    # three times: Y = 2 / (2 + 2 * 2) = 1/3, D1 = 1 - 2 Y 2/2 = 1/3, D2 = 2 - 3 Y 1/2 = 3/2, and D3
    # cannot be estimated: 1/2.
    # Words by what stands before them: a 1, b 1, c 1, </S> 2. Y = 3 / (3 + 2 * 1) = 3/5,
    # D1 = 1 - 2 Y 1/3 = 3/5, D2 cannot be estimated: 1/2.
    left = (3 * 3 / 5 + 1 / 2) / 5 / 6  # for each of six words
    a, end = (1 - 3 / 5) / 5 + left, (2 - 1 / 2) / 5 + left
    b = c = a
    expected = [
        (3 - 1 / 2) / 3 + (1 / 2) / 3 * a,
        (2 - 3 / 2) / 3 + (3 / 2 + 1 / 3) / 3 * b,
        (2 - 3 / 2) / 2 + (3 / 2) / 2 * end,
        (3 - 1 / 2) / 3 + (1 / 2) / 3 * a,
        (1 - 1 / 3) / 3 + (3 / 2 + 1 / 3) / 3 * c,
        (1 - 1 / 3) / 1 + (1 / 3) / 1 * end,
    ]
    asked = build_corpus([["a", "b"], ["a", "c"]], vocabulary)
    found = NGram(corpus, order=2).log_probabilities(asked)
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)


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


def test_a_unigram_model_is_the_same_in_both_directions(sentences, vocabulary):
    corpus = build_corpus(sentences, vocabulary)
    both = NGram(corpus, order=1), NGram(corpus, order=1, reverse=True)
    measured = ngram_perplexity(*both, corpus)
    assert measured.forward_lm == pytest.approx(measured.backward_lm, rel=1e-12)


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def untrained(tmp_path, sentences, vocabulary):
    """A recipe with text for two held-out parts of one name, and an untrained model of it."""
    for folder, part in (("one", sentences[:25]), ("two", sentences[25:])):
        (tmp_path / folder).mkdir()
        text = "".join(" ".join(sentence) + "\n" for sentence in part)
        (tmp_path / folder / "toy.heldout.txt").write_text(text)
    (tmp_path / "train.txt").write_text("".join(" ".join(s) + "\n" for s in sentences[::2]))
    recipe = tmp_path / "toy.toml"
    recipe.write_text(RECIPE.format(folder=tmp_path).replace("/heldout.txt", "/*/toy.heldout.txt"))
    model = new_model(read_recipe(recipe), len(vocabulary))
    save_folder(Checkpoint(model.bilm, vocabulary, model.softmax), tmp_path / "model")
    return tmp_path


def test_the_table_of_baselines_has_a_row_for_each_part_and_one_for_all(
    untrained, sentences, vocabulary, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(BENCHMARKS)
    recipe, out = untrained / "toy.toml", untrained / "out.json"
    arguments = [str(untrained / "model"), str(recipe), "--threads", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["perplexity_baselines.py", *arguments])
    importlib.import_module("perplexity_baselines").main()
    result = json.loads(out.read_text())
    wanted = {"recipe", "seed", "hardware", "torch", "commit", "date", "n_train_tokens"}
    assert wanted <= set(result)
    parts = {str(untrained / name / "toy.heldout.txt") for name in ("one", "two")}
    assert set(result["parts"]) == {*parts, "all"}
    # Of both parts as one text, every model as if it had read them so.
    together = result["parts"]["all"]
    train = build_corpus(read_sentences([untrained / "train.txt"]), vocabulary)
    heldout = build_corpus(sentences, vocabulary)
    for name, order in (("unigram", 1), ("trigram", 3)):
        both = NGram(train, order=order), NGram(train, order=order, reverse=True)
        measured = ngram_perplexity(*both, heldout)
        expected = [measured.forward_lm, measured.backward_lm]
        assert together[name] == pytest.approx(expected, abs=0.006)
    checkpoint = load_folder(untrained / "model")
    measured = perplexity(
        LanguageModel(checkpoint.bilm, checkpoint.softmax).eval(), vocabulary, sentences
    )
    assert together["biLM"] == pytest.approx([measured.forward_lm, measured.backward_lm], abs=0.006)
    assert together["predictions"] == measured.n_tokens
    assert together["unknown"] == measured.n_unknown > 0
    printed = capsys.readouterr().out
    n_words = sum(map(len, sentences))
    row = rf"\| all \| {measured.n_tokens} \| {measured.n_unknown / n_words:.1%} \|"
    assert re.search(row, printed)


def test_parts_have_short_names_where_those_differ(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    part_names = importlib.import_module("perplexity_baselines").part_names
    files = [Path("a/x.heldout.txt.xz"), Path("b/x.txt"), Path("b/y.txt")]
    assert part_names(files) == ["a/x.heldout.txt.xz", "b/x.txt", "y"]
