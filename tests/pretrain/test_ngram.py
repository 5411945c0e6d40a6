import importlib
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pretrain.toy import RECIPE

from elmo.checkpoints.folder import Checkpoint, load_folder, save_folder
from elmo.pretrain.corpus import Corpus, Shard, build_corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.ngram import NGram, ngram_perplexity
from elmo.pretrain.perplexity import perplexity
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run_start import new_model
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


@pytest.fixture
def script(monkeypatch):
    """A benchmark, to be run with arguments."""
    monkeypatch.syspath_prepend(BENCHMARKS)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        importlib.import_module(name).main()

    return run


@pytest.fixture
def ngrams(untrained, vocabulary, script, monkeypatch):
    """What KenLM's programs would be asked for, and a file of their answers."""
    kneser_ney = importlib.import_module("kneser_ney")
    asked = []

    def estimate(programs, text, model, *, order, n_words, memory):
        assert n_words == len(vocabulary)
        model.write_text(f"{order} {text.read_text()}")

    def measure(programs, model, text):
        order = int(model.read_text().split()[0])
        asked.append((order, model.read_text().partition(" ")[2], text.read_text()))
        return 10.0 * order + text.suffix.startswith(".b")

    monkeypatch.setattr(kneser_ney, "estimate", estimate)
    monkeypatch.setattr(kneser_ney, "measure", measure)
    for name in kneser_ney.PROGRAMS:
        (untrained / name).write_text("")
    given = (untrained / "model", untrained / "toy.toml", "--kenlm", untrained)
    script("kneser_ney", *given, "--out", untrained / "ngrams.json")
    return asked


def numbers(sentences, vocabulary, step):
    return "".join(" ".join(str(vocabulary.id(t)) for t in s[::step]) + "\n" for s in sentences)


def test_ngram_models_learn_and_are_asked_in_numbers_of_words_from_either_end(
    ngrams, sentences, vocabulary, untrained
):
    train, heldout = sentences[::2], (sentences[:25], sentences[25:])
    assert ngrams == [
        (order, numbers(train, vocabulary, step), numbers(part, vocabulary, step))
        for order in (3, 5)
        for step in (1, -1)
        for part in heldout
    ]
    result = json.loads((untrained / "ngrams.json").read_text())
    row = result["parts"][str(untrained / "one" / "toy.heldout.txt")]
    n_words, unknown = sum(map(len, heldout[0])), sum(s.count("d") for s in heldout[0])
    assert row == {
        "predictions": n_words + 25,
        "unknown": unknown,
        "3-gram": [30, 31],
        "5-gram": [50, 51],
    }
    assert result["n_train_tokens"] == sum(map(len, train))


def test_the_table_of_baselines_has_a_row_for_each_part_and_one_for_all(
    untrained, ngrams, sentences, vocabulary, script, capsys
):
    out = untrained / "out.json"
    given = (untrained / "model", untrained / "toy.toml", "--ngrams", untrained / "ngrams.json")
    script("perplexity_baselines", *given, "--threads", 1, "--out", out)
    result = json.loads(out.read_text())
    wanted = {"recipe", "seed", "hardware", "torch", "commit", "date", "n_train_tokens"}
    assert wanted <= set(result)
    parts = {str(untrained / name / "toy.heldout.txt") for name in ("one", "two")}
    assert set(result["parts"]) == {*parts, "all"}
    # Of both parts as one text.
    together = result["parts"]["all"]
    assert together["5-gram"] == [50, 51]
    checkpoint = load_folder(untrained / "model")
    measured = perplexity(
        LanguageModel(checkpoint.bilm, checkpoint.softmax).eval(), vocabulary, sentences
    )
    assert together["biLM"] == pytest.approx([measured.forward_lm, measured.backward_lm], abs=0.006)
    assert together["predictions"] == measured.n_tokens
    assert together["unknown"] == measured.n_unknown > 0
    printed = capsys.readouterr().out
    row = (
        rf"\| \*\*all\*\* \| {measured.n_tokens} \| {measured.n_unknown / measured.n_tokens:.1%} \|"
    )
    assert re.search(row, printed)
    assert "ahead of the 5-gram model on 3 of 3, not on: none" in printed


def test_ngram_models_of_another_vocabulary_or_text_are_refused(untrained, ngrams, script):
    given = (untrained / "model", untrained / "toy.toml", "--ngrams", untrained / "ngrams.json")
    result = json.loads((untrained / "ngrams.json").read_text())
    for key, message in (("vocabulary_sha256", "of another vocabulary"), ("train", "of 0 files")):
        (untrained / "ngrams.json").write_text(json.dumps({**result, key: ""}))
        with pytest.raises(SystemExit, match=message):
            script("perplexity_baselines", *given)


KENLM = shutil.which("lmplz")


@pytest.mark.skipif(KENLM is None, reason="KenLM's programs are not on the PATH")
def test_a_bigram_model_is_that_of_kenlm(tmp_path, monkeypatch):
    # Longer n-grams differ a little: KenLM's begin with one <s>, ours with as many as are missing.
    # Here is text enough to estimate every discount; for others each has values of its own.
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(400)]
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", *names[:300]])
    sentences = [[names[min(399, int(x))] for x in rng.pareto(0.5, 8)] for _ in range(400)]
    monkeypatch.syspath_prepend(BENCHMARKS)
    kneser_ney = importlib.import_module("kneser_ney")
    (tmp_path / "text").write_text("".join(" ".join(s) + "\n" for s in sentences))
    text = kneser_ney.number_words([tmp_path / "text"], vocabulary, tmp_path / "numbers")
    model, corpus = tmp_path / "model", build_corpus(sentences, vocabulary)
    both = NGram(corpus, order=2), NGram(corpus, order=2, reverse=True)
    ours = ngram_perplexity(*both, corpus)
    for file, expected in zip(text.files, (ours.forward_lm, ours.backward_lm), strict=True):
        programs = Path(KENLM).parent
        kneser_ney.estimate(programs, file, model, order=2, n_words=len(vocabulary), memory="50M")
        assert kneser_ney.measure(programs, model, file) == pytest.approx(expected, abs=0.006)


def test_parts_have_short_names_where_those_differ(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    part_names = importlib.import_module("kneser_ney").part_names
    files = [Path("a/x.heldout.txt.xz"), Path("b/x.txt"), Path("b/y.txt")]
    assert part_names(files) == ["a/x.heldout.txt.xz", "b/x.txt", "y"]
