"""SQuAD v1.1: paragraphs, questions, and answers as spans of the paragraph's tokens.

An answer is told by its text and by the character of the paragraph at which it starts. A network
points at tokens; the text of what it points at is cut from the paragraph as it was written, white
space included.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from elmo.json_files import checked, field, read_json
from elmo.tasks.squad.tokens import fine_tokens
from elmo.text import Token, Tokenizer, check_text, write_lines


@dataclass(frozen=True)
class Paragraph:
    """What questions are asked about."""

    title: str
    text: str
    tokens: tuple[Token, ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its tokens without their places."""
        return tuple(token.text for token in self.tokens)

    def cut(self, first: int, last: int) -> str:
        """The text from the first to the last of these tokens, both included."""
        return self.text[self.tokens[first].start : self.tokens[last].end]


@dataclass(frozen=True)
class Answer:
    """A gold answer, and where it is in its paragraph.

    Attributes:
        text: As the data have it.
        start: The character at which it starts; None if the paragraph does not have its text.
        span: The first and the last of its tokens; None likewise.
        repaired: Whether the data stated no place, or a wrong one, and the text was found nearby.
        widened: Whether it starts or ends within a token, which `span` has whole.
    """

    text: str
    start: int | None
    span: tuple[int, int] | None
    repaired: bool = False
    widened: bool = False


@dataclass(frozen=True)
class Question:
    """A question about a paragraph; questions about the same share it.

    Attributes:
        answers: Every acceptable one; None where they are not known.
    """

    id: str
    text: str
    tokens: tuple[str, ...]
    paragraph: Paragraph
    answers: tuple[Answer, ...] | None = None

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where the answers are that the paragraph has, each place once."""
        return tuple(dict.fromkeys(answer.span for answer in self.answers or () if answer.span))

    @property
    def span(self) -> tuple[int, int] | None:
        """The first of these; None if there is none to learn from."""
        return self.spans[0] if self.spans else None


def place_answer(paragraph: Paragraph, text: str, stated: int | None = None) -> Answer:
    """Find an answer in its paragraph: where it is said to be, or else the nearest place.

    Places that are whole tokens come before those within a token.

    Args:
        paragraph: Where to look.
        text: The answer.
        stated: The character at which it is said to start; without it the first place is taken.
    """
    found = [_placed(paragraph, text, start, stated) for start in _starts(paragraph.text, text)]
    return min(
        (answer for answer in found if answer.span is not None),
        key=lambda answer: (
            answer.repaired,
            answer.widened,
            abs((answer.start or 0) - (stated or 0)),
        ),
        default=Answer(text, None, None),
    )


def ask(
    question: str, paragraph: str | Paragraph, tokenizer: Tokenizer, *, id: str = "1"
) -> Question:
    """A question of one's own about a text of one's own, or about one that was asked about.

    Raises:
        ValueError: If one of them has no tokens, or is no text.
    """
    check_text(question, "the question")
    if isinstance(paragraph, str):
        check_text(paragraph, "the paragraph")
        paragraph = _paragraph("", paragraph, tokenizer, "the paragraph")
    return Question(id, question, _words(question, tokenizer, "the question"), paragraph)


def read_squad(
    path: str | Path, tokenizer: Tokenizer | None = None, *, labelled: bool = True
) -> list[Question]:
    """Questions of a SQuAD v1.1 file, in order; `.gz` is decompressed.

    Nothing is left out: an answer that its paragraph does not have stays, with no span (`report`
    counts these). A file to be answered may lack `answers`.

    Args:
        path: JSON of SQuAD's form.
        tokenizer: How to split paragraphs and questions; English by default.
        labelled: Whether answers are read; otherwise they are passed over.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not of SQuAD's form: the place in the file is named, and what is
            wanted there.
    """
    tokenizer = Tokenizer() if tokenizer is None else tokenizer
    content = checked(read_json(path), dict, f"{path}")
    questions: list[Question] = []
    places: dict[str, str] = {}
    for article, in_data in _items(content, "data", f"{path}"):
        title = field(article, "title", str, in_data) if "title" in article else ""
        for record, in_article in _items(article, "paragraphs", in_data):
            text = field(record, "context", str, in_article)
            paragraph = _paragraph(title, text, tokenizer, f'{in_article}: "context"')
            for qa, where in _items(record, "qas", in_article):
                question = _read_question(qa, paragraph, tokenizer, where, labelled=labelled)
                if question.id in places:
                    raise ValueError(
                        f'{where}: "id" is "{question.id}" as in {places[question.id]}, but '
                        "predictions are told apart by it: give each question its own"
                    )
                places[question.id] = where.removeprefix(f"{path}, ")
                questions.append(question)
    if not questions:
        raise ValueError(f"{path}: has no questions, but at least one is wanted")
    return questions


def gold_texts(questions: Sequence[Question]) -> dict[str, list[str]]:
    """Every acceptable answer to each question, by its id; those without answers are left out."""
    return {
        question.id: [answer.text for answer in question.answers]
        for question in questions
        if question.answers is not None
    }


def read_predictions(path: str | Path) -> dict[str, str]:
    """Answers by the id of their question, as `evaluate-v1.1.py` takes them.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not one JSON object with strings in it.
    """
    answers = checked(read_json(path), dict, f"{path}")
    return {id: field(answers, id, str, f"{path}") for id in answers}


def write_predictions(path: str | Path, answers: Mapping[str, str]) -> None:
    """Write answers by the id of their question, for `evaluate-v1.1.py`.

    What is not ASCII is escaped, as the script reads files in the encoding of the machine.
    """
    write_lines(path, [json.dumps(dict(answers), indent=0)])


def _read_question(
    record: Mapping[str, Any],
    paragraph: Paragraph,
    tokenizer: Tokenizer,
    where: str,
    *,
    labelled: bool,
) -> Question:
    id, text = field(record, "id", str, where), field(record, "question", str, where)
    tokens = _words(text, tokenizer, f'{where}: "question"')
    if not labelled or "answers" not in record:
        return Question(id, text, tokens, paragraph)
    answers = tuple(
        place_answer(
            paragraph,
            field(answer, "text", str, place),
            field(answer, "answer_start", int, place) if "answer_start" in answer else None,
        )
        for answer, place in _items(record, "answers", where)
    )
    if not answers:
        raise ValueError(
            f'{where}: "answers" is empty, but in SQuAD v1.1 every question has an answer: take '
            'the question out, or leave "answers" out if they are not known'
        )
    return Question(id, text, tokens, paragraph, answers)


def _items(
    record: Mapping[str, Any], name: str, where: str
) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects in a list of the record, each with its place."""
    joint = "." if where.endswith("]") else ", "
    for i, item in enumerate(field(record, name, list, where)):
        place = f"{where}{joint}{name}[{i}]"
        yield checked(item, dict, place), place


def _paragraph(title: str, text: str, tokenizer: Tokenizer, where: str) -> Paragraph:
    return Paragraph(title, text, _tokens(text, tokenizer, where))


def _words(text: str, tokenizer: Tokenizer, where: str) -> tuple[str, ...]:
    return tuple(token.text for token in _tokens(text, tokenizer, where))


def _tokens(text: str, tokenizer: Tokenizer, where: str) -> tuple[Token, ...]:
    tokens = tuple(fine_tokens(text, tokenizer))
    if not tokens:
        raise ValueError(f"{where} is {text!r}, but a text with at least one token is wanted")
    return tokens


def _starts(text: str, part: str) -> Iterator[int]:
    """Every character at which a part of the text starts; white space alone has no place."""
    at = text.find(part) if part.strip() else -1
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _placed(paragraph: Paragraph, text: str, at: int, stated: int | None) -> Answer:
    """The answer that starts at this character, as whole tokens."""
    start = at + len(text) - len(text.lstrip())
    end = at + len(text.rstrip())
    first = bisect_right(paragraph.tokens, start, key=lambda token: token.end)
    last = bisect_left(paragraph.tokens, end, key=lambda token: token.start) - 1
    if first > last:
        return Answer(text, None, None)
    widened = paragraph.tokens[first].start < start or paragraph.tokens[last].end > end
    return Answer(text, at, (first, last), at != stated, widened)
