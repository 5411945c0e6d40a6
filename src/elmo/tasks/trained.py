"""A trained task model: its folder, its predictions, its scores."""

import dataclasses
import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from elmo.checkpoints.folder import load_tensors, write_tensors
from elmo.checkpoints.together import replaced_together, take_back
from elmo.config import config_to_dict, read_json_object
from elmo.encoders.encoder import Encoder, EncoderRecord, check_same, record
from elmo.encoders.specification import TFIDF
from elmo.model.device import named_device
from elmo.tasks.batches import sorted_batches
from elmo.tasks.documents import open_token_encoders
from elmo.tasks.features import Features
from elmo.tasks.recipe import TaskRecipe, task_recipe
from elmo.tasks.registry import task_named
from elmo.tasks.task import Labels, ReadsWhole, Settles, TaskModel, n_rows, n_tokens
from elmo.tasks.token_input import TokenInput
from elmo.text import Vocabulary

logger = logging.getLogger(__name__)

TASK_FILE, WEIGHTS_FILE, WORDS_FILE = "task.json", "task.safetensors", "words.txt"
OTHER_FILES = (WEIGHTS_FILE, WORDS_FILE)
FORMAT, FORMAT_VERSION = "elmo-task", 1


class Trained:
    """A task model that can be applied and measured.

    Args:
        recipe: How it was, or is to be, trained.
        model: The network.
        vocabulary: Words that have a vector of their own.
        labels: What the training data said of the answers.
        encoders: What gives tokens their vectors.
        scores: On dev, when it was the best.

    Attributes:
        settings: Of the task, by which files are read; where the recipe leaves some to the training
            data, as that has them.
    """

    def __init__(
        self,
        recipe: TaskRecipe,
        model: TaskModel,
        vocabulary: Vocabulary,
        labels: Labels,
        encoders: Sequence[Encoder],
        scores: Mapping[str, float] | None = None,
    ) -> None:
        self.recipe, self.model, self.labels = recipe, model, labels
        self.vocabulary, self.encoders = vocabulary, tuple(encoders)
        self.scores = dict(scores or {})
        self.task = task_named(recipe.task)
        self.settings = recipe.model
        if isinstance(self.task, Settles):
            self.settings = self.task.settled(recipe.model, labels)
        frozen = () if recipe.encoder_mode == "fine_tuned" else self.encoders
        self.features = Features(
            vocabulary,
            [encoder.encode_layers for encoder in frozen],
            lowercase=recipe.input.lowercase,
        )

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        encoder: str | Sequence[Encoder] | None = None,
        device: str = "auto",
    ) -> "Trained":
        """A model as `save` wrote it; of a folder of several seeds, the best on dev.

        Args:
            folder: Of a model, or of a recipe's runs.
            encoder: In place of the one it was trained with, which may lie elsewhere now: its
                name, or those that are open already. It has to be the same.
            device: Where to compute.

        Raises:
            FileNotFoundError: If there is no model, or its encoder is not where it was.
            ValueError: If a file is damaged, or the encoder is of other sizes than the model's.
        """
        folder = best_run(Path(folder))
        where = folder / TASK_FILE
        values = _read_about(where)
        recipe = task_recipe(values["recipe"], str(where))
        target = named_device(device)
        if encoder is None or isinstance(encoder, str):
            encoders = _opened(recipe, encoder, device=str(target))
        else:
            encoders = tuple(encoder)
        try:
            trained_on = [EncoderRecord(**each) for each in values["encoders"]]
        except TypeError:
            raise ValueError(f"{where} is damaged: its encoders are none") from None
        check_encoders(encoders, trained_on, where)
        vocabulary = Vocabulary.read(folder / WORDS_FILE)
        model = new_model(recipe, vocabulary, values["labels"], encoders)
        load_tensors(model, folder / WEIGHTS_FILE)
        model.to(target).eval()
        return cls(recipe, model, vocabulary, values["labels"], encoders, values["scores"])

    def save(self, folder: str | Path) -> None:
        """Write the model, without encoders that did not learn; an older one is replaced."""
        values = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "recipe": config_to_dict(self.recipe),
            "labels": self.labels,
            "encoders": [asdict(record(encoder)) for encoder in self.encoders],
            "scores": self.scores,
        }
        with replaced_together(Path(folder), TASK_FILE, OTHER_FILES) as beside:
            text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
            beside(TASK_FILE).write_text(text, encoding="utf-8")
            self.vocabulary.write(beside(WORDS_FILE))
            write_tensors(self.model.state_dict(), beside(WEIGHTS_FILE))
            shutil.copymode(beside(TASK_FILE), beside(WEIGHTS_FILE))

    def predict(
        self, examples: Sequence[Any], *, progress: Callable[[int], object] | None = None
    ) -> list[Any]:
        """An answer for each example, in their order.

        What is read together does not change an answer.

        Args:
            examples: As the task's readers give them.
            progress: Called with the number of examples done since the last call.

        Raises:
            ValueError: If one is too long to be read.
        """
        if isinstance(self.task, ReadsWhole):
            self.task.check_lengths(examples, self.labels)
        lengths = [n_tokens(self.task, example) for example in examples]
        rows = [n_rows(self.task, example) for example in examples]
        settings = self.recipe.training
        batches = sorted_batches(
            lengths, rows, batch_size=settings.batch_size, batch_tokens=settings.batch_tokens
        )
        answers: list[Any] = [None] * len(examples)
        device = next(self.model.parameters()).device
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode():
            for batch in batches:
                chosen = [examples[i] for i in batch]
                read = self.task.batch(chosen, self.features, self.labels).to(device)
                for i, answer in zip(batch, self.model.predict(read), strict=True):
                    answers[i] = answer
                if progress is not None:
                    progress(len(batch))
        self.model.train(was_training)
        return answers

    def evaluate(
        self, examples: Sequence[Any], *, progress: Callable[[int], object] | None = None
    ) -> dict[str, float]:
        """The official metrics of labelled examples, in percent.

        Raises:
            ValueError: If there are none.
        """
        self.check(examples)
        answers = self.predict(examples, progress=progress)
        return self.task.score(examples, answers, self.labels)

    def check(self, examples: Sequence[Any]) -> None:
        """Refuse what cannot be measured on; warn of right answers that it never gives.

        Raises:
            ValueError: If there are no examples, or some are not of the kind it learned.
        """
        if not examples:
            raise ValueError("there is no example to measure on")
        self.task.check(examples, self.labels)


def new_model(
    recipe: TaskRecipe, vocabulary: Vocabulary, labels: Labels, encoders: Sequence[Encoder]
) -> TaskModel:
    """A task's network with new weights, drawn from PyTorch's generator."""
    learns = recipe.encoder_mode == "fine_tuned"
    inputs = TokenInput(
        recipe.input,
        len(vocabulary),
        encoders,
        recipe.mix,
        where=recipe.where,
        learned=[encoder.trainable() for encoder in encoders] if learns else (),
        optional=TFIDF in labels,
    )
    return task_named(recipe.task).model(recipe.model, inputs, labels)


def check_encoders(
    encoders: Sequence[Encoder], trained_on: Sequence[EncoderRecord], where: Path
) -> None:
    """Refuse encoders of other sizes than a model was trained on; warn of other weights.

    Raises:
        ValueError: If one is, or there are more or fewer.
    """
    if len(encoders) != len(trained_on):
        raise ValueError(
            f"{where}: the model was trained on {_named(trained_on)}, but is given "
            f"{_named(encoders)}: give as many encoders"
        )
    for encoder, each in zip(encoders, trained_on, strict=True):
        check_same(encoder, each)


def _named(encoders: Sequence[Encoder] | Sequence[EncoderRecord]) -> str:
    return " and ".join(encoder.name for encoder in encoders) or "no encoder"


def best_run(folder: Path) -> Path:
    """The folder of a model: this one, or the best on dev of the runs in it.

    Raises:
        FileNotFoundError: If there is none.
    """
    if (folder / TASK_FILE).exists():
        return folder
    runs = sorted(folder.glob(f"seed-*/{TASK_FILE}"))
    if not runs:
        raise FileNotFoundError(f"{folder} holds no task model: there is no {TASK_FILE}")
    values = [_read_about(run) for run in runs]
    metric = task_named(values[0]["recipe"]["task"]).metric(values[0]["labels"])
    best = max(range(len(runs)), key=lambda i: values[i]["scores"].get(metric, 0.0))
    return runs[best].parent


def _read_about(where: Path) -> dict[str, Any]:
    """What the file of a model says of it."""
    values = read_json_object(where)
    if values.get("format") != FORMAT:
        raise ValueError(f'{where} is not of a task model: no "format": "{FORMAT}"')
    if values.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{where} has format version {values.get('version')}, but this program reads "
            f"version {FORMAT_VERSION}: install a newer elmo-torch"
        )
    kinds = {"recipe": dict, "labels": dict, "encoders": list, "scores": dict}
    absent = [key for key in kinds if key not in values]
    if absent:
        raise ValueError(f"{where} is damaged: it has no {', '.join(absent)}")
    wrong = [key for key, kind in kinds.items() if not isinstance(values[key], kind)]
    if wrong or "task" not in values["recipe"]:
        raise ValueError(f"{where} is damaged: its {', '.join(wrong) or 'recipe'} is none")
    return values


def _opened(recipe: TaskRecipe, encoder: str | None, *, device: str) -> tuple[Encoder, ...]:
    """The encoders of a model, or what is given in their place."""
    task = task_named(recipe.task)
    if encoder is not None:
        return open_token_encoders(task, encoder, device=device)
    try:
        return open_token_encoders(task, recipe.encoder, device=device)
    except (OSError, ValueError) as error:
        told = (
            f"{error}. The model was trained on {recipe.encoder}: if that lies elsewhere now, say "
            "where by encoder (--encoder)"
        )
        missing = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
        raise missing(told) from None


def recover_model(folder: Path) -> None:
    """Put back the model that a process was replacing when it was killed; nobody else may write."""
    take_back(folder, TASK_FILE, OTHER_FILES)


def with_seed(recipe: TaskRecipe, seed: int) -> TaskRecipe:
    """The same recipe for one seed alone."""
    return dataclasses.replace(recipe, seeds=(seed,))
