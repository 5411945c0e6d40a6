import re
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.probes.toy import ToyEncoder, random_encoder

from elmo.probes.layers import Layers
from elmo.probes.wsd import (
    LinearSenses,
    NearestMean,
    NearestUses,
    SenseCounts,
    disambiguate,
    read_methods,
)
from elmo.probes.wsd_data import Instance, WsdSentence

BANK = ("bank", "NOUN")


def text(*uses, word=BANK, name="d"):
    """A sentence per use: its first token says where the vector of its second one lies."""
    return [
        WsdSentence((where, "bank"), (Instance(f"{name}{i}", 1, 2, word, tuple(senses.split())),))
        for i, (where, senses) in enumerate(uses)
    ]


def at_place(sentence, i):
    """Layer 0: the same everywhere. Layer 1: what the first token says, as `0.6,0.8`."""
    return [[1, 1], [float(x) for x in sentence[0].split(",")]]


TOY = ToyEncoder(at_place, 2, 2)
TRAIN = text(("1,0", "river"), ("0.6,0.8", "river"), ("0,1", "money"))


def of_rows(found):
    return {(row.layer, row.method): row.senses for row in found}


def test_a_case_by_hand():
    # Cosines of (0.35, 0.9367) to the uses: 0.35, 0.959, 0.937; to the means of river, which is
    # (0.8, 0.4), and of money: 0.732, 0.937. Of the two nearest uses, each sense has one.
    test = text(("0.35,0.9367", "money"), name="t")
    methods = read_methods("mean,1-nn,2-nn,9-nn")
    found = of_rows(disambiguate(TOY, TRAIN, test, methods=methods))
    assert found == {
        ("", "most frequent sense"): {"t0": ("river",)},
        ("layer 0", "nearest mean"): {"t0": ("river",)},  # where all is alike, the more frequent
        ("layer 1", "nearest mean"): {"t0": ("money",)},
        ("mean of layers", "nearest mean"): {"t0": ("money",)},
        ("layer 0", "nearest use"): {"t0": ("river",)},
        ("layer 1", "nearest use"): {"t0": ("river",)},
        ("mean of layers", "nearest use"): {"t0": ("river",)},
        ("layer 0", "2 nearest uses"): {"t0": ("river",)},
        ("layer 1", "2 nearest uses"): {"t0": ("river",)},
        ("mean of layers", "2 nearest uses"): {"t0": ("river",)},
        ("layer 0", "9 nearest uses"): {"t0": ("river",)},
        ("layer 1", "9 nearest uses"): {"t0": ("river",)},
        ("mean of layers", "9 nearest uses"): {"t0": ("river",)},
    }


def test_alike_uses_leave_the_choice_to_frequency_whichever_came_first():
    train = text(("1,0", "money"), ("1,0", "river"), ("1,0", "river"))
    found = of_rows(
        disambiguate(TOY, train, text(("1,0", ""), name="t"), methods=read_methods("mean,1-nn"))
    )
    assert all(senses == {"t0": ("river",)} for senses in found.values())


def test_a_word_without_a_vector_gets_the_most_frequent_sense():
    test = text(("0,0", ""), name="t")
    found = disambiguate(
        TOY, TRAIN, test, methods=read_methods("mean,1-nn"), layers=Layers((1,), 2)
    )
    assert [row.senses for row in found] == [{"t0": ("river",)}] * 3


def test_a_lemma_has_other_candidates_as_another_part_of_speech():
    train = TRAIN + text(("0,1", "rely"), word=("bank", "VERB"), name="v")
    test = text(("0,1", ""), word=("bank", "VERB"), name="t")
    assert disambiguate(TOY, train, test)[-1].senses == {"t0": ("rely",)}


def test_unseen_lemmas_get_the_first_sense_or_none():
    test = text(("0,1", ""), word=("shore", "NOUN"), name="t")
    assert disambiguate(TOY, TRAIN, test)[-1].senses == {"t0": ()}
    found = disambiguate(TOY, TRAIN, test, inventory={("shore", "NOUN"): ("shore%1", "shore%2")})
    assert {row.senses["t0"] for row in found} == {("shore%1",)}
    assert [row.method for row in found[:2]] == ["most frequent sense", "first sense"]


def test_the_inventory_orders_equally_frequent_senses():
    train = text(("1,0", "a"), ("0,1", "b"), ("1,0", "c"), ("0,1", "c"))
    assert SenseCounts(train).senses[BANK] == ("c", "a", "b")
    assert SenseCounts(train, {BANK: ("z", "b", "a")}).senses[BANK] == ("c", "b", "a")


def test_only_sentences_with_something_to_choose_are_read():
    train = TRAIN + text(("1,0", "one"), word=("pen", "NOUN"), name="p")
    test = text(("0,1", ""), name="t") + text(("0,0", ""), word=("pen", "NOUN"), name="q")
    encoder = ToyEncoder(at_place, 2, 2)
    found = disambiguate(encoder, train, test)
    assert found[-1].senses == {"t0": ("money",), "q0": ("one",)}
    assert len(encoder.read) == 4 and ["0,0", "bank"] not in encoder.read
    assert disambiguate(encoder, train, test[1:])[-1].senses == {"q0": ("one",)}  # nothing to read
    assert len(encoder.read) == 4


def test_senses_of_the_test_text_are_not_looked_at():
    right, wrong = (text(("0,1", senses), name="t") for senses in ("money", "river"))
    assert disambiguate(TOY, TRAIN, right) == disambiguate(TOY, TRAIN, wrong)


def random_text(generator, n, name):
    sentences, k = [], 0
    for i in range(n):
        tokens = tuple(f"{name}{i}w{j}" for j in range(int(generator.integers(2, 6))))
        instances = []
        for start in range(0, len(tokens) - 1, 2):
            word = (f"l{generator.integers(4)}", generator.choice(["NOUN", "VERB"]).item())
            n_senses = generator.choice([1, 1, 1, 2])
            senses = tuple(f"{'.'.join(word)}.{s}" for s in generator.permutation(3)[:n_senses])
            end = min(len(tokens), start + int(generator.integers(1, 3)))
            instances.append(Instance(f"{name}.{k}", start, end, word, senses))
            k += 1
        sentences.append(WsdSentence(tokens, tuple(instances)))
    return sentences


def brute_force(encoder, train, test, layer, k):
    """The sense of each instance, one after the other; k = 0 for the nearest mean."""

    def uses_of(sentences):
        for sentence in sentences:
            layers = encoder.encode_layers([sentence.tokens])[0].astype(np.float64)
            vectors = layers.mean(axis=0) if layer is None else layers[layer]
            for instance in sentence.instances:
                yield instance, vectors[instance.start : instance.end].mean(axis=0)

    def cosine(a, b):
        return a @ b / np.sqrt((a @ a) * (b @ b))

    known, answers = list(uses_of(train)), {}
    for asked, x in uses_of(test):
        mine = [(use.senses, v) for use, v in known if use.word == asked.word]
        counts = Counter(sense for senses, _ in mine for sense in senses)
        if k:
            near = sorted(mine, key=lambda use: -cosine(use[1], x))[:k]
            votes = Counter(sense for senses, _ in near for sense in senses)
        else:
            votes = {
                s: cosine(np.mean([v for senses, v in mine if s in senses], axis=0), x)
                for s in counts
            }
        best = max(votes.values())
        answers[asked.id] = {s for s in votes if votes[s] == best}
        if len(answers[asked.id]) > 1:
            most = max(counts[s] for s in answers[asked.id])
            answers[asked.id] = {s for s in answers[asked.id] if counts[s] == most}
    return answers


def test_it_is_what_brute_force_finds():
    generator = np.random.default_rng(0)
    train, test = random_text(generator, 60, "a"), random_text(generator, 30, "b")
    encoder = random_encoder()
    methods = read_methods("mean,1-nn,4-nn")
    found = of_rows(disambiguate(encoder, train, test, methods=methods))
    for method, k in zip(methods, (0, 1, 4), strict=True):
        for layer, name in [(0, "layer 0"), (2, "layer 2"), (None, "mean of layers")]:
            expected = brute_force(encoder, train, test, layer, k)
            given = found[name, method.name]
            assert given.keys() == expected.keys() and len(given) > 30
            # Equally frequent senses with equal votes: any of them.
            assert all({*given[name]} <= expected[name] for name in given)
            assert sum(len(right) == 1 for right in expected.values()) > 0.8 * len(given)


@pytest.mark.parametrize("n_senses", [2, 3])
def test_the_linear_classifier_minimises_what_it_says(n_senses):
    generator = np.random.default_rng(n_senses)
    uses = generator.normal(size=(12, 3)).astype(np.float32) * 5 + 2
    of = np.eye(n_senses, dtype=bool)[np.arange(12) % n_senses]
    of[0, 1] = True  # a use with two senses
    asked = generator.normal(size=(4, 3)).astype(np.float32) * 5
    mean = uses.mean(axis=0)
    size = np.sqrt(((uses - mean) ** 2).mean())
    target = of / of.sum(axis=1, keepdims=True)

    def log_p(parameters, x):
        w, b = np.split(parameters, [3 * n_senses])
        z = (x - mean) / size @ w.reshape(3, n_senses) + b
        return z - np.logaddexp.reduce(z, axis=1, keepdims=True)

    def loss(parameters):
        squares = (parameters[: 3 * n_senses] ** 2).sum()
        return -(target * log_p(parameters, uses)).sum() / 12 + 0.3 / 2 * squares

    best = minimize(loss, np.zeros(4 * n_senses), tol=1e-10).x
    given = LinearSenses(0.3).scores(asked, uses, of)
    np.testing.assert_allclose(given, np.exp(log_p(best, asked)), atol=2e-3)


def test_the_linear_classifier_of_uses_that_are_alike_knows_how_frequent_senses_are():
    of = np.eye(2, dtype=bool)[[0, 0, 0, 1]]
    scores = LinearSenses().scores(np.ones((1, 3), np.float32), np.ones((4, 3), np.float32), of)
    np.testing.assert_allclose(scores, [[0.75, 0.25]], atol=1e-3)


def test_methods_are_read():
    wanted = (NearestMean(), NearestUses(10), LinearSenses(), LinearSenses(0.5))
    assert read_methods("mean, 10-nn,linear,linear:0.5") == wanted


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("means", "method is 'means', but expected mean, K-nn"),
        ("", "method is ''"),
        ("-1-nn", "method is '-1-nn'"),
        ("0-nn", "k is 0"),
        ("linear:0", "l2 is 0"),
        ("linear:x", "method 'linear:x': could not convert"),
        ("mean,mean", "asks for one twice"),
    ],
)
def test_other_methods_are_refused(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_methods(given)


def test_a_training_text_without_senses_is_refused():
    with pytest.raises(ValueError, match="no word with a sense: read it with its keys"):
        disambiguate(TOY, text(("1,0", "")), text(("1,0", "")))
