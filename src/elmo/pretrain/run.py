"""A pre-training run: recipe in, model folder out."""

import json
import logging
import math
import os
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, astuple, dataclass
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import filelock
import torch

from elmo.checkpoints.folder import CONFIG_FILE, Checkpoint, load_folder, save_folder
from elmo.checkpoints.sources import load
from elmo.config import BiLMConfig, config_to_dict
from elmo.model.bilm import BiLM
from elmo.model.device import named_device
from elmo.model.softmax import Softmax
from elmo.model.softmax_adaptive import AdaptiveSoftmax, AnySoftmax
from elmo.pretrain.adaptation import Beginning, begin, domain_vocabulary
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.learner import Learner, compiled_cells, tokens_of_epochs
from elmo.pretrain.perplexity import Perplexity, PerplexitySums, perplexity_sums
from elmo.pretrain.prepare import Progress as CorpusProgress
from elmo.pretrain.prepare import open_prepared, prepare
from elmo.pretrain.processes import Processes, joined
from elmo.pretrain.recipe import PretrainRecipe, StartConfig
from elmo.text import Vocabulary
from elmo.training import Budget, MetricLog, Patience
from elmo.training_state import STATE_FILE, TrainingState, check_continues, read_state

logger = logging.getLogger(__name__)

LOCK_FILE, SUMMARY_FILE = ".lock", "pretraining.json"
CORPUS_FOLDER, LAST_FOLDER = "corpus", "last"
MOST_TOKENS_UNMEASURED = 2_000_000


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever draws it.

    Attributes:
        share: Of the budget that is used, 0 to 1.
        step: Steps made.
        tokens_per_second: Predictions per direction, since the last report.
        seconds_left: At the speed so far, if nothing stops it earlier.
        softmax: `sampled`, which makes the two numbers below estimates and no perplexities, or
            `full`.
        forward_lm: exp of the training loss.
        backward_lm: Likewise.
        heldout: The last measurement on held-out text, by the full softmax.
    """

    share: float
    step: int
    tokens_per_second: float
    seconds_left: float
    softmax: str
    forward_lm: float
    backward_lm: float
    heldout: Perplexity | None


@dataclass(frozen=True)
class Pretrained:
    """What a run made.

    Attributes:
        model: The best by held-out perplexity; without held-out text the last.
        vocabulary: The words that it predicts.
        heldout: Its perplexity on all held-out text; None where there is none.
        before: That of the model the run started from, where it started from one.
        n_steps: Steps made.
        best_step: The step that made `model`.
        n_tokens: Predictions per direction.
        seconds: Of training, without saving and measuring.
        stopped: `budget`, or `patience` when it no longer got better.
        first_process: Whether this is the process that speaks, of several.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    heldout: Perplexity | None
    before: Perplexity | None
    n_steps: int
    best_step: int
    n_tokens: int
    seconds: float
    stopped: str
    first_process: bool = True


def pretrain(
    recipe: PretrainRecipe,
    *,
    resume: bool = False,
    n_processes: int = 1,
    report: Callable[[Progress], object] | None = None,
    progress: CorpusProgress | None = None,
) -> Pretrained:
    """Train a biLM from text.

    Writes into the recipe's output folder: the best model so far with its vocabulary and softmax,
    the last one in `last/` if it is another, `training.safetensors` to go on from,
    `pretraining.json` with what was done, `metrics.jsonl` and TensorBoard events.

    The first Ctrl-C (or SIGTERM) ends the run after the current step, with everything saved; the
    second one at once.

    Args:
        recipe: What to do.
        resume: Go on with the run in the output folder, if there is one; by a budget of tokens or
            epochs, on a CPU with the same number of threads, the model will be the same to the
            last bit as if it had never stopped.
        n_processes: Of these the corpus is prepared by; see `elmo.pretrain.prepare.prepare`.
        report: Called now and then while training.
        progress: Called while the corpus is prepared, with the share done and what is being done.

    Raises:
        FileNotFoundError: If a file of text is missing.
        ValueError: If the corpus is empty, held-out text is trained on, the folder holds another
            run, another process is writing into it, the recipe is not that of the run to go on
            with, or a gradient is not finite.
        KeyboardInterrupt: After Ctrl-C.
    """
    output = Path(recipe.output)
    with ExitStack() as stack:
        processes, device = stack.enter_context(joined(named_device(recipe.training.device)))
        if processes.first:
            stack.enter_context(_alone_in(output))
            _check_output(output, resume=resume)
        # Read first: what is wrong with it is told before a large corpus is prepared.
        origin = None if recipe.start is None else load(recipe.start.model, softmax=True)
        architecture = recipe.model or (BiLMConfig() if origin is None else origin.bilm.config)
        max_chars = architecture.char_cnn.max_chars
        corpus, heldout = _corpora(recipe, processes, max_chars, n_processes, progress)
        start = None
        if origin is not None:
            assert recipe.start is not None
            corpus, start = _begin(recipe, recipe.start, origin, corpus)
        state = read_state(output)
        if state is not None:
            check_continues(state, **_identity(recipe, corpus, processes))
            logger.info("going on from step %s", f"{state.about['step']:,}")
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        model = new_model(recipe, len(corpus.vocabulary)) if start is None else start.model
        learner = Learner(model.to(device).train(), corpus, recipe, processes, state, start)
        run = _Run(recipe, learner, heldout, state, report)
        return run.go(measure_first=start is not None)


def _begin(
    recipe: PretrainRecipe, settings: StartConfig, origin: Checkpoint, corpus: Corpus
) -> tuple[Corpus, Beginning]:
    """The corpus with the words to predict, and the trained model with a softmax over them."""
    counts = corpus.counts()
    vocabulary = domain_vocabulary(
        None if origin.softmax is None else origin.vocabulary,
        counts,
        how=settings.vocabulary,
        max_words=None if recipe.corpus is None else recipe.corpus.max_words,
        min_count=2 if recipe.corpus is None else recipe.corpus.min_count,
    )
    start = begin(
        origin,
        vocabulary,
        counts,
        corpus.n_sentences,
        dropout=settings.dropout,
        softmax_share=settings.softmax_share,
    )
    logger.info(
        "starting from %s: %s words, %s of them new to it; %s of its words are left out",
        settings.model,
        f"{len(vocabulary):,}",
        f"{start.n_new:,}",
        f"{start.n_forgotten:,}",
    )
    return corpus.with_vocabulary(vocabulary), start


def _corpora(
    recipe: PretrainRecipe,
    processes: Processes,
    max_chars: int,
    n_processes: int,
    progress: CorpusProgress | None,
) -> tuple[Corpus, Corpus | None]:
    """What to learn from, and what is held out; the first process prepares it if need be."""
    folder = Path(recipe.prepared or Path(recipe.output) / CORPUS_FOLDER)
    if processes.first and recipe.corpus is not None:
        prepare(
            recipe.corpus,
            folder,
            max_chars=max_chars,
            n_processes=n_processes,
            progress=progress,
        )
    processes.wait()
    prepared = open_prepared(folder)
    counts = prepared.counts
    logger.info(
        "%s tokens in %s sentences, %s distinct; vocabulary of %s words, %.2f %% of tokens outside",
        f"{counts.n_tokens:,}",
        f"{counts.n_sentences:,}",
        f"{counts.n_types:,}",
        f"{counts.n_words:,}",
        100 * counts.n_unknown / max(1, counts.n_tokens),
    )
    if prepared.heldout is None:
        logger.warning("no text is held out, so nothing tells when to stop: give corpus.heldout")
    return prepared.train, prepared.heldout


def new_model(recipe: PretrainRecipe, n_words: int) -> LanguageModel:
    """A model with the weights that the recipe's seed draws."""
    torch.manual_seed(recipe.seed)
    config = recipe.model or BiLMConfig()
    bilm = BiLM(config)
    bilm.reset_parameters()
    dim = config.lstm.dim
    softmax: AnySoftmax = (
        AdaptiveSoftmax(n_words, dim, recipe.adaptive_softmax)
        if recipe.training.softmax == "adaptive"
        else Softmax(n_words, dim)
    )
    softmax.reset_parameters()
    return LanguageModel(bilm, softmax)


class _Run:
    """A run under way: what is measured, kept and told between the learner's steps."""

    def __init__(
        self,
        recipe: PretrainRecipe,
        learner: Learner,
        heldout: Corpus | None,
        state: TrainingState | None,
        report: Callable[[Progress], object] | None,
    ) -> None:
        self.recipe, self.learner, self.heldout, self.report = recipe, learner, heldout, report
        self.model, self.corpus, self.processes = learner.model, learner.corpus, learner.processes
        self.output = Path(recipe.output)
        about: dict[str, Any] = {
            "seconds": 0.0,
            "best": math.inf,
            "n_since": 0,
            "best_step": 0,
            "before": None,
            **({} if state is None else state.about),
        }
        self.best_step: int = about["best_step"]
        self.before = None if about["before"] is None else Perplexity(**about["before"])
        self.measured: Perplexity | None = None
        self.patience = Patience(recipe.validation.patience, about["best"], about["n_since"])
        self.budget = Budget(
            n_tokens_at_most(recipe, self.corpus),
            recipe.training.minutes,
            seconds=about["seconds"],
        )
        self.kind = "sampled" if learner.n_negatives else "full"

    def go(self, *, measure_first: bool) -> Pretrained:
        """Train to the end; `measure_first` what the model to adapt predicts as it is."""
        with ExitStack() as stack:
            log = stack.enter_context(_log_of(self.recipe, self.learner))
            stop = stack.enter_context(_stop_requests())
            if self.recipe.training.compile:
                stack.enter_context(compiled_cells())
            if measure_first and self.learner.n_steps == 0:
                self._measure_start(log)
            self._train(log, stop)
            return self._finish(log)

    def _train(self, log: MetricLog | None, stop: threading.Event) -> None:
        learner, every = self.learner, self.recipe.log.every_steps
        interval = self.recipe.validation.every_tokens or min(
            MOST_TOKENS_UNMEASURED, tokens_of_epochs(self.corpus, 1.0)
        )
        sums, n_tokens, last_seconds, saved = None, 0, self.budget.seconds, time.monotonic()
        (share,) = self.processes.from_first([self._share()])
        while share < 1 and not self.patience.exhausted:
            before = learner.n_tokens
            step = learner.step(share)
            if not math.isfinite(step.norm):
                raise ValueError(
                    f"step {learner.n_steps}: the gradient is not finite; lower the learning rate"
                )
            sums = step.losses if sums is None else sums + step.losses
            n_tokens += step.n_tokens
            wanted = time.monotonic() - saved > self.recipe.log.save_minutes * 60
            share, stopping, saving = self.processes.from_first(
                [self._share(), float(stop.is_set()), float(wanted)]
            )
            if learner.n_steps % every == 0 or share >= 1:
                losses = (self.processes.sum(sums) / n_tokens).exp().tolist()
                seconds = self.budget.seconds
                speed = n_tokens / max(seconds - last_seconds, 1e-9)
                self._tell(log, share, step.norm, speed, losses)
                sums, n_tokens, last_seconds = None, 0, seconds
            if learner.n_tokens // interval > before // interval or share >= 1:
                self._validate(log)
            if saving or stopping:
                self._save(optional=not stopping)
                saved = time.monotonic()
            if stopping:
                logger.warning("interrupted; --resume goes on from step %s", learner.n_steps)
                raise KeyboardInterrupt

    def _share(self) -> float:
        return self.budget.progress(self.learner.n_tokens)

    def _tell(
        self,
        log: MetricLog | None,
        share: float,
        norm: float,
        speed: float,
        losses: list[float],
    ) -> None:
        """Write a line of the log, and report."""
        learner, (forward_lm, backward_lm) = self.learner, losses
        if log is not None:
            log.write(
                learner.n_steps,
                {
                    f"train/forward_exp_loss_{self.kind}": forward_lm,
                    f"train/backward_exp_loss_{self.kind}": backward_lm,
                    "train/gradient_norm": norm,
                    "train/learning_rate": learner.optimiser.rate(share),
                    "train/tokens_per_second": speed,
                    "train/tokens": learner.n_tokens,
                    "train/minutes": self.budget.seconds / 60,
                },
            )
        if self.report is not None and self.processes.first:
            left = self.budget.seconds * (1 - share) / max(share, 1e-9)
            now = (share, learner.n_steps, speed, left, self.kind, forward_lm, backward_lm)
            with self.budget.paused():
                self.report(Progress(*now, self.measured))

    def _measure_start(self, log: MetricLog | None) -> None:
        """What the run starts from is a model too: the best so far."""
        if self.heldout is not None:
            with self.budget.paused():
                self.before = self._measure(None)
                self._validate(log)

    def _validate(self, log: MetricLog | None) -> None:
        """Measure on some held-out text; keep the model if it is the best so far."""
        with self.budget.paused():
            if self.heldout is None:
                self.best_step = self.learner.n_steps
                return
            measured = self._measure(self.recipe.validation.n_sentences)
            self.measured = measured
            self._write_measured(log, measured)
            best_before = self.patience.best
            if self.patience.improved(measured.average):
                if self._keep_best():
                    self.best_step = self.learner.n_steps
                else:  # the next one that is better than what was kept will try again
                    self.patience.best = best_before

    def _keep_best(self) -> bool:
        """Write the model; whether that went well, as all processes are told."""
        written = True
        try:
            self._save_model(self.output)
        except OSError as error:
            logger.warning("could not write the best model so far: %s", error)
            written = False
        return bool(self.processes.from_first([float(written)])[0])

    def _measure(self, n_sentences: int | None) -> Perplexity:
        """Perplexity on the held-out text, or so many of its sentences; shared by processes."""
        assert self.heldout is not None
        n = self.heldout.n_sentences
        chosen = range(n) if n_sentences is None else range(0, n, max(1, -(-n // n_sentences)))
        sentences = map(self.heldout.text, chosen[self.processes.rank :: self.processes.n])
        self.model.eval()
        sums = perplexity_sums(self.model, self.corpus.vocabulary, sentences)
        self.model.train()
        numbers = torch.tensor(astuple(sums), dtype=torch.float64)
        forward_lm, backward_lm, *counts = self.processes.sum(numbers).tolist()
        return PerplexitySums(forward_lm, backward_lm, *map(int, counts)).result()

    def _write_measured(self, log: MetricLog | None, measured: Perplexity) -> None:
        logger.info("step %s: held-out %s", f"{self.learner.n_steps:,}", measured)
        if log is not None:
            log.write(
                self.learner.n_steps,
                {
                    "heldout/forward_perplexity_full": measured.forward_lm,
                    "heldout/backward_perplexity_full": measured.backward_lm,
                    "heldout/predictions": measured.n_tokens,
                    "train/tokens": self.learner.n_tokens,
                    "train/minutes": self.budget.seconds / 60,
                },
            )

    def _save(self, *, optional: bool = False) -> None:
        """Write all that is needed to go on; a full disk stops a run only where it must.

        The older state stays if the new one cannot be written.
        """
        with self.budget.paused():
            tensors = self.learner.tensors()  # gathered from all processes
            if not self.processes.first:
                return
            try:
                TrainingState(tensors, self._about()).write(self.output)
                if self.heldout is None or not (self.output / CONFIG_FILE).exists():
                    self._save_model(self.output)
            except OSError as error:
                if not optional:
                    raise
                logger.warning("could not save, the last save stays: %s", error)

    def _about(self) -> dict[str, Any]:
        return {
            "step": self.learner.n_steps,
            "n_tokens": self.learner.n_tokens,
            "seconds": self.budget.seconds,
            "best": self.patience.best,
            "n_since": self.patience.n_since,
            "best_step": self.best_step,
            "before": None if self.before is None else asdict(self.before),
            **_identity(self.recipe, self.corpus, self.processes),
        }

    def _save_model(self, folder: Path) -> None:
        if self.processes.first:
            save_folder(
                Checkpoint(self.model.bilm, self.corpus.vocabulary, self.model.softmax), folder
            )

    def _finish(self, log: MetricLog | None) -> Pretrained:
        """Save the end of the run, measure its best model on all held-out text, say what it did."""
        with self.budget.paused():
            return self._ended(log)

    def _ended(self, log: MetricLog | None) -> Pretrained:
        learner = self.learner
        stopped = "patience" if self.patience.exhausted and self._share() < 1 else "budget"
        self._save()
        if self.best_step != learner.n_steps:
            self._save_model(self.output / LAST_FOLDER)
            self._take_best()
        self.model.requires_grad_(True)  # a phase may have ended in which some of it was frozen
        heldout = None if self.heldout is None else self._measure(None)
        if heldout is not None:
            self._write_measured(log, heldout)
        self.model.eval()
        result = Pretrained(
            self.model,
            self.corpus.vocabulary,
            heldout,
            self.before,
            learner.n_steps,
            self.best_step,
            learner.n_tokens,
            self.budget.seconds,
            stopped,
            self.processes.first,
        )
        if self.processes.first:
            _write_summary(self.recipe, result, self.processes.n, self.corpus)
        self.processes.wait()
        return result

    def _take_best(self) -> None:
        if self.processes.first:
            best = load_folder(self.output)
            assert best.softmax is not None
            self.model.bilm.load_state_dict(best.bilm.state_dict())
            self.model.softmax.load_state_dict(best.softmax.state_dict())
        self.processes.same_as_first(self.model.parameters())


def n_tokens_at_most(recipe: PretrainRecipe, corpus: Corpus) -> int | None:
    """Predictions per direction that the recipe allows; None where only time counts."""
    settings, bounds = recipe.training, []
    if settings.n_tokens is not None:
        bounds.append(settings.n_tokens)
    if settings.n_epochs is not None:
        bounds.append(tokens_of_epochs(corpus, settings.n_epochs))
    return min(bounds, default=None)


def _identity(
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


def _write_summary(
    recipe: PretrainRecipe, result: Pretrained, n_processes: int, corpus: Corpus
) -> None:
    """Say in a file what was done, for whoever finds the model."""
    measured = {"heldout": result.heldout, "heldout_before": result.before}
    values = {
        "recipe": config_to_dict(recipe),
        "corpus": {"sentences": corpus.n_sentences, "tokens": corpus.n_tokens},
        **{k: None if v is None else asdict(v) for k, v in measured.items()},
        **{
            name: getattr(result, name)
            for name in ("n_steps", "best_step", "n_tokens", "seconds", "stopped")
        },
        "processes": n_processes,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "elmo": version("elmo-torch"),
    }
    path = Path(recipe.output) / SUMMARY_FILE
    beside = path.with_name(f"{path.name}.tmp")
    beside.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    os.replace(beside, path)


def _log_of(recipe: PretrainRecipe, learner: Learner) -> AbstractContextManager[MetricLog | None]:
    """The metric log, of the first process alone."""
    if not learner.processes.first:
        return nullcontext()
    return MetricLog(Path(recipe.output), after=learner.n_steps, tensorboard=recipe.log.tensorboard)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; the operating system lets go of it if we are killed."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise ValueError(
            f"another run is writing into {folder}: wait for it, or give another output"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _check_output(folder: Path, *, resume: bool) -> None:
    """Refuse to begin where a run or a model is, and to go on where there is only a model."""
    has_run, has_model = (folder / STATE_FILE).exists(), (folder / CONFIG_FILE).exists()
    if not resume and (has_run or has_model):
        raise ValueError(
            f"{folder} holds a {'run' if has_run else 'model'} already: give another output"
            + (", or --resume to go on with it" if has_run else "")
        )
    if resume and has_model and not has_run:
        raise ValueError(
            f"{folder} holds a model, but no {STATE_FILE} to go on from: give another output"
        )


@contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second one is as always."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[int, Any] = {}

    def request(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before[number])
        stop.set()

    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        before[number] = signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
