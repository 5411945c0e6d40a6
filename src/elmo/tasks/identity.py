"""What a run is known by: recipe, data and encoders, which another must share to go on with it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmo.config import config_to_dict
from elmo.encoders.encoder import Encoder, record
from elmo.tasks.recipe import DataConfig, TaskRecipe

NOT_OF_RESULTS = ("output", "cache", "cache_gb", "seeds", "tensorboard")
"""Settings of a recipe that change no result of a seed."""
LENGTH = ("n_epochs", "minutes")
"""How long a run may take. Where the learning rate goes by that, other lengths are other runs."""
STEADY = ("constant", "trapezoid")
"""Schedules by which a run can be given more time and do what it would have done with that."""

Checksums = Mapping[str, Sequence[str]]
"""Of each file of `train`, `dev` and `test`."""


def checksums(data: DataConfig) -> dict[str, list[str]]:
    """SHA-256 of each file of the data.

    Raises:
        FileNotFoundError: If one is missing.
    """
    return {
        part: [_checksum(Path(path)) for path in getattr(data, part)]
        for part in ("train", "dev", "test")
    }


def identity(
    recipe: TaskRecipe,
    files: Checksums,
    encoders: Sequence[Encoder],
    *,
    n_examples: tuple[int, int],
    n_processes: int,
) -> dict[str, Any]:
    """What a run that goes on has to have in common with the run before.

    Args:
        recipe: Of the run.
        files: Of its data, as `checksums` says.
        encoders: That it takes vectors from.
        n_examples: Of train and of dev.
        n_processes: That share the work.
    """
    values = config_to_dict(recipe)
    for name in NOT_OF_RESULTS:
        values.pop(name)
    free = ["patience", "device"]
    if recipe.optimiser.schedule in STEADY:
        free += LENGTH
    values["training"] = {k: v for k, v in values["training"].items() if k not in free}
    values["data"].pop("test")
    values["n_train"], values["n_dev"] = n_examples
    values["n_processes"] = n_processes
    return {
        "recipe": values,
        "files": {part: list(files[part]) for part in ("train", "dev")},
        "encoders": [asdict(record(encoder)) for encoder in encoders],
    }


def check_continues(before: Mapping[str, Any], now: Mapping[str, Any], where: Path) -> None:
    """Refuse to go on by another recipe, on other data or with another encoder.

    Args:
        before: What the run was known by, as `identity` says; what an older version did not write
            of data and encoders is no difference.
        now: Likewise, as it would go on.
        where: The state to go on from.

    Raises:
        ValueError: If anything differs; it is named.
    """
    was, will = before["recipe"], now["recipe"]
    told = [
        f"{key} was {was.get(key)!r}, is {will.get(key)!r}"
        for key in sorted(was.keys() | will.keys())
        if was.get(key) != will.get(key)
    ]
    if told:
        raise ValueError(
            f"{where} is of a run by another recipe ({'; '.join(told)}): give another output, or "
            "the recipe it began with"
        )
    for part, files in before.get("files", {}).items():
        if files != now["files"][part]:
            paths = ", ".join(will["data"][part])
            raise ValueError(
                f"{where} is of a run on other data: {paths} has changed since; give another "
                "output, or the data it began with"
            )
    if before.get("encoders", now["encoders"]) != now["encoders"]:
        raise ValueError(
            f"{where} is of a run with another encoder: {will['encoder']} has other weights or "
            "settings since; give another output, or the encoder it began with"
        )


def _checksum(path: Path) -> str:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
