"""What a run is known by: recipe and text, which another run must share to go on with it."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

from elmo.config import config_to_dict
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.processes import Processes
from elmo.pretrain.recipe import PretrainRecipe
from elmo.pretrain.training_state import TrainingState

MAY_CHANGE = (
    "output",
    "log.",
    "corpus.",
    "prepared",
    "validation.patience",
    "training.n_epochs",
    "training.n_tokens",
    "training.minutes",
    "training.device",
    "training.compile",
)
"""Settings, or tables of them, that may differ when a run goes on. The corpus is compared by what
is in it; another device or compiled arithmetic go on with other rounding."""


def identity(
    recipe: PretrainRecipe, corpus: Corpus, processes: Processes
) -> dict[str, dict[str, Any]]:
    """What a run that goes on has to have in common with the run before."""
    words = "\n".join(corpus.vocabulary.words).encode("utf-8")
    return {
        "recipe": {**config_to_dict(recipe), "n_processes": processes.n},
        "corpus": {
            "sentences": corpus.n_sentences,
            "tokens": corpus.n_tokens,
            "types": len(corpus.types),
            "vocabulary": f"{len(corpus.vocabulary)} words, checksum {zlib.crc32(words):08x}",
        },
    }


def check_continues(
    state: TrainingState, *, recipe: Mapping[str, Any], corpus: Mapping[str, Any]
) -> None:
    """Refuse to go on with a run by another recipe or on another corpus.

    Args:
        state: Of the run.
        recipe: The recipe now, as plain values.
        corpus: What the corpus is known by now.

    Raises:
        ValueError: If anything differs that would have made another model; the differences are
            named.
    """
    before = _flat({**state.about["recipe"], "what is read": state.about["corpus"]})
    now = _flat({**recipe, "what is read": corpus})
    differences = [
        f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not key.startswith(MAY_CHANGE)
    ]
    if differences:
        raise ValueError(
            f"the run cannot go on by another recipe: {'; '.join(differences)}. Give the settings "
            "it began with, or another output"
        )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.loads(json.dumps(value))
    return flat
