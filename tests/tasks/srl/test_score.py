from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.srl.data import Argument, Frame
from elmo.tasks.srl.score import Counts, count, score, whole_arguments

ROLES = ["A0", "A1", "C-A0", "C-A1", "R-A0", "V", "AM-TMP"]


def frame(*arguments, predicate=0, lemma="go"):
    return Frame(predicate, lemma, tuple(Argument(*argument) for argument in arguments))


def counts_of(gold, predicted):
    return count([[frame(*gold)]], [[frame(*predicted)]])


def test_each_argument_is_correct_excess_or_missed():
    gold = [("A0", 0, 2), ("V", 2, 3), ("A1", 3, 5), ("AM-TMP", 5, 6)]
    predicted = [("A0", 0, 2), ("V", 2, 3), ("A1", 3, 6)]
    found = counts_of(gold, predicted)
    assert found.roles == {
        "A0": Counts(1, 0, 0),
        "A1": Counts(0, 1, 1),
        "AM-TMP": Counts(0, 0, 1),
        "V": Counts(1, 0, 0),
    }
    assert found.overall == Counts(1, 1, 2) and (found.n_frames, found.n_perfect) == (1, 0)


def test_scores_are_in_percent_over_all_sentences_and_leave_out_the_verb():
    gold = [[frame(("A0", 0, 1), ("V", 1, 2), ("A1", 2, 4))], [], [frame(("A1", 0, 1))]]
    predicted = [[frame(("A0", 0, 1), ("V", 4, 5))], [], [frame(("A1", 0, 1))]]
    found = score(gold, predicted)
    assert found["precision"] == pytest.approx(100)
    assert found["recall"] == pytest.approx(200 / 3)
    assert found["f1"] == pytest.approx(80)
    assert found["perfect_frames"] == pytest.approx(50)
    assert found["f1/A0"] == pytest.approx(100) and found["f1/V"] == 0
    assert found["f1/A1"] == pytest.approx(200 / 3)


def test_a_wrong_verb_leaves_a_frame_perfect():
    found = counts_of([("A0", 0, 1), ("V", 1, 2)], [("A0", 0, 1), ("V", 2, 3)])
    assert found.n_perfect == 1 and found.roles["V"] == Counts(0, 1, 1)


def test_a_continuation_makes_one_argument_of_both_pieces():
    gold = [("A1", 0, 2), ("V", 2, 3), ("C-A1", 3, 5)]
    assert counts_of(gold, gold).roles["A1"] == Counts(1, 0, 0)
    assert "C-A1" not in counts_of(gold, gold).roles
    # One piece alone is wrong, and so are both under another extent.
    assert counts_of(gold, gold[:2]).overall == Counts(0, 1, 1)
    assert counts_of(gold, [("A1", 0, 2), ("C-A1", 3, 4)]).overall == Counts(0, 1, 1)
    assert counts_of(gold, [("A1", 0, 5)]).overall == Counts(0, 1, 1)
    # As are the same tokens in other pieces.
    assert counts_of(gold, [("A1", 0, 1), ("C-A1", 1, 2), ("C-A1", 3, 5)]).overall == Counts(
        0, 1, 1
    )


def test_a_continuation_of_nothing_is_an_argument_of_its_own():
    assert counts_of([("A1", 0, 2)], [("C-A1", 0, 2)]).overall == Counts(1, 0, 0)
    assert counts_of([("A1", 3, 4), ("A0", 0, 1)], [("C-A1", 3, 4)]).overall == Counts(1, 0, 1)


def test_a_continuation_goes_on_with_the_last_of_its_role():
    wholes = whole_arguments(
        [Argument("A1", 0, 1), Argument("A1", 2, 3), Argument("A0", 4, 5), Argument("C-A1", 6, 7)]
    )
    assert [(w.role, w.extent) for w in wholes] == [("A1", (0, 1)), ("A1", (2, 7)), ("A0", (4, 5))]
    assert wholes[1].pieces == ((2, 3), (6, 7)) and not wholes[0].pieces


def test_a_reference_is_a_role_of_its_own():
    gold = [("A0", 0, 1), ("R-A0", 1, 2)]
    assert counts_of(gold, [("A0", 0, 1), ("A0", 1, 2)]).roles == {
        "A0": Counts(1, 1, 0),
        "R-A0": Counts(0, 0, 1),
    }


def test_frames_are_matched_by_place_and_lemma_and_others_are_not_counted():
    gold = [frame(("A0", 0, 1)), frame(("A0", 0, 1), predicate=3)]
    predicted = [
        frame(("A0", 0, 1), lemma="come"),  # not that verb
        frame(("A0", 0, 1), predicate=2),  # no predicate of the gold
        frame(("A0", 0, 1), predicate=3),
    ]
    found = count([gold], [predicted])
    assert found.overall == Counts(1, 0, 1) and (found.n_frames, found.n_perfect) == (2, 1)


def test_an_argument_around_others_has_them_as_pieces():
    gold = [("A1", 0, 4), ("A0", 1, 2)]
    assert counts_of(gold, gold).overall == Counts(2, 0, 0)
    assert counts_of(gold, [("A1", 0, 4)]).overall == Counts(0, 1, 2)


def test_a_piece_that_is_predicted_twice_is_wrong():
    nested = [("A0", 0, 3), ("C-A0", 0, 2)]  # the inner one is a piece, and continues the outer one
    assert counts_of(nested, nested).overall == Counts(0, 1, 1)


def test_nothing_found_and_nothing_to_be_found_score_zero():
    assert score([[frame(("A0", 0, 1))]], [[]])["f1"] == 0
    assert score([], [])["f1"] == 0
    assert score([[]], [[frame(("A0", 0, 1))]])["precision"] == 0


def test_unknown_answers_cannot_be_scored_against():
    with pytest.raises(ValueError, match="arguments of 'go', token 0, are not known"):
        count([[Frame(0, "go")]], [[]])


@st.composite
def flat_frames(draw):
    arguments, i = [], 0
    while i < 6:
        if draw(st.booleans()):
            end = draw(st.integers(i + 1, 6))
            arguments.append((draw(st.sampled_from(ROLES)), i, end))
            i = end
        else:
            i += 1
    return arguments


def by_definition(arguments):
    """Each argument as its role and all of its pieces."""
    pieces = []
    for role, start, end in arguments:
        kind = role[2:] if role.startswith("C-") else role
        same = [found for found in pieces if found[0] == kind]
        if role.startswith("C-") and same:
            same[-1][1].append((start, end))
        else:
            pieces.append((kind, [(start, end)]))
    return Counter((kind, tuple(where)) for kind, where in pieces)


@given(flat_frames(), flat_frames())
def test_counts_are_those_of_comparing_roles_with_all_their_pieces(gold, predicted):
    wanted, found = by_definition(gold), by_definition(predicted)

    def per_role(arguments):
        return Counter(role for role, _ in arguments.elements())

    expected = {
        role: Counts(
            per_role(wanted & found)[role],
            per_role(found - wanted)[role],
            per_role(wanted - found)[role],
        )
        for role, _ in wanted | found
    }
    assert counts_of(gold, predicted).roles == expected
