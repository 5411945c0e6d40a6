"""A recipe's runs: data and encoders in, a model per seed and its scores out."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from elmo.checkpoints.download import cache_folder
from elmo.config import config_to_dict, read_json_object
from elmo.encoders.encoder import Encoder
from elmo.encoders.layer_cache import cached_layers
from elmo.encoders.specification import STATIC, open_encoders, read_specification
from elmo.folder_lock import alone_in
from elmo.json_files import write_json
from elmo.memory import peak_memory
from elmo.seed_scores import mean_and_deviation
from elmo.tasks.documents import fitted_documents, open_token_encoders
from elmo.tasks.features import Features, LayersOf, words_of
from elmo.tasks.fit import Fit, Fitted, Progress, accelerator_for
from elmo.tasks.identity import NOT_OF_RESULTS, Checksums, checksums
from elmo.tasks.recipe import TaskRecipe
from elmo.tasks.registry import task_named
from elmo.tasks.task import ReadsTraining, ReadsWhole
from elmo.tasks.trained import TASK_FILE, Trained, new_model, recover_model, with_seed
from elmo.training_state import STATE_FILE, sweep_state

logger = logging.getLogger(__name__)

RESULTS_FILE = "results.json"


@dataclass(frozen=True)
class TaskResults:
    """What a recipe came to.

    Attributes:
        metric: Of the task: the key of the scores that counts.
        dev: Scores of each seed's best model.
        test: Likewise on test; empty where there is none.
        fitted: How each seed's training went.
        seconds_encoding: Spent on the encoders' layers before training, in this call or the one
            before it that took longer; what the cache had from other recipes took none.
        peak_memory: Bytes of memory that the process had at most.
        layer_weights: Of each seed's mixes.
        first_process: Whether this is the process that speaks, of several.
    """

    metric: str
    dev: Mapping[int, Mapping[str, float]]
    test: Mapping[int, Mapping[str, float]]
    fitted: Mapping[int, Fitted]
    seconds_encoding: float
    peak_memory: int
    layer_weights: Mapping[int, Mapping[str, Any]]
    first_process: bool = True


@dataclass(frozen=True)
class TaskData:
    """Examples of a recipe."""

    train: Sequence[Any]
    dev: Sequence[Any]
    test: Sequence[Any]


def train_task(
    recipe: TaskRecipe,
    *,
    resume: bool = False,
    report: Callable[[Progress], object] | None = None,
    progress: Callable[[float, str], object] | None = None,
) -> TaskResults:
    """Train a model per seed, and measure them.

    Writes into the recipe's output folder `seed-N/` (the best model by dev, `metrics.jsonl`, the
    state to go on from) and `results.json`: scores of the recipe's seeds, which means are of, and
    below `other_seeds` what earlier calls with the same recipe, but for the seeds, measured of
    others. Results by another recipe are left out with a warning.

    Args:
        recipe: What to do.
        resume: Go on with what is in the output folder; seeds that were finished are kept.
        report: Called now and then while training.
        progress: Called while encoders read the data, with the share done and what is being done.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is broken, the folder holds other runs, or another process is writing
            into it.
    """
    accelerator = accelerator_for(recipe.training.device)
    output = Path(recipe.output)
    with alone_in(output) if accelerator.is_main_process else nullcontext():
        if accelerator.is_main_process:
            _prepare_output(output, resume=resume)
        files = checksums(recipe.data)
        earlier = _earlier(recipe, files) if accelerator.is_main_process else _Earlier()
        accelerator.wait_for_everyone()
        task = task_named(recipe.task)
        words = _first_words(recipe)
        data = read_data(recipe)
        begun = time.monotonic()
        encoders = open_token_encoders(task, recipe.encoder, device=str(accelerator.device))
        sources = _layer_sources(recipe, encoders, data, accelerator, progress)
        seconds_encoding = time.monotonic() - begun
        dev, test, fitted, weights = {}, {}, {}, {}
        for seed in recipe.seeds:
            trained, run = _train_seed(
                recipe, seed, data, files, encoders, sources, words, accelerator, report
            )
            dev[seed], fitted[seed] = dict(run.scores), run
            weights[seed] = trained.model.inputs.layer_weights()
            if data.test:
                answers = trained.predict(data.test)
                test[seed] = task.score(data.test, answers, trained.labels)  # checked before
        results = TaskResults(
            task.metric(trained.labels),
            dev,
            test,
            fitted,
            max(seconds_encoding, earlier.seconds_encoding),
            peak_memory(),
            weights,
            accelerator.is_main_process,
        )
        if accelerator.is_main_process:
            _write_results(recipe, files, results, earlier.other_seeds)
    return results


def read_data(recipe: TaskRecipe) -> TaskData:
    """The examples that a recipe names.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is broken or holds no example.
    """
    task = task_named(recipe.task)
    parts = {}
    for name in ("train", "dev", "test"):
        paths = [Path(path) for path in getattr(recipe.data, name)]
        if name == "train" and isinstance(task, ReadsTraining):
            read: Callable[[Path, Any], list[Any]] = task.read_training
        else:
            read = task.read
        parts[name] = list(chain.from_iterable(read(path, recipe.model) for path in paths))
        if paths and not parts[name]:
            raise ValueError(f"{', '.join(map(str, paths))}: no example was found")
    parts["dev"] = spread(parts["dev"], recipe.data.n_dev)
    return TaskData(**parts)


def spread(examples: Sequence[Any], most: int | None) -> list[Any]:
    """At most so many examples, at even distances: of all documents, not of the first alone."""
    n = min(most or len(examples), len(examples))
    return [examples[i * len(examples) // n] for i in range(n)]


def drawn(examples: Sequence[Any], recipe: TaskRecipe, seed: int) -> Sequence[Any]:
    """The training examples of one seed."""
    n = min(len(examples), recipe.data.n_train or len(examples))
    n = max(1, math.floor(recipe.data.share * n))
    if n == len(examples):
        return examples
    chosen = np.random.default_rng([seed, len(examples)]).permutation(len(examples))[:n]
    return [examples[i] for i in sorted(chosen.tolist())]


def _train_seed(
    recipe: TaskRecipe,
    seed: int,
    data: TaskData,
    files: Checksums,
    encoders: Sequence[Encoder],
    sources: Sequence[LayersOf],
    words: Encoder | None,
    accelerator: Accelerator,
    report: Callable[[Progress], object] | None,
) -> tuple[Trained, Fitted]:
    """Train one model, and read its best state again."""
    task, folder = task_named(recipe.task), Path(recipe.output) / f"seed-{seed}"
    train = drawn(data.train, recipe, seed)
    labels = {
        **task.labels(train, recipe.model),
        **fitted_documents(task, recipe.encoder, train, recipe.model),
    }
    for part in data.dev, data.test:
        task.check(part, labels)
    if isinstance(task, ReadsWhole):
        task.check_lengths([*train, *data.dev, *data.test], labels)
    vocabulary = words_of(
        chain.from_iterable(map(task.texts, train)),
        min_count=recipe.input.min_count,
        lowercase=recipe.input.lowercase,
    )
    torch.manual_seed(seed)
    model = new_model(recipe, vocabulary, labels, encoders)
    if words is not None:
        _take_words(model.inputs.words, words, vocabulary.words)
    trained = Trained(with_seed(recipe, seed), model, vocabulary, labels, encoders)
    trained.features = Features(vocabulary, sources, lowercase=recipe.input.lowercase)
    fit = Fit(
        trained,
        train,
        data.dev,
        seed=seed,
        files=files,
        folder=folder,
        accelerator=accelerator,
        report=report,
    )
    fitted = fit.go()
    best = Trained.load(folder, encoder=encoders, device=str(accelerator.device))
    best.features = trained.features
    return best, fitted


def _layer_sources(
    recipe: TaskRecipe,
    encoders: Sequence[Encoder],
    data: TaskData,
    accelerator: Accelerator,
    progress: Callable[[float, str], object] | None,
) -> list[LayersOf]:
    """Where the layers of the data's sentences come from, for each frozen encoder."""
    if recipe.encoder_mode == "fine_tuned":
        return []
    if recipe.encoder_mode == "on_the_fly":
        return [encoder.encode_layers for encoder in encoders]
    texts = task_named(recipe.task).texts
    trains = (drawn(data.train, recipe, seed) for seed in recipe.seeds)
    sentences = list(
        dict.fromkeys(
            tuple(sentence)
            for example in chain(*trains, data.dev, data.test)
            for sentence in texts(example)
        )
    )
    folder = Path(recipe.cache) if recipe.cache else cache_folder() / "layers"

    def source(encoder: Encoder) -> LayersOf:
        def shown(done: int, total: int) -> None:
            if progress is not None:
                progress(
                    done / max(total, 1), f"{encoder.name} has read {done:,} of {total:,} tokens"
                )

        with accelerator.main_process_first():
            kept = cached_layers(
                encoder,
                sentences,
                folder,
                max_bytes=int(recipe.cache_gb * 1e9),
                progress=shown if accelerator.is_main_process else None,
            )
        return lambda batch: [kept.layers(sentence) for sentence in batch]

    return [source(encoder) for encoder in encoders]


def _first_words(recipe: TaskRecipe) -> Encoder | None:
    """The vectors that words begin with, if a file has them.

    Raises:
        ValueError: If they are not those of a file of static vectors, or of another size.
    """
    spec = recipe.input.words
    if spec is None:
        return None
    parts = read_specification(spec)
    if [part.kind for part in parts] != [STATIC]:
        raise ValueError(f'input.words is "{spec}", but static:FILE is wanted')
    (encoder,) = open_encoders(parts)
    if encoder.dim != recipe.input.word_dim:
        raise ValueError(f"{spec} has vectors of {encoder.dim} numbers: set input.word_dim to that")
    return encoder


def _take_words(embedding: Any, encoder: Encoder, words: Sequence[str]) -> None:
    """Let words begin with the vectors that a file has for them."""
    (vectors,) = encoder.encode_layers([list(words)])
    found = torch.from_numpy(vectors[0])
    with torch.no_grad():
        known = found.abs().sum(dim=1, keepdim=True) > 0
        embedding.weight.copy_(torch.where(known, found, embedding.weight))


def _prepare_output(folder: Path, *, resume: bool) -> None:
    """Refuse runs that are not to be gone on with; put back what killed ones left half replaced."""
    found = [p for name in (TASK_FILE, STATE_FILE) for p in folder.glob(f"seed-*/{name}")]
    if found and not resume:
        raise ValueError(
            f"{folder} holds runs already: give another output, or --resume to go on with them"
        )
    for run in folder.glob("seed-*"):
        recover_model(run)
        sweep_state(run)


@dataclass(frozen=True)
class _Earlier:
    """What `results.json` has of earlier calls with the same recipe, but for the seeds.

    Attributes:
        other_seeds: Results of those that are not asked for now.
        seconds_encoding: As in `TaskResults`.
    """

    other_seeds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds_encoding: float = 0.0


def _earlier(recipe: TaskRecipe, files: Checksums) -> _Earlier:
    """See `_Earlier`.

    Raises:
        ValueError: If the file is damaged.
    """
    path = Path(recipe.output) / RESULTS_FILE
    if not path.exists():
        return _Earlier()
    now, asked = config_to_dict(recipe), set(map(str, recipe.seeds))
    try:
        before = read_json_object(path)
        found = dict(before.get("other_seeds", {}))
        for seed, run in before["runs"].items():
            scores = {part: before[part]["seeds"][seed] for part in ("dev", "test") if before[part]}
            found[seed] = {**scores, "run": run}
        recipe_before = dict(before["recipe"])
        seconds = float(before["seconds_encoding"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(
            f"{path} is damaged: move it away, and --resume measures the models again"
        ) from None
    found = {seed: of_seed for seed, of_seed in found.items() if seed not in asked}
    told = f"seeds {', '.join(found)}"
    differing = [k for k in now if k not in NOT_OF_RESULTS and now[k] != recipe_before.get(k)]
    if before.get("files", files) != files and "data" not in differing:
        differing.append("data")
    if differing:
        if found:
            logger.warning(
                "%s: the results of %s are by a recipe that differs in %s, and go; their models "
                "stay",
                path,
                told,
                ", ".join(differing),
            )
        return _Earlier()
    if found:
        logger.info("%s: the results of %s, which are not asked for now, are kept", path, told)
    return _Earlier(found, seconds)


def _write_results(
    recipe: TaskRecipe,
    files: Checksums,
    results: TaskResults,
    others: Mapping[str, Mapping[str, Any]],
) -> None:
    """Say in a file what was done and what came of it."""

    def summary(scores: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
        values = [of_seed[results.metric] for of_seed in scores.values()]
        mean, deviation = mean_and_deviation(values)
        return {
            "mean": mean,
            "deviation": deviation,
            "seeds": {str(k): v for k, v in scores.items()},
        }

    values = {
        "recipe": config_to_dict(recipe),
        "files": files,
        "metric": results.metric,
        "dev": summary(results.dev),
        "test": summary(results.test) if results.test else None,
        "runs": {
            str(seed): {
                "n_steps": run.n_steps,
                "best_step": run.best_step,
                "seconds": run.seconds,
                "n_parameters": run.n_parameters,
                "stopped": run.stopped,
                "layer_weights": results.layer_weights[seed],
            }
            for seed, run in results.fitted.items()
        },
        "other_seeds": others,
        "seconds_encoding": results.seconds_encoding,
        "peak_memory": results.peak_memory,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "elmo": version("elmo-torch"),
    }
    write_json(Path(recipe.output) / RESULTS_FILE, values)
