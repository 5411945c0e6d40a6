"""What defines a pre-training run, read from TOML."""

import dataclasses
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo.config import BiLMConfig, check_positive, config_from_dict
from elmo.pretrain.corpus_config import CorpusConfig
from elmo.training import OptimiserConfig

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class TrainingConfig:
    """How to learn.

    Args:
        n_rows: Sentences read side by side.
        n_steps: Tokens after which backpropagation through time is cut.
        carry: Whether LSTM state is carried from one sentence to the next, as the original does, or
            each sentence begins from zero, as vectors are computed later.
        n_negatives: Words drawn for the sampled softmax; 0 for the full one.
        n_epochs: Passes over the corpus at most.
        minutes: Time at most, of training alone; the schedule follows whichever bound comes first.
        dtype: Of matrix products: `float32` or `bfloat16`; weights are float32 always.
        compile: Whether to fuse gate arithmetic with torch.compile, which needs a C++ compiler.
        device: Where to learn: `cpu`, `cuda`, or `auto`, which takes a GPU if there is one. The
            same seed draws the same first weights and windows anywhere, but not the same dropout.
    """

    n_rows: int = 128
    n_steps: int = 20
    carry: bool = True
    n_negatives: int = 8192
    n_epochs: float = 10.0
    minutes: float | None = None
    dtype: str = "float32"
    compile: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}, but expected one of {DTYPES}")
        for name in ("n_rows", "n_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        if self.n_negatives < 0:
            raise ValueError(f"n_negatives is {self.n_negatives}: give 0 for the full softmax")
        check_positive(self, "n_epochs", "minutes")


@dataclass(frozen=True)
class LogConfig:
    """What is written while training.

    Args:
        every_steps: Between lines of the metric log.
        save_minutes: Between saves of the model so far, with held-out perplexity.
        heldout_sentences: Sentences, spread evenly, for perplexity during training; all at the end.
        tensorboard: Whether TensorBoard events are written too.
    """

    every_steps: int = 50
    save_minutes: float = 10.0
    heldout_sentences: int = 2000
    tensorboard: bool = True

    def __post_init__(self) -> None:
        if self.every_steps < 1:
            raise ValueError(f"every_steps is {self.every_steps}, but must be at least 1")
        check_positive(self, "save_minutes")
        if self.heldout_sentences < 0:
            raise ValueError(f"heldout_sentences is {self.heldout_sentences}, but counts sentences")


@dataclass(frozen=True)
class PretrainRecipe:
    """A pre-training run: with these settings, a corpus and a seed give one model.

    Args:
        output: Folder of the model, its vocabulary, softmax and logs.
        corpus: What to learn from.
        model: The biLM's architecture.
        optimiser: How weights are changed.
        training: How to learn.
        log: What is written meanwhile.
        seed: Of weights, order of sentences, negatives and dropout.
        task: Always `pretrain`.
    """

    output: str
    corpus: CorpusConfig
    model: BiLMConfig = field(default_factory=BiLMConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    log: LogConfig = field(default_factory=LogConfig)
    seed: int = 1
    task: str = "pretrain"

    def __post_init__(self) -> None:
        if not self.output.strip():
            raise ValueError(f"output is {self.output!r}, but a folder is wanted")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, but must be at least 0")


def read_recipe(path: str | Path, overrides: Iterable[str] = ()) -> PretrainRecipe:
    """Read a recipe, with values replaced by `key=value` overrides.

    Args:
        path: A TOML file.
        overrides: `table.key=value`, the value written as in TOML (a bare word is a string).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no TOML, or a setting is unknown (the nearest is suggested), missing
            or wrong.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    for override in overrides:
        _override(values, override)
    recipe = config_from_dict(PretrainRecipe, values, str(path))
    if recipe.task != "pretrain":
        raise ValueError(f'{path}: task is "{recipe.task}", but "pretrain" was expected')
    return recipe


def with_output(recipe: PretrainRecipe, output: str | Path) -> PretrainRecipe:
    """The same recipe, writing elsewhere."""
    return dataclasses.replace(recipe, output=str(output))


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ValueError(f'"{override}" is no override: expected key=value, as training.n_rows=64')
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        read = {"value": text.strip()}
    if len(read) > 1:
        raise ValueError(f"{override!r} holds more than one setting: give each one by itself")
    *tables, name = key.strip().split(".")
    table = values
    for part in tables:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ValueError(f'"{override}": {part} is a setting, not a table of settings')
    table[name] = read["value"]
