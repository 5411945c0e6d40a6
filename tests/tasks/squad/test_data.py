import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo import Tokenizer
from elmo.tasks.squad.data import (
    Paragraph,
    ask,
    gold_texts,
    place_answer,
    read_predictions,
    read_squad,
    write_predictions,
)
from elmo.tasks.squad.report import report

CONTEXT = "Saint  Bernadette saw the Virgin Mary in 1858, in a grotto (a non-place)."


def squad(*qas, context=CONTEXT):
    return {
        "version": "1.1",
        "data": [{"title": "T", "paragraphs": [{"context": context, "qas": [*qas]}]}],
    }


def qa(id="1", question="Who was it?", **answers):
    return {"id": id, "question": question, **answers}


def answer(text, start=None):
    return {"text": text} if start is None else {"text": text, "answer_start": start}


@pytest.fixture
def read(tmp_path):
    def write_and_read(content):
        (tmp_path / "x.json").write_text(json.dumps(content))
        return read_squad(tmp_path / "x.json")

    return write_and_read


@pytest.fixture(scope="module")
def paragraph():
    return Paragraph("T", CONTEXT, tuple(Tokenizer()(CONTEXT)))


def test_a_question_has_its_tokens_and_those_of_its_paragraph(read):
    first, second = read(
        squad(qa(answers=[answer("in", 38)]), qa("2", "When?", answers=[answer("1858", 41)]))
    )
    assert first.id == "1" and first.tokens == ("Who", "was", "it", "?")
    assert first.paragraph is second.paragraph and first.paragraph.title == "T"
    assert [token.text for token in first.paragraph.tokens[:3]] == ["Saint", "Bernadette", "saw"]
    assert second.span == (7, 7)


def test_the_text_of_a_span_is_cut_from_the_paragraph_as_it_was_written(paragraph):
    assert paragraph.cut(0, 1) == "Saint  Bernadette"


@pytest.mark.parametrize(
    ("text", "stated", "start", "cut", "repaired", "widened"),
    [
        ("in", 38, 38, "in", False, False),
        ("in", 45, 47, "in", True, False),  # the nearest of two
        ("in", 39, 38, "in", True, False),
        ("in", None, 38, "in", True, False),  # without a place the first that is a token
        ("in", 2, 2, "Saint", False, True),
        ("irg", None, 27, "Virgin", True, True),
        ("Mary", -4, 33, "Mary", True, False),
        ("Mary", 900, 33, "Mary", True, False),
        (" the Virgin ", 21, 21, "the Virgin", False, False),
        ("858", 42, 42, "1858", False, True),
        ("Saint  Bern", 0, 0, "Saint  Bernadette", False, True),
        ("place", 66, 66, "place", False, False),
    ],
)
def test_an_answer_is_found_where_it_is(paragraph, text, stated, start, cut, repaired, widened):
    placed = place_answer(paragraph, text, stated)
    assert placed.start == start and paragraph.cut(*placed.span) == cut
    assert (placed.repaired, placed.widened) == (repaired, widened)


@pytest.mark.parametrize("text", ["mary", "Saint Bernadette", "", " "])
def test_an_answer_that_the_paragraph_does_not_have_keeps_its_text_and_has_no_span(paragraph, text):
    placed = place_answer(paragraph, text, 3)
    assert (placed.text, placed.start, placed.span) == (text, None, None)


@given(st.data())
def test_every_run_of_tokens_is_found_again(data):
    text = data.draw(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
    tokens = tuple(Tokenizer("whitespace")(text))
    if not tokens:
        return
    place = Paragraph("", text, tokens)
    first = data.draw(st.integers(0, len(tokens) - 1))
    last = data.draw(st.integers(first, len(tokens) - 1))
    placed = place_answer(place, place.cut(first, last), tokens[first].start)
    assert placed.span == (first, last) and not placed.repaired and not placed.widened


def test_what_does_not_fit_is_counted_and_nothing_is_left_out(read):
    questions = read(
        squad(
            qa("1", answers=[answer("nobody", 3), answer("858", 42)]),
            qa("2", answers=[answer("Mary", 3)]),
            qa("3", answers=[answer("nowhere", 3)]),
            qa("4", answers=[answer("Saint", 0), answer("Saint", 0)]),
            qa("5"),
        )
    )
    assert len(questions) == 5
    assert report(questions, max_tokens=6) == (5, 6, 1, 1, 2, 1, 19, 5, 1)
    assert report(questions).too_long == 0
    assert "2 not in their paragraph (1 questions have no other)" in str(report(questions))
    assert gold_texts(questions)["1"] == ["nobody", "858"] and "5" not in gold_texts(questions)
    assert questions[0].span == (7, 7) and questions[2].span is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], " is a list, [], but an object is wanted"),
        ({}, ': "data" is missing, but a list is wanted'),
        ({"data": []}, ": has no questions, but at least one is wanted"),
        ({"data": [{"paragraphs": [3]}]}, ", data[0].paragraphs[0] is a whole number, 3, but"),
        (squad(context=" "), ", data[0].paragraphs[0]: \"context\" is ' ', but a text with at"),
        (squad(qa(question="")), ".qas[0]: \"question\" is '', but a text with at least one token"),
        (squad(qa(answers=[])), '.qas[0]: "answers" is empty, but in SQuAD v1.1 every question'),
        (squad(qa(answers=[answer(7)])), '.answers[0]: "text" is a whole number, 7, but a string'),
        (
            squad(qa(answers=[answer("Mary", "3")])),
            '.qas[0].answers[0]: "answer_start" is a string, "3", but a whole number is wanted',
        ),
        (squad(qa(), qa()), '.qas[1]: "id" is "1" as in data[0].paragraphs[0].qas[0], but'),
        (squad({"id": "1"}), '.paragraphs[0].qas[0]: "question" is missing, but a string'),
    ],
)
def test_what_is_not_of_squads_form_is_refused_with_its_place(read, tmp_path, content, said):
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        read(content)
    assert str(error.value).startswith(str(tmp_path / "x.json"))
    assert "\n" not in str(error.value)


def test_a_question_of_ones_own_needs_no_file():
    question = ask("Where?", "In a grotto.", Tokenizer())
    assert question.tokens == ("Where", "?") and question.answers is None
    assert question.paragraph.cut(1, 2) == "a grotto"
    with pytest.raises(ValueError, match="the question is '', but a text with at least one token"):
        ask("", "In a grotto.", Tokenizer())
    with pytest.raises(ValueError, match="the paragraph holds a NUL"):
        ask("Where?", "\0", Tokenizer())


def test_predictions_are_read_as_they_were_written(tmp_path):
    answers = {"1": "Málaga", "2": 'a "b"\n'}
    write_predictions(tmp_path / "p.json", answers)
    assert read_predictions(tmp_path / "p.json") == answers
    assert (tmp_path / "p.json").read_bytes().isascii()


def test_a_prediction_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "p.json").write_text('{"1": null}')
    with pytest.raises(ValueError, match=re.escape('p.json: "1" is null')):
        read_predictions(tmp_path / "p.json")


@pytest.mark.slow
def test_the_whole_data_set_is_read(shared):
    folder = shared / "datasets/qa/squad-v1.1"
    if not folder.is_dir():
        pytest.skip(f"needs {folder}")
    counts = {
        path.name.split(".")[0]: report(read_squad(path)) for path in folder.glob("*.json.gz")
    }
    assert counts["dev"].questions == 3955 and counts["test"].questions == 5747
    assert sum(each.questions for name, each in counts.items() if "train" in name) == 77897
    assert sum(each.absent + each.repaired for each in counts.values()) == 0
