import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.squad.score import exact_match, f1, normalised, score


@pytest.mark.parametrize(
    ("answer", "is_left"),
    [
        ("The  Red\n Sea.", "red sea"),
        ("a theatre, an anthem", "theatre anthem"),
        ("the-end", "theend"),  # no space in place of the hyphen
        ("a.k.a.", "aka"),  # punctuation goes before articles do
        ("«the» 5 €", "« » 5 €"),  # other punctuation than ASCII's stays, and ends a word
        ("1\u20132", "1\u20132"),
        ("An\u00a0hour", "hour"),  # a no-break space is white space
        ("ÉCOLE", "école"),
        ("the", ""),
    ],
)
def test_what_does_not_count_is_taken_out(answer, is_left):
    assert normalised(answer) == is_left


@pytest.mark.parametrize(
    ("predicted", "gold", "wanted"),
    [
        ("the cat sat", "cat", 2 * (1 / 2) * 1 / (1 / 2 + 1)),
        ("red red sea", "red sea sea", 2 / 3),  # a word counts as often as both have it
        ("dog", "cat", 0.0),
        ("", "cat", 0.0),
        ("the", "a", 0.0),
    ],
)
def test_f1_is_over_words_with_their_counts(predicted, gold, wanted):
    assert f1(predicted, gold) == pytest.approx(wanted)


def test_answers_of_nothing_but_articles_match_but_share_no_word():
    assert exact_match("the", "A!") and f1("the", "A!") == 0


def test_each_measure_takes_its_own_best_gold_answer():
    gold = {"1": ["the blue whale of Iceland", "whales"], "2": ["Paris"]}
    assert score(gold, {"1": "blue whale", "2": "paris."}) == {
        "exact_match": 50.0,
        "f1": pytest.approx(100 * (2 / 3 + 1) / 2),
    }


def test_a_missing_prediction_counts_as_nothing_and_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        found = score({"1": ["x"], "2": ["y"], "3": ["z"]}, {"1": "x", "9": "w"})
    assert found == {"exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 / 3)}
    assert caplog.messages == [
        '2 of 3 questions have no prediction and count as 0, the first of them "2"'
    ]


@given(st.text(), st.text())
def test_the_order_of_two_answers_does_not_change_a_score(one, other):
    assert f1(one, other) == pytest.approx(f1(other, one))
    assert exact_match(one, other) == exact_match(other, one)


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ({}, "there is no question to score: give at least one with its answers"),
        ({"q": []}, 'question "q" has no gold answer, so it cannot be scored'),
    ],
)
def test_nothing_to_score_against_is_refused(gold, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        score(gold, {})
