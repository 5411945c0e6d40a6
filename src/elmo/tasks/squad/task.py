"""The task of answering questions by a span of a paragraph, as recipes name it."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo.tasks.features import Features
from elmo.tasks.squad.batch import SquadBatch, window_of_answers
from elmo.tasks.squad.data import (
    Paragraph,
    Question,
    ask,
    gold_texts,
    read_squad,
    write_predictions,
)
from elmo.tasks.squad.model import Reader, SquadConfig
from elmo.tasks.squad.report import report
from elmo.tasks.squad.score import score
from elmo.tasks.token_input import TokenInput
from elmo.text import Tokenizer, read_lines

logger = logging.getLogger(__name__)


class Squad:
    """An answer to each question, cut from its paragraph: exact match and F1 of SQuAD v1.1."""

    name = "squad"
    settings = SquadConfig

    def metric(self, labels: Mapping[str, Any]) -> str:
        """F1 of answers' words."""
        return "f1"

    def read(self, path: Path, settings: SquadConfig, *, labelled: bool = True) -> list[Question]:
        """Questions of a JSON file of SQuAD v1.1."""
        questions = read_squad(path, Tokenizer(settings.language), labelled=labelled)
        unanswered = [question.id for question in questions if question.answers is None]
        if labelled and unanswered:
            raise ValueError(
                f'{path}: {len(unanswered):,} of {len(questions):,} questions have no "answers", '
                f'the first of them "{unanswered[0]}", but answers are wanted to learn from and to '
                "measure on"
            )
        return questions

    def read_text(self, path: Path, tokenizer: Tokenizer) -> list[Question]:
        """A paragraph and a question about it on each line, with a tab between them.

        A question's id is the number of its line; empty lines are none.
        """
        questions: list[Question] = []
        paragraphs: dict[str, Paragraph] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip():
                continue
            columns = line.split("\t")
            if len(columns) != 2:
                raise ValueError(
                    f"{path}, line {number}: has {len(columns)} columns, but 2 are wanted: a "
                    "paragraph, a tab, and a question about it"
                )
            text, asked = columns
            try:
                question = ask(asked, paragraphs.get(text, text), tokenizer, id=str(number))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            paragraphs[text] = question.paragraph
            questions.append(question)
        return questions

    def texts(self, example: Question) -> Sequence[Sequence[str]]:
        """The whole paragraph, as one sequence, and the question."""
        return (example.paragraph.words, example.tokens)

    def labels(self, examples: Sequence[Question], settings: SquadConfig) -> dict[str, Any]:
        """How much is read at once.

        Raises:
            ValueError: If no question has an answer to learn from.
        """
        limit = settings.max_context
        taught = sum(window_of_answers(example, limit) is not None for example in examples)
        logger.info("training: %s", report(examples, max_tokens=limit))
        if not taught:
            raise ValueError(
                f"none of {len(examples):,} training questions has an answer that is in its "
                "paragraph: there is nothing to learn from"
            )
        if taught < len(examples):
            logger.warning(
                "%d of %d training questions are not learned from: their answer is not in the "
                "paragraph, or longer than half of max_context (%d tokens)",
                len(examples) - taught,
                len(examples),
                limit,
            )
        return {"max_context": limit}

    def check(self, examples: Sequence[Question], labels: Mapping[str, Any]) -> None:
        """Warn of answers that are not in their paragraph, and of paragraphs read in windows."""
        limit = labels["max_context"]
        found = report(examples, max_tokens=limit)
        if found.absent:
            logger.warning(
                "%d of %d gold answers are not in their paragraph, so that no span is the same; "
                "%d questions have no other",
                found.absent,
                found.answers,
                found.without_span,
            )
        if found.too_long:
            logger.warning(
                "%d of %d questions are about paragraphs of more than %d tokens (up to %d), which "
                "are read in windows",
                found.too_long,
                found.questions,
                limit,
                found.longest,
            )

    def model(self, settings: SquadConfig, inputs: TokenInput, labels: Mapping[str, Any]) -> Reader:
        """The improved BiDAF."""
        return Reader(settings, inputs)

    def batch(
        self, examples: Sequence[Question], features: Features, labels: Mapping[str, Any]
    ) -> SquadBatch:
        """Questions, and the windows of their paragraphs."""
        return SquadBatch.of(examples, features, max_context=labels["max_context"])

    def score(
        self, examples: Sequence[Question], predictions: Sequence[str], labels: Mapping[str, Any]
    ) -> dict[str, float]:
        """As `evaluate-v1.1.py` counts."""
        # By their order: several files may have the same ids.
        gold = {str(i): gold_texts([example])[example.id] for i, example in enumerate(examples)}
        return score(gold, {str(i): answer for i, answer in enumerate(predictions)})

    def check_names(self, examples: Sequence[Question]) -> None:
        """Questions are found by their ids.

        Raises:
            ValueError: If two, of several files, have the same.
        """
        if n := len(examples) - len({question.id for question in examples}):
            raise ValueError(
                f"{n:,} questions have the id of another, but answers are told apart by it: write "
                "those of each file on their own"
            )

    def write(self, path: Path, examples: Sequence[Question], predictions: Sequence[str]) -> None:
        """JSON of answers by the id of their question, which `evaluate-v1.1.py` reads.

        Raises:
            ValueError: As `check_names`.
        """
        self.check_names(examples)
        write_predictions(
            path, {q.id: answer for q, answer in zip(examples, predictions, strict=True)}
        )


TASK = Squad()
