import math
import re

import numpy as np
import pytest
from tests.predict.predictors import (
    SENTENCES,
    VOCABULARY,
    log_probabilities,
    random_predictor,
    together,
)

from elmo import Vocabulary
from elmo.predict import place
from elmo.predict.score import as_json, scores


@pytest.fixture(scope="module")
def predictor():
    return random_predictor()


@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_surprisals_are_those_of_a_plain_computation(predictor, chunk, monkeypatch):
    monkeypatch.setattr(place, "CHUNK_SCORES", chunk)
    found = predictor.score(SENTENCES, unit="bits")
    for sentence, score in zip(SENTENCES, found, strict=True):
        assert score.tokens == sentence
        if not sentence:
            assert score.forward_lm.end is None and score.forward_lm.total == 0
            assert math.isnan(score.forward_lm.mean) and len(score.combined.tokens) == 0
            continue
        forward_lm, backward_lm = log_probabilities(predictor, sentence)
        words = [VOCABULARY.id(token) for token in sentence]
        for i, word in enumerate(words, start=1):
            p = together(forward_lm[i], backward_lm[i], (0, 1))[word]
            expected = -forward_lm[i][word], -backward_lm[i][word], -np.log(p)
            ours = [of.tokens[i - 1] for of in score.by_direction().values()]
            np.testing.assert_allclose(ours, np.array(expected) / np.log(2), rtol=1e-4)
        assert score.forward_lm.end == pytest.approx(-forward_lm[-1][1] / np.log(2), rel=1e-4)
        assert score.backward_lm.end == pytest.approx(-backward_lm[0][0] / np.log(2), rel=1e-4)
        assert score.combined.end is None


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_totals_of_a_text_are_what_its_perplexity_is_made_of(predictor, state):
    found = predictor.score(SENTENCES, unit="nats", both=False, state=state)
    sums = predictor.perplexity_sums(SENTENCES, state=state)
    for direction in ("forward_lm", "backward_lm"):
        total = sum(getattr(score, direction).total for score in found)
        assert total == pytest.approx(getattr(sums, direction), rel=1e-12)
    assert sum(score.forward_lm.n_predictions for score in found) == sums.n_tokens
    assert sum(score.n_unknown for score in found) == sums.n_unknown == 1
    (one,) = predictor.score(SENTENCES[:1])
    measured = predictor.perplexity(SENTENCES[:1])
    assert one.forward_lm.perplexity == pytest.approx(measured.forward_lm, rel=1e-9)


def test_neither_order_nor_batches_change_a_score(predictor):
    first = predictor.score(SENTENCES)
    second = predictor.score(SENTENCES[::-1], batch_tokens=1)[::-1]
    for a, b in zip(first, second, strict=True):
        for name, of in a.by_direction().items():
            np.testing.assert_allclose(of.tokens, b.by_direction()[name].tokens, rtol=1e-5)


def test_a_bit_is_log_2_nats(predictor):
    bits, nats = (predictor.score(SENTENCES[:1], unit=unit)[0] for unit in ("bits", "nats"))
    for name, of in nats.by_direction().items():
        np.testing.assert_allclose(bits.by_direction()[name].tokens * np.log(2), of.tokens)
        assert bits.by_direction()[name].perplexity == pytest.approx(of.perplexity)


def test_a_token_does_not_see_itself_in_the_combined_score(predictor):
    # Only its word is asked for: another unknown word in its place is as surprising.
    first, second = (
        predictor.score([["a", word, "b"]])[0].combined.tokens[1] for word in ("zzz", "yyyy")
    )
    assert first == pytest.approx(second, rel=1e-6)


def test_raw_text_is_split_and_streams(predictor):
    assert predictor.score(["a b zzz"])[0].tokens == ["a", "b", "zzz"]

    def endless():
        while True:
            yield "a b"

    assert next(predictor.score_stream(endless())).tokens == ["a", "b"]


def test_without_both_there_is_no_combined_score(predictor):
    (score,) = predictor.score(SENTENCES[:1], both=False)
    assert score.combined is None and list(as_json(score)) == [
        "tokens", "known", "unit", "forward", "backward"
    ]  # fmt: skip


def test_progress_counts_sentences_with_tokens(predictor):
    done = []
    predictor.score(SENTENCES, progress=done.append)
    assert sum(done) == 4


def test_bad_input_is_refused(predictor):
    with pytest.raises(ValueError, match="unit is 'shannons', but expected one of bits, nats"):
        predictor.score(SENTENCES, unit="shannons")
    with pytest.raises(ValueError, match="state is 'settled', but expected one of"):
        predictor.score(SENTENCES, state="settled")
    with pytest.raises(ValueError, match=re.escape("sentences[1] holds </S>")):
        predictor.score([["a"], ["a", "</S>"]])
    with pytest.raises(TypeError, match="sentences is the string 'a b', but several are wanted"):
        predictor.score("a b")
    with pytest.raises(TypeError, match=re.escape("sentences[0] is the string")):
        list(scores(predictor.model, VOCABULARY, ["a b"]))
    with pytest.raises(ValueError, match="the vocabulary has 8 words, but the softmax predicts 7"):
        scores(predictor.model, Vocabulary([*VOCABULARY.words, "d"]), SENTENCES)
