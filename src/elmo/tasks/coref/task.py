"""The task of coreference resolution, as recipes name it."""

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from elmo.tasks.coref.batch import CorefBatch, ReadDocument
from elmo.tasks.coref.data import Clusters, Document, check_names, read_coref, write_coref
from elmo.tasks.coref.model import CorefConfig, SpanRanker
from elmo.tasks.coref.score import score
from elmo.tasks.features import Features
from elmo.tasks.token_input import TokenInput
from elmo.text import Tokenizer, read_lines

logger = logging.getLogger(__name__)


class Coreference:
    """Clusters of the mentions of a document, by the mean of MUC, B³ and CEAFφ4."""

    name = "coref"
    settings = CorefConfig

    def metric(self, labels: Mapping[str, Any]) -> str:
        """The mean F1 of CoNLL-2012."""
        return "conll_f1"

    def read(self, path: Path, settings: CorefConfig, *, labelled: bool = True) -> list[Document]:
        """Documents in CoNLL-2012's format."""
        return read_coref(path, labelled=labelled)

    def read_text(self, path: Path, tokenizer: Tokenizer) -> list[Document]:
        """The file as one document, in sentences that end at `.`, `!`, `?` and at the line's end.

        Raises:
            ValueError: If it holds no token.
        """
        found = chain.from_iterable(map(tokenizer.sentences, read_lines(path)))
        sentences = tuple(map(tuple, found))
        if not sentences:
            raise ValueError(f"{path}: holds no word, but expected the text of a document")
        return [Document(Path(path).name.partition(".")[0] or "document", sentences)]

    def texts(self, example: Document) -> Sequence[Sequence[str]]:
        """The sentences."""
        return example.sentences

    def labels(self, examples: Sequence[Document], settings: CorefConfig) -> dict[str, Any]:
        """Kinds of documents, whether there are singletons, and how long a document may be.

        Raises:
            ValueError: If no document has a cluster.
        """
        clusters = [cluster for example in examples for cluster in _clusters(example)]
        if not clusters:
            raise ValueError("the training data has no mention in any document")
        spans = [span for cluster in clusters for span in cluster]
        n_wide = sum(end - start > settings.max_width for start, end in spans)
        if n_wide:
            logger.warning(
                "%s of %s training mentions have more than %d tokens and cannot be found: "
                "model.max_width says how many",
                *(f"{n_wide:,}", f"{len(spans):,}", settings.max_width),
            )
        singletons = settings.singletons
        if singletons is None:
            singletons = any(len(cluster) == 1 for cluster in clusters)
        return {
            "genres": sorted({example.genre for example in examples} - {""}),
            "singletons": singletons,
            "max_tokens": settings.max_tokens,
        }

    def check_lengths(self, examples: Sequence[Document], labels: Mapping[str, Any]) -> None:
        """Refuse documents of more than `max_tokens` tokens.

        Raises:
            ValueError: If there is one.
        """
        for example in examples:
            n, most = len(example.tokens), labels["max_tokens"]
            if n > most:
                raise ValueError(
                    f"document {example.name} has {n:,} tokens, but at most {most:,} can be read: "
                    "split it, or train with a larger model.max_tokens"
                )

    def check(self, examples: Sequence[Document], labels: Mapping[str, Any]) -> None:
        """Warn of singletons that are never found, and of documents without any mention."""
        if examples and not any(_clusters(example) for example in examples):
            logger.warning("no document has a mention in its last column: every score is 0")
        n = sum(len(cluster) == 1 for example in examples for cluster in _clusters(example))
        if n and not labels["singletons"]:
            logger.warning(
                "%s clusters have one mention, but the model finds none such: they count as missed",
                f"{n:,}",
            )

    def model(
        self, settings: CorefConfig, inputs: TokenInput, labels: Mapping[str, Any]
    ) -> SpanRanker:
        """A biLSTM and scores of spans and pairs."""
        singletons = labels["singletons"]
        return SpanRanker(settings, inputs, len(labels["genres"]), singletons=singletons)

    def batch(
        self, examples: Sequence[Document], features: Features, labels: Mapping[str, Any]
    ) -> CorefBatch:
        """Documents."""
        return CorefBatch(
            tuple(ReadDocument.of(each, features.batch, labels["genres"]) for each in examples)
        )

    def score(
        self,
        examples: Sequence[Document],
        predictions: Sequence[Clusters],
        labels: Mapping[str, Any],
    ) -> dict[str, float]:
        """As the reference scorer v8.01 counts."""
        return score([_clusters(example) for example in examples], predictions)

    def check_names(self, examples: Sequence[Document]) -> None:
        """Documents are found by name and part.

        Raises:
            ValueError: If two have the same.
        """
        check_names(examples)

    def write(
        self, path: Path, examples: Sequence[Document], predictions: Sequence[Clusters]
    ) -> None:
        """What the reference scorer reads."""
        write_coref(path, examples, predictions)


def _clusters(document: Document) -> Clusters:
    if document.clusters is None:
        raise ValueError(f"the clusters of document {document.name} are not known")
    return document.clusters


TASK = Coreference()
