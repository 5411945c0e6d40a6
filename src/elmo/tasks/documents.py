"""TF-IDF in a task model: a vector of each whole example, beside those of its tokens.

Unlike other encoders it is fitted on the training data, so it is stored with the model, among what
that data says of the answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from elmo.config import config_from_dict, config_to_dict
from elmo.encoders.encoder import Encoder
from elmo.encoders.specification import TFIDF, open_encoders, read_specification
from elmo.encoders.tfidf import Tfidf, TfidfConfig


@runtime_checkable
class ReadsDocuments(Protocol):
    """A task whose models can take in a vector of a whole example."""

    def fit_documents(self, examples: Sequence[Any], settings: Any) -> Tfidf:
        """Choose and weigh terms by training examples."""


def open_token_encoders(task: object, specification: str, *, device: str) -> tuple[Encoder, ...]:
    """The encoders that are asked for, but for a `tfidf` that the task's models hold themselves.

    Raises:
        ValueError: As `open_encoders`, also for a `tfidf` that the task has no use for.
    """
    parts = read_specification(specification)
    if isinstance(task, ReadsDocuments):
        parts = tuple(part for part in parts if part.kind != TFIDF)
    return open_encoders(parts, device=device)


def fitted_documents(
    task: object, specification: str, examples: Sequence[Any], settings: Any
) -> dict[str, Any]:
    """What to add to a model's labels: the terms of training examples, if they are asked for."""
    if not any(part.kind == TFIDF for part in read_specification(specification)):
        return {}
    assert isinstance(task, ReadsDocuments)
    fitted = task.fit_documents(examples, settings)
    # Every float32 is a float64, which JSON gives back as it was.
    values = {"terms": fitted.terms, "weights": fitted.weights.tolist()}
    return {TFIDF: {"config": config_to_dict(fitted.config), **values}}


def documents_of(labels: Mapping[str, Any]) -> Tfidf | None:
    """What `fitted_documents` added to the labels, if anything."""
    if TFIDF not in labels:
        return None
    values = labels[TFIDF]
    config = config_from_dict(TfidfConfig, values["config"], TFIDF)
    return Tfidf(config, values["terms"], np.array(values["weights"], dtype=np.float32))
