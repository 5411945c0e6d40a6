"""The tasks of classification, as recipes name them: one reader, metric and writer for all."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from elmo.encoders.tfidf import Tfidf
from elmo.tasks.classification.data import (
    LabelledText,
    have_several_labels,
    known_labels,
    read_texts,
    unknown_labels,
    write_texts,
)
from elmo.tasks.classification.model import (
    LabelsConfig,
    Pooled,
    PooledConfig,
    TextBatch,
    TextClassifier,
)
from elmo.tasks.classification.score import score_labels
from elmo.tasks.documents import documents_of
from elmo.tasks.features import Features
from elmo.tasks.task import warn_of_unknown
from elmo.tasks.token_input import TokenInput
from elmo.text import Tokenizer, read_lines

logger = logging.getLogger(__name__)


class Classification(ABC):
    """One or several labels for each text; each network makes it a task of its own.

    Attributes:
        name: As recipes name it.
        settings: The dataclass of the network's settings.
    """

    name: str
    settings: type[LabelsConfig]

    @abstractmethod
    def model(self, settings: Any, inputs: TokenInput, labels: Mapping[str, Any]) -> TextClassifier:
        """A network with new weights."""

    def metric(self, labels: Mapping[str, Any]) -> str:
        """The accuracy of one label; where there may be several, the mean of the labels' F1."""
        return "f1_macro" if labels["several"] else "accuracy"

    def read(
        self, path: Path, settings: LabelsConfig, *, labelled: bool = True
    ) -> list[LabelledText]:
        """Texts: trees' sentences, tab-separated values, or JSON lines."""
        return read_texts(path, labelled=labelled, several=settings.several)

    def read_training(self, path: Path, settings: LabelsConfig) -> list[LabelledText]:
        """Texts to learn from; with `phrases` each phrase of a tree that is long enough."""
        texts = read_texts(path, several=settings.several, phrases=settings.phrases)
        if settings.phrases:
            texts = [text for text in texts if len(text.tokens) >= settings.min_phrase]
        return texts

    def read_text(self, path: Path, tokenizer: Tokenizer) -> list[LabelledText]:
        """A text per line; lines without tokens are left out."""
        lines = (
            (line, tuple(token.text for token in tokenizer(line))) for line in read_lines(path)
        )
        return [LabelledText(tokens, text=line) for line, tokens in lines if tokens]

    def texts(self, example: LabelledText) -> Sequence[Sequence[str]]:
        """The text."""
        return (example.tokens,)

    def labels(self, examples: Sequence[LabelledText], settings: LabelsConfig) -> dict[str, Any]:
        """All labels, and whether a text may have several.

        Raises:
            ValueError: If there are none; if a text has several, and the settings say that none
                may.
        """
        known = known_labels(examples)
        if not known:
            raise ValueError("no text of the training data has a label")
        found = have_several_labels(examples)
        if settings.several is False and found:
            text = next(text for text in examples if len(text.labels or ()) > 1)
            raise ValueError(
                f"the text {text.text[:40]!r} has the labels {', '.join(text.labels or ())}, but "
                "model.several is false: give one label each, or leave several out"
            )
        several = found if settings.several is None else settings.several
        return {"labels": known, "several": several}

    def settled(self, settings: LabelsConfig, labels: Mapping[str, Any]) -> LabelsConfig:
        """With `several` as the training data has it."""
        return replace(settings, several=labels["several"])

    def check(self, examples: Sequence[LabelledText], labels: Mapping[str, Any]) -> None:
        """Warn of labels that the training data has not, and of several where one is given."""
        unknown = unknown_labels(examples, labels["labels"])
        warn_of_unknown(
            unknown,
            "%s labels of texts are not in the training data: %s; they count as wrong",
        )
        n_several = sum(len(text.labels or ()) > 1 for text in examples)
        if n_several and not labels["several"]:
            logger.warning(
                "%s texts have several labels, but the model gives one: they count as wrong",
                f"{n_several:,}",
            )

    def batch(
        self, examples: Sequence[LabelledText], features: Features, labels: Mapping[str, Any]
    ) -> TextBatch:
        """Texts, and their labels where these are known; others than the model's are left out."""
        sentences = features.batch([example.tokens for example in examples])
        if any(example.labels is None for example in examples):
            return TextBatch(sentences, None)
        numbers = {label: i for i, label in enumerate(labels["labels"])}
        targets = torch.zeros(len(examples), len(numbers))
        for i, example in enumerate(examples):
            for label in example.labels or ():
                if label in numbers:
                    targets[i, numbers[label]] = 1.0
        return TextBatch(sentences, targets)

    def score(
        self,
        examples: Sequence[LabelledText],
        predictions: Sequence[Sequence[str]],
        labels: Mapping[str, Any],
    ) -> dict[str, float]:
        """Accuracy, means of F1, and each label's scores; see `LabelScore`."""
        return score_labels([_labels(example) for example in examples], predictions).metrics

    def report(
        self,
        examples: Sequence[LabelledText],
        predictions: Sequence[Sequence[str]],
        labels: Mapping[str, Any],
    ) -> str:
        """The same as scikit-learn's `classification_report`."""
        return score_labels([_labels(example) for example in examples], predictions).report

    def write(
        self,
        path: Path,
        examples: Sequence[LabelledText],
        predictions: Sequence[Sequence[str]],
    ) -> None:
        """Texts with predicted labels, `.jsonl` or tab-separated values."""
        write_texts(path, examples, predictions)


def _labels(example: LabelledText) -> tuple[str, ...]:
    if example.labels is None:
        raise ValueError(f"the text {example.text[:40]!r} has no labels")
    return example.labels


class PooledClassification(Classification):
    """Labels by the mean of a text's vectors."""

    name = "classification"
    settings = PooledConfig

    def fit_documents(self, examples: Sequence[LabelledText], settings: PooledConfig) -> Tfidf:
        """The terms of training texts; see `elmo.tasks.documents`."""
        return Tfidf.fit([example.tokens for example in examples], settings.tfidf)

    def model(
        self, settings: PooledConfig, inputs: TokenInput, labels: Mapping[str, Any]
    ) -> Pooled:
        """See `Classification`."""
        return Pooled(
            settings,
            inputs,
            labels["labels"],
            several=labels["several"],
            documents=documents_of(labels),
        )


TASK = PooledClassification()
