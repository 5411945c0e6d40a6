"""What defines a task model and its scores, read from TOML."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo.config import check_positive, config_from_dict
from elmo.encoders.specification import read_specification
from elmo.recipe_file import read_values
from elmo.tasks.input_config import InputConfig, MixConfig
from elmo.tasks.registry import task_named
from elmo.training import OptimiserConfig

PLACES = ("input", "output", "both")
ENCODER_MODES = ("cached", "on_the_fly", "fine_tuned")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class DataConfig:
    """Labelled data.

    Args:
        train: Files to learn from, in a format that the task reads.
        dev: What tells when to stop, and which settings are good.
        test: What is measured once, at the end; None for nothing.
        n_train: Training examples at most, drawn by each run's seed; None for all.
        share: Of these, how much is used, at least one: for curves of sample efficiency.
        n_dev: Examples of dev, at even distances through it; None takes all.
    """

    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...] = ()
    n_train: int | None = None
    share: float = 1.0
    n_dev: int | None = None

    def __post_init__(self) -> None:
        for name in ("train", "dev"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty, but at least one file is wanted")
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}, but is a share above 0, at most 1")
        check_positive(self, "n_train", "n_dev")


@dataclass(frozen=True)
class FitConfig:
    """How a task model learns.

    Args:
        batch_size: Examples per step, of similar lengths.
        batch_tokens: Tokens per step at most, padding included; a longer example goes alone.
        n_epochs: Passes over the training data at most.
        minutes: Time at most, of training alone; None for no bound.
        patience: Measurements on dev without a new best after which training stops; 0 never stops.
        halve_after: Measurements without a new best after which the learning rate is halved, and
            after as many more again; 0 never halves.
        every_steps: Steps between measurements on dev; None measures after every epoch.
        average_decay: Of the moving average of weights that is measured and kept in place of the
            last ones; 0 for no average.
        device: `auto` takes a GPU if there is one; `cpu` or `cuda`.
    """

    batch_size: int = 32
    batch_tokens: int = 4096
    n_epochs: int = 50
    minutes: float | None = None
    patience: int = 8
    halve_after: int = 0
    every_steps: int | None = None
    average_decay: float = 0.0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_positive(self, "batch_size", "batch_tokens", "n_epochs", "minutes", "every_steps")
        for name in ("patience", "halve_after"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 for never")
        if not 0 <= self.average_decay < 1:
            raise ValueError(
                f"average_decay is {self.average_decay}, but expected 0 (no average) to below 1"
            )
        if self.device not in DEVICES:
            raise ValueError(f"device is {self.device!r}, but expected one of {DEVICES}")


@dataclass(frozen=True)
class TaskRecipe:
    """A task model: with these settings, data and a seed give one model and its scores.

    Args:
        task: Its name, as in `registry.TASKS`.
        output: Folder of models, scores and logs.
        data: What to learn from and to measure on.
        encoder: What gives each token its vector: `none`, `elmo`, `static:FILE`,
            `transformer:NAME`, …, or several with `+` between them.
        encoder_mode: `cached`: frozen, computed once and kept on disk; `on_the_fly`: frozen,
            computed anew whenever it is read; `fine_tuned`: learns with the task.
        cache: Folder of the cache; None for one that all recipes of a user share.
        cache_gb: What that folder may take, in units of 10⁹ bytes.
        where: Where the task model takes the encoder's vectors in: at its `input`, at the `output`
            of its recurrent layers, or at `both` (table 3).
        mix: How layers become one vector.
        input: What else a token is known by.
        model: Settings of the task's network.
        optimiser: How weights are changed.
        training: How long, and in which batches.
        seeds: One model each, of weights, order and dropout.
        tensorboard: Whether TensorBoard events are written beside `metrics.jsonl`.
    """

    task: str
    output: str
    data: DataConfig
    encoder: str = "elmo"
    encoder_mode: str = "cached"
    cache: str | None = None
    cache_gb: float = 20.0
    where: str = "input"
    mix: MixConfig = field(default_factory=MixConfig)
    input: InputConfig = field(default_factory=InputConfig)
    model: Any = None
    optimiser: OptimiserConfig = field(
        default_factory=lambda: OptimiserConfig(
            "adam", 1e-3, warmup=0.0, schedule="constant", clip_norm=5.0
        )
    )
    training: FitConfig = field(default_factory=FitConfig)
    seeds: tuple[int, ...] = (1, 2, 3)
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if not self.output.strip():
            raise ValueError(f"output is {self.output!r}, but a folder is wanted")
        for name, choices in (("where", PLACES), ("encoder_mode", ENCODER_MODES)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but expected one of {choices}"
                )
        right = self.seeds and all(0 <= seed < 2**63 for seed in self.seeds)
        if not right or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(
                f"seeds is {self.seeds}, but distinct numbers from 0 to 2⁶³ − 1 are wanted"
            )
        read_specification(self.encoder)
        check_positive(self, "cache_gb")


def read_task_recipe(path: str | Path, overrides: Iterable[str] = ()) -> TaskRecipe:
    """Read a recipe, with values replaced by `key=value` overrides.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no TOML, the task is unknown, or a setting is unknown (the nearest is
            suggested), missing or wrong.
    """
    return task_recipe(read_values(path, overrides), str(path))


def task_recipe(values: dict[str, Any], where: str) -> TaskRecipe:
    """A recipe of plain values; `where` they are from is named in errors.

    Raises:
        ValueError: As `read_task_recipe`.
    """
    recipe = config_from_dict(TaskRecipe, values, where)
    try:
        settings = task_named(recipe.task).settings
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    given = {} if recipe.model is None else recipe.model
    model: Any = config_from_dict(settings, given, f"{where}: [model]")
    return dataclasses.replace(recipe, model=model)
