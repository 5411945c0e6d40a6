"""One task with several encoders: scores, what they cost, and who makes fewer errors.

Each encoder's runs are processes of their own, so that their memory can be told.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from elmo.config import config_to_dict, read_json_object
from elmo.recipe_file import quoted
from elmo.tasks.documents import open_token_encoders
from elmo.tasks.identity import checksums
from elmo.tasks.recipe import TaskRecipe, read_task_recipe
from elmo.tasks.registry import task_named
from elmo.tasks.run import RESULTS_FILE


@dataclass(frozen=True)
class Compared:
    """One encoder's results.

    Attributes:
        encoder: As it was asked for.
        split: What was measured: `test` where there is one, else `dev`.
        mean: Of the seeds' scores, in percent.
        deviation: Of the seeds' scores; None of a single one.
        scores: Of each seed.
        error_reduction: Share of the first encoder's errors that are gone, in percent: 100 · (mean
            − first) / (100 − first).
        n_parameters: That learned.
        seconds: Of training, the mean of the seeds, and of encoding once, as far as the cache did
            not have the layers already.
        peak_memory: Bytes.
    """

    encoder: str
    split: str
    mean: float
    deviation: float | None
    scores: Sequence[float]
    error_reduction: float
    n_parameters: int
    seconds: float
    peak_memory: int


def compare_encoders(
    recipe: str | Path,
    encoders: Sequence[str],
    output: str | Path,
    *,
    overrides: Sequence[str] = (),
    begun: Callable[[str], object] | None = None,
) -> tuple[str, list[Compared]]:
    """Train a recipe with each encoder; what was done in an earlier call is only read.

    Encoders of runs that are still to be made are opened before the first of these, so that what is
    wrong with one is told at once.

    Args:
        recipe: A TOML file.
        encoders: In place of the recipe's; errors are reduced against the first.
        output: Folder of all runs, a folder each, named by its encoder as in a URL.
        overrides: `key=value`, for all.
        begun: Called with each encoder when its turn comes.

    Returns:
        The metric's name, and the results in the encoders' order.

    Raises:
        ValueError: If an encoder is given twice or names none, or a run fails; and as
            `open_encoders`, which raises other errors too.
    """
    if not encoders or len(set(encoders)) < len(encoders):
        raise ValueError(f"encoders are {list(encoders)}, but distinct ones are wanted")
    settings = {encoder: [*overrides, f"encoder={quoted(encoder)}"] for encoder in encoders}
    folders = {encoder: Path(output) / quote(encoder, safe="+") for encoder in encoders}
    for encoder, folder in folders.items():  # before hours are spent on the first
        wanted = _read_recipe(recipe, settings[encoder], folder)
        if not _is_done(wanted):
            _open_encoders(wanted)
    found = []
    for encoder, folder in folders.items():
        told = begun and partial(begun, encoder)
        found.append(results_of(recipe, settings[encoder], folder, begun=told))
    first = measured(found[0])["mean"]
    compared = []
    for encoder, results in zip(encoders, found, strict=True):
        scores, runs = measured(results), results["runs"].values()
        compared.append(
            Compared(
                encoder,
                "test" if results["test"] else "dev",
                scores["mean"],
                scores["deviation"],
                [of_seed[results["metric"]] for of_seed in scores["seeds"].values()],
                error_reduction(scores["mean"], first),
                next(iter(runs))["n_parameters"],
                sum(run["seconds"] for run in runs) / len(runs) + results["seconds_encoding"],
                results["peak_memory"],
            )
        )
    return found[0]["metric"], compared


def error_reduction(score: float, first: float) -> float:
    """Share of the errors of another that are gone, all in percent; 0 where it made none."""
    return 100 * (score - first) / (100 - first) if first < 100 else 0.0


def measured(results: dict[str, Any]) -> dict[str, Any]:
    """Scores on test where there is one, else on dev: `mean`, `deviation`, `seeds`."""
    scores: dict[str, Any] = results["test"] or results["dev"]
    return scores


def results_of(
    recipe: str | Path,
    overrides: Sequence[str],
    output: str | Path,
    *,
    begun: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """What `results.json` of a recipe's runs says; they are made if they are not there yet.

    Args:
        recipe: A TOML file.
        overrides: `key=value` in place of the recipe's.
        output: Folder of the runs; those that were broken off go on.
        begun: Called if there is anything to do.

    Raises:
        ValueError: If the folder holds runs by another recipe, or a run fails.
    """
    if not _is_done(_read_recipe(recipe, overrides, output)):
        if begun is not None:
            begun()
        command = [sys.executable, "-m", "elmo", "train", str(recipe), "--resume"]
        for setting in _with_output(overrides, output):
            command += ["--set", setting]
        ended = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if ended.returncode:
            raise ValueError(f"{shlex.join(command)} failed with {ended.returncode}: see above")
    return read_json_object(Path(output) / RESULTS_FILE)


def _with_output(overrides: Sequence[str], output: str | Path) -> list[str]:
    return [*overrides, f"output={quoted(str(output))}"]


def _read_recipe(recipe: str | Path, overrides: Sequence[str], output: str | Path) -> TaskRecipe:
    return read_task_recipe(recipe, _with_output(overrides, output))


def _is_done(recipe: TaskRecipe) -> bool:
    """Whether its folder has the results of this very recipe, on this very data."""
    path = Path(recipe.output) / RESULTS_FILE
    if not path.exists():
        return False
    try:
        before = read_json_object(path)
    except ValueError:  # damaged: who makes them anew says what to do
        return False
    if before.get("recipe") != config_to_dict(recipe):
        return False
    # An older version did not write the checksums.
    return "files" not in before or before["files"] == checksums(recipe.data)


def _open_encoders(recipe: TaskRecipe) -> None:
    """Let what is wrong with them be told."""
    for encoder in open_token_encoders(task_named(recipe.task), recipe.encoder, device="cpu"):
        if recipe.encoder_mode == "fine_tuned":
            encoder.trainable()
