"""Recipes whose runs take seconds."""

from collections.abc import Mapping

from elmo.tasks.recipe import TaskRecipe, task_recipe


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
