"""What defines a pre-training run, read from TOML."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo.config import (
    AdaptiveSoftmaxConfig,
    BiLMConfig,
    check_dropout,
    check_positive,
    config_from_dict,
)
from elmo.pretrain.adaptation import SOFTMAX_SHARE, VOCABULARIES
from elmo.pretrain.corpus_config import CorpusConfig
from elmo.recipe_file import overridden, read_values
from elmo.training import OptimiserConfig

DTYPES = ("float32", "bfloat16")
SOFTMAXES = ("sampled", "full", "adaptive")
BATCHES = ("windows", "sentences")


@dataclass(frozen=True)
class StartConfig:
    """A trained model to go on from, for the text of another domain (table 7 of the paper).

    Args:
        model: As `Elmo.from_pretrained` takes it: a folder or a name.
        vocabulary: The words to predict: `keep` those of the model; `extend` them with those of
            the new text; or `replace` them. None extends them, or replaces them where the model
            predicts none (official files have no softmax).
        dropout: While it learns; None for the model's own.
        softmax_share: Share of the budget in which a softmax that had to be made anew is learned
            alone, before the biLM changes.
    """

    model: str
    vocabulary: str | None = None
    dropout: float | None = None
    softmax_share: float = SOFTMAX_SHARE

    def __post_init__(self) -> None:
        if self.vocabulary not in (None, *VOCABULARIES):
            raise ValueError(
                f"vocabulary is {self.vocabulary!r}, but expected one of {VOCABULARIES}"
            )
        check_dropout(self)
        if not 0 < self.softmax_share < 1:
            raise ValueError(f"softmax_share is {self.softmax_share}, but must be in (0, 1)")


@dataclass(frozen=True)
class TrainingConfig:
    """How to learn.

    Args:
        n_rows: Sentences read side by side, by each process.
        n_steps: Tokens after which backpropagation through time is cut.
        batches: `windows` of `n_rows` × `n_steps` without padding, as the original; or whole
            `sentences` of like lengths, at most `n_rows` × `n_steps` tokens with padding, each
            from a zero state.
        carry: Whether LSTM state is carried from one sentence to the next, as the original does, or
            each sentence begins from zero, as vectors are computed later. Of windows.
        n_accumulate: Batches whose gradients are added up before weights change.
        softmax: `sampled`, as the original; `full`, exact and slow; `adaptive`, exact and fast, of
            another form (Grave et al., 2017).
        n_negatives: Words drawn for a sampled softmax; with no more words than these it is full.
        n_epochs: Passes over the corpus at most; 10 where no bound is given.
        n_tokens: Predictions per direction at most.
        minutes: Time at most, of training alone; such a run ends elsewhere when it is repeated.
            The schedule follows whichever of the three bounds comes first.
        dtype: Of matrix products: `float32` or `bfloat16`; weights are float32 always.
        compile: Whether to fuse gate arithmetic with torch.compile, which needs a C++ compiler.
        device: Where to learn: `cpu`, `cuda`, or `auto`, which takes a GPU if there is one. The
            same seed draws the same first weights and windows anywhere, but not the same dropout.
    """

    n_rows: int = 128
    n_steps: int = 20
    batches: str = "windows"
    carry: bool = True
    n_accumulate: int = 1
    softmax: str = "sampled"
    n_negatives: int = 8192
    n_epochs: float | None = None
    n_tokens: int | None = None
    minutes: float | None = None
    dtype: str = "float32"
    compile: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, choices in (("dtype", DTYPES), ("softmax", SOFTMAXES), ("batches", BATCHES)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but expected one of {choices}"
                )
        for name in ("n_rows", "n_steps", "n_accumulate", "n_negatives"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        check_positive(self, "n_epochs", "n_tokens", "minutes")
        if self.n_epochs is None and self.n_tokens is None and self.minutes is None:
            object.__setattr__(self, "n_epochs", 10.0)


@dataclass(frozen=True)
class ValidationConfig:
    """Held-out perplexity during training, by full softmax; the best model is the one kept.

    Args:
        every_tokens: Predictions per direction between measurements; None measures after every
            epoch, and at least every 2 million; but of a small corpus no sooner than after ten
            steps, nor before as many tokens were learned from as are measured on.
        n_sentences: Of the held-out text, spread evenly, during training; all of it at the end.
        patience: Measurements without a new best one after which training stops; 0 never stops.
            Those made while an adaptation learns a softmax alone do not count.
    """

    every_tokens: int | None = None
    n_sentences: int = 2000
    patience: int = 10

    def __post_init__(self) -> None:
        check_positive(self, "every_tokens", "n_sentences")
        if self.patience < 0:
            raise ValueError(f"patience is {self.patience}: give 0 to never stop")


@dataclass(frozen=True)
class LogConfig:
    """What is written while training.

    Args:
        every_steps: Between lines of the metric log.
        save_minutes: Between saves of everything that a run needs to go on.
        tensorboard: Whether TensorBoard events are written too.
    """

    every_steps: int = 50
    save_minutes: float = 10.0
    tensorboard: bool = True

    def __post_init__(self) -> None:
        if self.every_steps < 1:
            raise ValueError(f"every_steps is {self.every_steps}, but must be at least 1")
        check_positive(self, "save_minutes")


@dataclass(frozen=True)
class PretrainRecipe:
    """A pre-training run: with these settings, a corpus and a seed give one model.

    Args:
        output: Folder of the model, its vocabulary, softmax and logs.
        corpus: What to learn from; may be left out where `prepared` names a corpus that is there.
        prepared: Folder of the corpus in numbers (`elmo prepare`), made if it is missing or made
            of something else; None for `corpus` in the output folder.
        model: The biLM's architecture; None for the default of `BiLMConfig`, or that of the model
            to start from.
        start: A trained model to adapt; None for a new one.
        adaptive_softmax: Its clusters, where `training.softmax` is `adaptive`.
        optimiser: How weights are changed.
        training: How to learn.
        validation: How to tell whether it still gets better.
        log: What is written meanwhile.
        seed: Of weights, order of sentences, negatives and dropout.
        task: Always `pretrain`.
    """

    output: str
    corpus: CorpusConfig | None = None
    prepared: str | None = None
    model: BiLMConfig | None = None
    start: StartConfig | None = None
    adaptive_softmax: AdaptiveSoftmaxConfig = field(default_factory=AdaptiveSoftmaxConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    log: LogConfig = field(default_factory=LogConfig)
    seed: int = 1
    task: str = "pretrain"

    def __post_init__(self) -> None:
        if not self.output.strip():
            raise ValueError(f"output is {self.output!r}, but a folder is wanted")
        if self.corpus is None and self.prepared is None:
            raise ValueError("there is no text: give [corpus] train, or prepared")
        if self.start is not None and self.model is not None:
            raise ValueError("the model to start from has an architecture: leave [model] out")
        if self.start is not None and self.training.softmax == "adaptive":
            raise ValueError("an adaptation keeps or makes a plain softmax: set sampled or full")
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
    return _recipe(read_values(path, overrides), str(path))


def adaptation_recipe(
    model: str,
    files: Sequence[str],
    output: str | Path,
    *,
    heldout: Sequence[str] = (),
    overrides: Iterable[str] = (),
) -> PretrainRecipe:
    """The recipe by which a trained model goes on with the text of another domain.

    Five passes at most, over windows of 32 rows; the rate falls by a cosine. Held-out text is
    measured before the first and after each: three times without a new best end the training, and
    the best model is kept, which may be the one it started from. Without held-out files a sentence
    in twenty is held out.

    Args:
        model: As `Elmo.from_pretrained` takes it.
        files: Text, as `CorpusConfig.train`.
        output: Folder of the adapted model.
        heldout: Text to measure on.
        overrides: As for `read_recipe`.

    Raises:
        ValueError: If a setting is unknown, missing or wrong.
    """
    values = {
        "output": str(output),
        "start": {"model": model, "dropout": 0.1},
        "corpus": {
            "train": list(files),
            **({"heldout": list(heldout)} if heldout else {"heldout_share": 0.05}),
        },
        "optimiser": {"learning_rate": 2e-3, "warmup": 0.05, "clip_norm": 10.0},
        "training": {"n_rows": 32, "carry": False, "n_negatives": 4096, "n_epochs": 5},
        "validation": {"patience": 3},
        "log": {"every_steps": 20, "tensorboard": False},
    }
    return _recipe(overridden(values, overrides), "adaptation")


def _recipe(values: dict[str, Any], where: str) -> PretrainRecipe:
    recipe = config_from_dict(PretrainRecipe, values, where)
    if recipe.task != "pretrain":
        raise ValueError(f'{where}: task is "{recipe.task}", but "pretrain" was expected')
    return recipe


def with_output(recipe: PretrainRecipe, output: str | Path) -> PretrainRecipe:
    """The same recipe, writing elsewhere."""
    return dataclasses.replace(recipe, output=str(output))
