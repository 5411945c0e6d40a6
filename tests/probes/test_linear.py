import re

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tests.probes.toy import ToyEncoder

from elmo.probes.layers import Layers
from elmo.probes.linear import (
    Accuracy,
    Parts,
    bootstrap_interval,
    control_labels,
    fit,
    most_frequent_labels,
    part_vectors,
    probe,
    wilson_interval,
)
from elmo.tagged import TaggedSentence


def sentence(text):
    """Tokens and labels of `the/DET cat/NOUN`."""
    tokens, tags = zip(*(word.split("/") for word in text.split()), strict=True)
    return TaggedSentence(tokens, tags)


def parts_of(train, dev, test):
    return Parts(*([sentence(text) for text in part] for part in (train, dev, test)))


# ---- by hand ------------------------------------------------------------------------------------

WORDS = list("abcdefgh")


def drawn(generator, n):
    """Sentences of words, whose labels are drawn for each use: seven of ten are X."""
    forms = generator.choice(WORDS, 5 * n)
    labels = generator.choice(["X", "Y"], 5 * n, p=[0.7, 0.3])
    words = [f"{word}/{label}" for word, label in zip(forms, labels, strict=True)]
    return [" ".join(words[5 * i : 5 * i + 5]) for i in range(n)]


@pytest.fixture
def told_and_remembered():
    """Layer 0 says which word it is and no more, layer 1 says the label and no more."""
    generator = np.random.default_rng(0)
    parts = parts_of(drawn(generator, 60), drawn(generator, 20), drawn(generator, 30))
    labels = {s.tokens: s.tags for part in parts.named.values() for s in part}
    known = np.eye(len(WORDS) + 2)

    def of(tokens, i):
        return [known[WORDS.index(tokens[i])], known[-1 - "XY".index(labels[tuple(tokens)][i])]]

    return ToyEncoder(of, 2, len(known)), parts


def test_a_layer_that_remembers_words_and_one_that_says_the_label(told_and_remembered):
    encoder, parts = told_and_remembered
    layers = Layers.read("all", 2)
    with part_vectors(encoder, parts, layers) as vectors:
        word, label, mean = probe(
            vectors, parts, layers, penalties=[1e-2, 1e-4], seed=1, device="cpu"
        )
    assert [word.layer, label.layer, mean.layer] == ["layer 0", "layer 1", "mean of layers"]
    # The control task is learned wholly by one who remembers words; the label is then a guess.
    assert word.control == 1 and word.test.value < 0.85 and word.selectivity < -0.15
    assert label.test.value == 1 and label.control < 0.95 and label.dev == 1
    assert label.selectivity == 1 - label.control
    assert mean.test.value == 1 and mean.control == 1 and mean.selectivity == 0
    assert label.test.wilson[1] == 1 and label.test.bootstrap == (1, 1)


def test_the_most_frequent_label_by_hand():
    parts = parts_of(
        ["a/X b/Y a/Y", "a/X c/Y c/Y"],  # a: X, b and c: Y; Y is the commonest
        ["a/X"],
        ["a/X b/X c/Y new/Y a/Y new/X"],
    )
    assert most_frequent_labels(parts).value == 3 / 6


def test_labels_that_the_training_part_lacks_are_counted_and_wrong():
    parts = parts_of(["a/X b/Y"], ["a/Z"], ["b/Y a/Z a/Z"])
    assert parts.unknown() == {"dev": {"Z": 1}, "test": {"Z": 2}}
    encoder = ToyEncoder(lambda tokens, i: ["ab".index(tokens[i])], 1, 1)
    layers = Layers((0,), 1)
    with part_vectors(encoder, parts, layers) as vectors:
        (found,) = probe(vectors, parts, layers, device="cpu")
    assert found.dev == 0 and found.test.value == pytest.approx(1 / 3)


# ---- the parts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.1, 0.001])
def test_the_regression_is_scikit_learns(penalty):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 4)).astype(np.float32)
    labels = (x[:, :3] + generator.normal(size=(50, 3))).argmax(axis=1)
    ((given, linear),) = fit(torch.from_numpy(x), labels, 3, [penalty])
    expected = LogisticRegression(C=1 / (penalty * 50), tol=1e-8, max_iter=5000).fit(x, labels)
    assert given == penalty
    weights = linear.weight.detach().numpy()
    np.testing.assert_allclose(weights, expected.coef_, atol=1e-3 * np.abs(weights).max())


def test_penalties_are_tried_from_the_greatest_on_and_each_ends_where_it_would_alone():
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.normal(size=(30, 3)).astype(np.float32))
    labels = generator.integers(2, size=30)
    found = {p: linear.weight.detach().clone() for p, linear in fit(x, labels, 2, [0.01, 1.0])}
    assert list(found) == [1.0, 0.01]
    ((_, alone),) = fit(x, labels, 2, [0.01])
    torch.testing.assert_close(found[0.01], alone.weight.detach(), atol=1e-4, rtol=1e-3)
    assert found[1.0].norm() < found[0.01].norm()


def test_the_penalty_is_the_one_that_is_best_on_dev(told_and_remembered):
    encoder, parts = told_and_remembered
    layers = Layers((1,), 2)
    with part_vectors(encoder, parts, layers) as vectors:
        # So strong a penalty leaves nothing but how frequent labels are.
        (found,) = probe(vectors, parts, layers, penalties=[1e6, 0.01], device="cpu")
        (bad,) = probe(vectors, parts, layers, penalties=[1e6], device="cpu")
    assert found.penalty == 0.01 and found.test.value == 1
    assert bad.penalty == 1e6 and bad.test.value < 0.85


def test_a_control_label_belongs_to_a_form_and_to_a_seed():
    generator = np.random.default_rng(0)
    words = [f"w{i}/{'X' if i % 4 else 'Y'}" for i in generator.integers(2000, size=5000)]
    parts = parts_of([" ".join(words)], ["w1/X new/X"], ["w2/X w1/X"])
    labels = control_labels(parts, seed=3)
    of_form = dict(zip(parts.train[0].tokens, labels["train"], strict=True))
    assert labels["train"].tolist() == [of_form[token] for token in parts.train[0].tokens]
    assert labels["test"].tolist() == [of_form["w2"], of_form["w1"]]
    # Of the forms as many have a label as of the words of the training part.
    assert np.mean([label == 0 for label in of_form.values()]) == pytest.approx(0.75, abs=0.04)
    assert (labels["train"] == control_labels(parts, seed=3)["train"]).all()
    assert (labels["train"] != control_labels(parts, seed=4)["train"]).any()


def test_wilsons_interval_by_hand():
    # (8 + 1.92) / 13.84 = 0.7167; half its width 0.2265.
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    low, high = wilson_interval(0, 10)
    assert low == pytest.approx(0, abs=1e-9) and high == pytest.approx(0.2775, abs=1e-4)


def test_the_bootstrap_draws_sentences_as_brute_force_does():
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 9, size=40)
    right = generator.random(lengths.sum()) < 0.7
    ends = np.cumsum(lengths)
    sentences = [right[end - n : end].tolist() for end, n in zip(ends, lengths, strict=True)]
    draw, shares = np.random.default_rng(5), []
    for _ in range(1000):
        words = [w for i in draw.integers(40, size=40) for w in sentences[i]]
        shares.append(sum(words) / len(words))
    of = Accuracy.of(right, lengths.tolist(), seed=5)
    assert of.bootstrap == pytest.approx(tuple(np.percentile(shares, [2.5, 97.5])))
    assert of.bootstrap[0] < of.value < of.bootstrap[1]
    assert of.value == right.mean() and of.wilson == wilson_interval(right.sum().item(), len(right))


def test_words_of_a_sentence_that_err_together_widen_the_bootstrap():
    n_words = np.full(30, 10)
    together = np.where(np.arange(30) % 3 == 0, 10, 0)
    low, high = bootstrap_interval(together, n_words, seed=0)
    wilson = wilson_interval(100, 300)
    assert high - low > 2 * (wilson[1] - wilson[0])


# ---- refused ------------------------------------------------------------------------------------


def test_one_label_is_refused():
    with pytest.raises(ValueError, match="each word of the training part has the label 'X'"):
        parts_of(["a/X b/X"], ["a/X"], ["a/Y"])


def test_parts_without_sentences_or_labels_are_refused():
    with pytest.raises(ValueError, match="the dev part has no sentences"):
        parts_of(["a/X b/Y"], [], ["a/Y"])
    with pytest.raises(ValueError, match="the test part has a sentence without labels"):
        Parts([sentence("a/X b/Y")], [sentence("a/X")], [TaggedSentence(("a",))])


@pytest.mark.parametrize("penalties", [[], [0.1, -1.0]])
def test_penalties_that_are_none_are_refused(told_and_remembered, penalties):
    _, parts = told_and_remembered
    with pytest.raises(ValueError, match=re.escape("but expected numbers from 0 on")):
        probe({}, parts, Layers((0,), 1), penalties=penalties)
