"""The task of entailment, as recipes name it."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from elmo.tasks.attention import check_attended
from elmo.tasks.features import Features
from elmo.tasks.snli.data import (
    NO_CONSENSUS,
    Pair,
    agreed,
    read_pairs,
    read_text_pairs,
    write_pairs,
)
from elmo.tasks.snli.model import NO_LABEL, Esim, EsimConfig, PairBatch
from elmo.tasks.snli.score import score
from elmo.tasks.task import warn_of_unknown
from elmo.tasks.token_input import TokenInput
from elmo.text import Tokenizer

logger = logging.getLogger(__name__)


class Snli:
    """A label for each pair of sentences: does the second follow from the first?"""

    name = "snli"
    settings = EsimConfig

    def metric(self, labels: Mapping[str, Any]) -> str:
        """The accuracy."""
        return "accuracy"

    def read(self, path: Path, settings: EsimConfig, *, labelled: bool = True) -> list[Pair]:
        """Pairs: JSON lines, or a table of SNLI or SICK.

        Labelled pairs on which the annotators did not agree are left out, and their number told.
        """
        pairs = read_pairs(path, Tokenizer(settings.language), labelled=labelled)
        if not labelled:
            return pairs
        kept, n_left_out = agreed(pairs)
        if n_left_out:
            logger.warning(
                '%s: %s of %s pairs are left out: their label is "%s", which says that the '
                "annotators did not agree",
                path,
                f"{n_left_out:,}",
                f"{len(pairs):,}",
                NO_CONSENSUS,
            )
        return kept

    def read_text(self, path: Path, tokenizer: Tokenizer) -> list[Pair]:
        """A pair per line, with a tab between premise and hypothesis."""
        return read_text_pairs(path, tokenizer)

    def texts(self, example: Pair) -> Sequence[Sequence[str]]:
        """Premise and hypothesis."""
        return (example.premise, example.hypothesis)

    def labels(self, examples: Sequence[Pair], settings: EsimConfig) -> dict[str, Any]:
        """All labels, by the alphabet."""
        return {"labels": sorted({_label(example) for example in examples})}

    def check(self, examples: Sequence[Pair], labels: Mapping[str, Any]) -> None:
        """Warn of labels that the training data has not."""
        counts = Counter(_label(example) for example in examples)
        unknown = Counter({k: n for k, n in counts.items() if k not in labels["labels"]})
        warn_of_unknown(
            unknown,
            "%s pairs have labels that the training data has not: %s; they count as wrong",
        )

    def check_lengths(self, examples: Sequence[Pair], labels: Mapping[str, Any]) -> None:
        """Refuse sentences that are too long for attention."""
        for example in examples:
            check_attended(self.texts(example))

    def model(self, settings: EsimConfig, inputs: TokenInput, labels: Mapping[str, Any]) -> Esim:
        """An ESIM."""
        return Esim(settings, inputs, labels["labels"])

    def batch(
        self, examples: Sequence[Pair], features: Features, labels: Mapping[str, Any]
    ) -> PairBatch:
        """Both sentences of each pair, and the numbers of the labels where these are known."""
        premises = [example.premise for example in examples]
        sentences = features.batch([*premises, *(example.hypothesis for example in examples)])
        if any(example.label is None for example in examples):
            return PairBatch(sentences, None)
        numbers = {label: i for i, label in enumerate(labels["labels"])}
        known = [numbers.get(_label(example), NO_LABEL) for example in examples]
        return PairBatch(sentences, torch.tensor(known))

    def score(
        self, examples: Sequence[Pair], predictions: Sequence[str], labels: Mapping[str, Any]
    ) -> dict[str, float]:
        """Accuracy, and precision, recall and F1 of each label."""
        return score([_label(example) for example in examples], predictions)

    def write(self, path: Path, examples: Sequence[Pair], predictions: Sequence[str]) -> None:
        """SNLI's JSON lines, with a `predicted_label`."""
        write_pairs(path, examples, predictions)


def _label(example: Pair) -> str:
    if example.label is None:
        raise ValueError(f"the pair {example.id!r} has no label")
    return example.label


TASK = Snli()
