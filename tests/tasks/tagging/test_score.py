import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.tagging.score import SpanCounts, score_tags

BOUNDARY = "-X-"
tags_of_spans = st.sampled_from(["O", *(f"{p}-{t}" for p in "BI" for t in ("PER", "LOC", "a-b"))])
pairs_of_tags = st.lists(st.lists(st.tuples(tags_of_spans, tags_of_spans), max_size=7), max_size=4)


def conlleval(sentences):
    """Lines (right, predicted) of sentences through conlleval's one pass, which knows no spans.

    Returns tokens, right tags, and {type: [right, found, correct]}.
    """

    def ends(before, tag, type_before, type_):
        by_tags = (before, tag) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")}
        return by_tags or (before not in ("O", ".") and type_before != type_)

    def starts(before, tag, type_before, type_):
        by_tags = (before, tag) in {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")}
        return by_tags or (tag not in ("O", ".") and type_before != type_)

    lines = [line for sentence in sentences for line in (*sentence, (BOUNDARY, BOUNDARY))]
    n_tokens, n_right_tags, counts = 0, 0, {}
    in_correct, last, last_guessed = False, ("O", ""), ("O", "")
    for right, predicted in lines:
        boundary = right == BOUNDARY
        tag, _, type_ = ("O", "", "") if boundary else right.partition("-")
        guess, _, guessed_type = ("O", "", "") if boundary else predicted.partition("-")
        end = ends(last[0], tag, last[1], type_)
        guessed_end = ends(last_guessed[0], guess, last_guessed[1], guessed_type)
        if in_correct:
            if end and guessed_end and last_guessed[1] == last[1]:
                in_correct = False
                counts.setdefault(last[1], [0, 0, 0])[2] += 1
            elif end != guessed_end or guessed_type != type_:
                in_correct = False
        start = starts(last[0], tag, last[1], type_)
        guessed_start = starts(last_guessed[0], guess, last_guessed[1], guessed_type)
        if start and guessed_start and guessed_type == type_:
            in_correct = True
        if start:
            counts.setdefault(type_, [0, 0, 0])[0] += 1
        if guessed_start:
            counts.setdefault(guessed_type, [0, 0, 0])[1] += 1
        if not boundary:
            n_tokens += 1
            n_right_tags += (tag, type_) == (guess, guessed_type)
        last, last_guessed = (tag, type_), (guess, guessed_type)
    return n_tokens, n_right_tags, counts


def score(*sentences):
    """Each sentence as `right | predicted`."""
    split = [[side.split() for side in sentence.split("|")] for sentence in sentences]
    return score_tags([right for right, _ in split], [predicted for _, predicted in split])


@given(pairs_of_tags)
def test_counts_are_those_of_conllevals_one_pass(sentences):
    found = score_tags(
        [[right for right, _ in sentence] for sentence in sentences],
        [[predicted for _, predicted in sentence] for sentence in sentences],
    )
    n_tokens, n_right_tags, counts = conlleval(sentences)
    assert (found.n_tokens, found.n_correct) == (n_tokens, n_right_tags)
    assert found.of_label == {label: SpanCounts(*of) for label, of in counts.items()}


# Worked by hand: (sentences, right spans, predicted spans, correct spans, correct tags, tokens).
@pytest.mark.parametrize(
    ("sentences", "counts"),
    [
        (["B-PER I-PER O B-LOC | B-PER I-PER O B-LOC"], (2, 2, 2, 4, 4)),
        (["B-PER I-PER | B-PER O"], (1, 1, 0, 1, 2)),  # its beginning only
        (["B-PER I-PER | B-LOC I-LOC"], (1, 1, 0, 0, 2)),  # the bounds, another type
        (["I-PER I-PER O | B-PER I-PER O"], (1, 1, 1, 2, 3)),  # IOB1 right, IOB2 predicted
        (["B-PER B-PER | B-PER I-PER"], (2, 1, 0, 1, 2)),  # two, taken for one
        (["I-PER B-PER | B-PER B-PER"], (2, 2, 2, 1, 2)),
        (["B-PER I-LOC | B-PER B-LOC"], (2, 2, 2, 1, 2)),  # another type begins a span
        (["B-PER I-LOC I-PER | B-PER I-PER I-PER"], (3, 1, 0, 2, 3)),
        (["O I-PER O I-PER | O B-PER O O"], (2, 1, 1, 2, 4)),
        (["B-PER | B-PER", "I-PER | I-LOC"], (2, 2, 1, 1, 2)),  # a sentence ends a span
        (["B-PER I-PER I-PER | B-PER I-PER O", "O O | O B-PER"], (1, 2, 0, 3, 5)),
        (["O O | O O"], (0, 0, 0, 2, 2)),
        (["O B-a-b I-a-c | O B-a-b I-a-b"], (2, 1, 0, 2, 3)),  # types with hyphens
        (["B I | B-x I-x"], (1, 1, 0, 0, 2)),  # no type is a type
    ],
)
def test_nasty_cases_count_as_worked_by_hand(sentences, counts):
    found = score(*sentences)
    spans = found.spans
    assert (
        spans.n_right,
        spans.n_predicted,
        spans.n_correct,
        found.n_correct,
        found.n_tokens,
    ) == counts


def test_the_report_is_conllevals():
    found = score(
        "B-PER I-PER O B-LOC | B-PER I-PER O B-PER", "B-LOC O O I-ORG | I-LOC B-LOC O I-ORG"
    )
    # Worked by hand: PER 1 right, 2 predicted, 1 correct; LOC 2, 2, 1; ORG 1, 1, 1.
    assert found.report().splitlines() == [
        "processed 8 tokens with 4 phrases; found: 5 phrases; correct: 3.",
        "accuracy:  62.50%; precision:  60.00%; recall:  75.00%; FB1:  66.67",
        "              LOC: precision:  50.00%; recall:  50.00%; FB1:  50.00  2",
        "              ORG: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
        "              PER: precision:  50.00%; recall: 100.00%; FB1:  66.67  2",
    ]


def test_metrics_are_percent_of_all_and_of_each_label():
    metrics = score("B-PER O B-LOC O | B-PER O O B-PER").metrics()
    assert metrics == {
        "f1": 50.0,
        "precision": 50.0,
        "recall": 50.0,
        "accuracy": 50.0,
        "f1/LOC": 0.0,
        "precision/LOC": 0.0,
        "recall/LOC": 0.0,
        "f1/PER": pytest.approx(66.667, abs=1e-3),
        "precision/PER": 50.0,
        "recall/PER": 100.0,
    }


def test_parts_of_speech_have_accuracy_alone():
    found = score("NOUN VERB O NOUN | NOUN NOUN O B-PER")
    assert found.of_label is None
    assert found.metrics() == {"accuracy": 50.0}


def test_bioes_counts_as_the_same_spans_in_bio():
    bioes = score("S-PER S-PER B-LOC I-LOC E-LOC | S-PER B-PER E-PER I-LOC E-LOC")
    bio = score("B-PER B-PER B-LOC I-LOC I-LOC | B-PER B-PER I-PER B-LOC I-LOC")
    assert bioes.metrics() == bio.metrics()
    assert bioes.spans == SpanCounts(3, 3, 1)


def test_sentences_that_are_not_bio_are_counted():
    found = score(
        "I-PER O | B-PER O", "B-PER O | O I-PER", "B-LOC O | I-LOC I-PER", "S-PER | B-PER"
    )
    assert (found.n_repaired, found.n_repaired_predicted) == (1, 2)


def test_nothing_predicted_and_nothing_right_is_0():
    assert score("O O | O O").metrics() == {"f1": 0, "precision": 0, "recall": 0, "accuracy": 100}
    assert score_tags([], []).metrics()["accuracy"] == 0


def test_a_label_unknown_at_training_counts_as_missed():
    found = score("B-PER B-NEW | B-PER O")
    assert found.of_label["NEW"] == SpanCounts(1, 0, 0)
    assert found.spans.recall == 50


@pytest.mark.parametrize(
    ("right", "predicted", "message"),
    [
        ([["O"], ["O", "O"]], [["O"], ["O"]], "sentence 1 has 2 tags, but 1 are predicted"),
        ([["O"]], [], "0 sentences are predicted, but 1 are given"),
        ([["O"]], [["NOUN"]], re.escape("tag 'NOUN' writes no span")),
    ],
)
def test_what_does_not_fit_is_refused(right, predicted, message):
    with pytest.raises(ValueError, match=message):
        score_tags(right, predicted)
