"""Recipes whose runs take seconds, and networks of a few numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from elmo.tasks.features import Features, words_of
from elmo.tasks.input_config import InputConfig
from elmo.tasks.recipe import TaskRecipe, task_recipe
from elmo.tasks.task import Task
from elmo.tasks.token_input import TokenInput


def changed_recipe(values: Mapping[str, object], changes: Mapping[str, object]) -> TaskRecipe:
    """A recipe of one seed, few epochs and no encoder, with some values replaced.

    Args:
        values: What is not so.
        changes: `a.b=c` is written `a__b=c`.
    """
    recipe: dict[str, object] = {
        "encoder": "none",
        "seeds": [1],
        "training": {"batch_size": 4, "n_epochs": 12, "patience": 0, "device": "cpu"},
        **values,
    }
    for key, value in changes.items():
        *tables, name = key.split("__")
        table = recipe
        for part in tables:
            table = table.setdefault(part, {})  # type: ignore[assignment]
        table[name] = value
    return task_recipe(recipe, "toy")


def model_and_batch(
    task: Task, examples: Sequence[Any], settings: Any, char_filters: int = 0
) -> tuple[Any, Any]:
    """A task's network with new weights, and the examples as it reads them; no encoder."""
    sentences = [sentence for example in examples for sentence in task.texts(example)]
    vocabulary = words_of(sentences, min_count=1, lowercase=False)
    labels = task.labels(examples, settings)
    torch.manual_seed(1)
    own = InputConfig(word_dim=5, char_filters=char_filters, dropout=0.0)
    model = task.model(settings, TokenInput(own, len(vocabulary)), labels)
    return model, task.batch(examples, Features(vocabulary), labels)
