"""The task of tagging, as recipes name it."""

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from elmo.tagged import TaggedSentence, read_tagged
from elmo.tasks.features import Features
from elmo.tasks.tag_spans import are_span_tags, is_broken, rewritten, scheme_tags, split_tag
from elmo.tasks.tagging.data import (
    repaired,
    span_labels,
    unknown_tags,
    write_tagged,
)
from elmo.tasks.tagging.model import Tagger, TaggingBatch, TaggingConfig
from elmo.tasks.tagging.score import TagScore, score_tags
from elmo.tasks.task import warn_of_unknown
from elmo.tasks.token_input import TokenInput
from elmo.text import Tokenizer, read_lines

logger = logging.getLogger(__name__)


class Tagging:
    """A tag for each token: spans by F1 as conlleval counts it, others by accuracy."""

    name = "tagging"
    settings = TaggingConfig

    def metric(self, labels: Mapping[str, Any]) -> str:
        """`f1` of spans, or the accuracy of tags that write none."""
        return "f1" if labels["spans"] else "accuracy"

    def read(
        self, path: Path, settings: TaggingConfig, *, labelled: bool = True
    ) -> list[TaggedSentence]:
        """Tagged sentences: columns, or CoNLL-U."""
        return read_tagged(path, column=settings.column, labelled=labelled)

    def read_text(self, path: Path, tokenizer: Tokenizer) -> list[TaggedSentence]:
        """A sentence per line; lines without tokens are left out."""
        sentences = ([token.text for token in tokenizer(line)] for line in read_lines(path))
        return [TaggedSentence(tuple(tokens)) for tokens in sentences if tokens]

    def texts(self, example: TaggedSentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return (example.tokens,)

    def labels(self, examples: Sequence[TaggedSentence], settings: TaggingConfig) -> dict[str, Any]:
        """Whether tags write spans, and all tags."""
        found = sorted(set(chain.from_iterable(_tags(example) for example in examples)))
        if not are_span_tags(found):
            _warn_of_mixed(found)
            return {"spans": False, "tags": found}
        _, n_changed = repaired(examples)
        if n_changed:
            logger.warning(
                "%d of %d training sentences were not in BIO: their spans are read as conlleval "
                "reads them",
                n_changed,
                len(examples),
            )
        return {"spans": True, "tags": scheme_tags(span_labels(examples), settings.scheme)}

    def check(self, examples: Sequence[TaggedSentence], labels: Mapping[str, Any]) -> None:
        """Warn of tags that the training data does not have.

        Raises:
            ValueError: If those of the training data write spans, and one here does not.
        """
        known = labels["tags"]
        if labels["spans"]:
            for example in examples:
                _check_span_tags(example)
            n_broken = sum(is_broken(_tags(example)) for example in examples)
            if n_broken:
                logger.warning(
                    "%s of %s sentences have tags that are neither BIO nor BIOES: their spans are "
                    "those that conlleval reads",
                    f"{n_broken:,}",
                    f"{len(examples):,}",
                )
            known = [*known, *(tag for scheme in ("BIO", "BIOES") for tag in _in(scheme, known))]
        unknown = unknown_tags(examples, known)
        warn_of_unknown(
            unknown,
            "%s tokens have tags that the training data has not: %s; they count as wrong",
        )

    def model(
        self, settings: TaggingConfig, inputs: TokenInput, labels: Mapping[str, Any]
    ) -> Tagger:
        """A biLSTM and a CRF, or a softmax where tags write no spans."""
        return Tagger(settings, inputs, labels["tags"], spans=labels["spans"])

    def batch(
        self, examples: Sequence[TaggedSentence], features: Features, labels: Mapping[str, Any]
    ) -> TaggingBatch:
        """Sentences, and the numbers of their tags where these are known."""
        numbers = {tag: i for i, tag in enumerate(labels["tags"])}
        tags = None
        if all(example.tags is not None for example in examples):
            tags = [
                [numbers.get(tag, 0) for tag in self._trained(example, labels)]
                for example in examples
            ]
        return TaggingBatch.of(features.batch([e.tokens for e in examples]), tags)

    def score(
        self,
        examples: Sequence[TaggedSentence],
        predictions: Sequence[Sequence[str]],
        labels: Mapping[str, Any],
    ) -> dict[str, float]:
        """As conlleval counts."""
        return _score(examples, predictions, labels).metrics()

    def report(
        self,
        examples: Sequence[TaggedSentence],
        predictions: Sequence[Sequence[str]],
        labels: Mapping[str, Any],
    ) -> str:
        """As conlleval prints it."""
        return _score(examples, predictions, labels).report()

    def write(
        self,
        path: Path,
        examples: Sequence[TaggedSentence],
        predictions: Sequence[Sequence[str]],
    ) -> None:
        """What conlleval reads; CoNLL-U where the file that was to be tagged was."""
        write_tagged(path, examples, predictions)

    def _trained(self, example: TaggedSentence, labels: Mapping[str, Any]) -> Sequence[str]:
        if not labels["spans"]:
            return _tags(example)
        bioes = any(split_tag(tag)[0] in "ES" for tag in labels["tags"])
        return rewritten(_tags(example), "BIOES" if bioes else "BIO")


def _check_span_tags(example: TaggedSentence) -> None:
    try:
        for tag in _tags(example):
            split_tag(tag)
    except ValueError as error:
        where = example.where or f"the sentence {' '.join(example.tokens[:8])!r}"
        raise ValueError(f"{where}: {error}; the model finds spans") from None


def _warn_of_mixed(tags: Sequence[str]) -> None:
    """Warn of tags of which only some write spans: what is meant may be spans, and a slip."""
    others = [tag for tag in tags if not are_span_tags([tag])]
    if any(tag[:2] in ("B-", "I-") for tag in tags):
        logger.warning(
            "tags are learned and measured each on its own, not as spans, as %d of %d write none: "
            "%s; if spans are meant, put these right",
            len(others),
            len(tags),
            ", ".join(others[:5]),
        )


def _score(
    examples: Sequence[TaggedSentence],
    predictions: Sequence[Sequence[str]],
    labels: Mapping[str, Any],
) -> TagScore:
    right = [_tags(example) for example in examples]
    return score_tags(right, predictions, spans=labels["spans"])


def _tags(example: TaggedSentence) -> Sequence[str]:
    if example.tags is None:
        raise ValueError(f"the sentence {' '.join(example.tokens[:8])!r} has no tags")
    return example.tags


def _in(scheme: str, tags: Sequence[str]) -> list[str]:
    return scheme_tags({tag.partition("-")[2] for tag in tags if tag != "O"}, scheme)


TASK = Tagging()
