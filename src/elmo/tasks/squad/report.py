"""How well answers fit the tokens of their paragraphs."""

from collections.abc import Sequence
from typing import NamedTuple

from elmo.tasks.squad.data import Question


class AnswerReport(NamedTuple):
    """How well the answers fit their paragraphs' tokens.

    Attributes:
        questions: Questions.
        answers: Gold answers to them.
        repaired: Answers without a place or with a wrong one, whose text was found.
        widened: Answers that are part of a token at an end.
        absent: Answers whose text the paragraph does not have.
        without_span: Questions with answers, all of them absent: none to learn from.
        longest: Tokens of the longest paragraph.
        too_long: Questions about paragraphs of more tokens than the limit.
        beyond: Questions whose first answer ends beyond the limit.
    """

    questions: int
    answers: int
    repaired: int
    widened: int
    absent: int
    without_span: int
    longest: int
    too_long: int
    beyond: int

    def __str__(self) -> str:
        """One line for a log."""
        return (
            f"{self.questions:,} questions, {self.answers:,} answers: {self.repaired:,} moved to "
            f"where their text is, {self.widened:,} widened to whole tokens, {self.absent:,} not "
            f"in their paragraph ({self.without_span:,} questions have no other); paragraphs of "
            f"up to {self.longest:,} tokens, {self.too_long:,} questions about longer ones than "
            f"the limit, {self.beyond:,} answered beyond it"
        )


def report(questions: Sequence[Question], *, max_tokens: int | None = None) -> AnswerReport:
    """Count what does not fit; `max_tokens` is the limit of a paragraph's tokens."""
    limit = float("inf") if max_tokens is None else max_tokens
    answers = [answer for question in questions for answer in question.answers or ()]
    spans = [question.span for question in questions]
    lengths = [len(question.paragraph.tokens) for question in questions]
    return AnswerReport(
        questions=len(questions),
        answers=len(answers),
        repaired=sum(answer.repaired for answer in answers),
        widened=sum(answer.widened for answer in answers),
        absent=sum(answer.span is None for answer in answers),
        without_span=sum(
            question.answers is not None and span is None
            for question, span in zip(questions, spans, strict=True)
        ),
        longest=max(lengths, default=0),
        too_long=sum(length > limit for length in lengths),
        beyond=sum(span is not None and span[1] >= limit for span in spans),
    )
