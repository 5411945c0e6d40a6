"""What a run is known by: recipe, text and start, which another must share to go on with it."""

import json
import logging
import zlib
from collections.abc import Mapping
from typing import Any

import torch

from elmo.checkpoints.folder import Checkpoint
from elmo.config import config_to_dict
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.processes import Processes
from elmo.pretrain.recipe import PretrainRecipe
from elmo.text import Vocabulary
from elmo.training_state import TrainingState

logger = logging.getLogger(__name__)

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
PARTS = {
    "corpus": "what is read",
    "heldout": "what is held out",
    "start": "the model to start from",
}
"""What is compared beside the recipe, as messages call it. What one side does not know is no
difference: an older version did not write it."""


def identity(
    recipe: PretrainRecipe,
    corpus: Corpus,
    heldout: Corpus | None,
    origin: Checkpoint | None,
    processes: Processes,
) -> dict[str, Any]:
    """What a run that goes on has to have in common with the run before."""
    return {
        "recipe": {**config_to_dict(recipe), "n_processes": processes.n},
        "corpus": {
            **_text(corpus),
            "types": len(corpus.types),
            "vocabulary": (
                f"{len(corpus.vocabulary)} words, checksum {_of_words(corpus.vocabulary):08x}"
            ),
        },
        "heldout": None if heldout is None else _text(heldout),
        "start": None if origin is None else _start(origin),
    }


def circumstances() -> dict[str, Any]:
    """What may be another when a run goes on, but then rounds in another way."""
    return {"threads": torch.get_num_threads(), "torch": str(torch.__version__)}


def check_continues(state: TrainingState, now: Mapping[str, Any]) -> None:
    """Refuse to go on with a run by another recipe, on another corpus or from another model.

    Args:
        state: Of the run.
        now: What the run is known by now, as `identity` says.

    Raises:
        ValueError: If anything differs that would have made another model; the differences are
            named.
    """
    recipe, others = _flat(state.about["recipe"]), _flat(now["recipe"])
    differences = [
        f"{key} was {recipe.get(key)!r} and is {others.get(key)!r}"
        for key in sorted(recipe.keys() | others.keys())
        if recipe.get(key) != others.get(key) and not key.startswith(MAY_CHANGE)
    ]
    for part, name in PARTS.items():
        before, after = _flat(state.about.get(part) or {}), _flat(now[part] or {})
        differences += [
            f"{name}.{key} was {before[key]!r} and is {after[key]!r}"
            for key in sorted(before.keys() & after.keys())
            if before[key] != after[key] and None not in (before[key], after[key])
        ]
    if differences:
        raise ValueError(
            f"the run cannot go on by another recipe: {'; '.join(differences)}. Give the settings "
            "it began with, or another output"
        )


def warn_of_rounding(state: TrainingState) -> None:
    """Tell where a run goes on in circumstances that change the last bits."""
    differences = [
        f"{name} was {state.about[name]} and is {value}"
        for name, value in circumstances().items()
        if state.about.get(name, value) != value
    ]
    if differences:
        logger.warning(
            "%s: the model will not be the same to the last bit as if the run had never stopped",
            "; ".join(differences),
        )


def _text(corpus: Corpus) -> dict[str, Any]:
    return {
        "sentences": corpus.n_sentences,
        "tokens": corpus.n_tokens,
        "checksum": corpus.checksum,
    }


def _start(origin: Checkpoint) -> dict[str, Any]:
    weights = 0 if origin.vocabulary is None else _of_words(origin.vocabulary)
    for module in (origin.bilm, origin.softmax):
        for tensor in () if module is None else module.state_dict().values():
            weights = zlib.crc32(tensor.contiguous().numpy(), weights)
    return {"config": config_to_dict(origin.bilm.config), "weights": f"{weights:08x}"}


def _of_words(vocabulary: Vocabulary) -> int:
    return zlib.crc32("\n".join(vocabulary.words).encode("utf-8"))


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.loads(json.dumps(value))
    return flat
