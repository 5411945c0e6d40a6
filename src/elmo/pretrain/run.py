"""A pre-training run: recipe in, model folder out."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from threading import Event
from typing import Any

import torch

from elmo.checkpoints.folder import CONFIG_FILE, Checkpoint, load_folder, save_folder
from elmo.checkpoints.sources import load
from elmo.config import BiLMConfig
from elmo.folder_lock import alone_in
from elmo.model.device import named_device
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.identity import (
    check_continues,
    circumstances,
    identity,
    warn_of_rounding,
)
from elmo.pretrain.interruption import stop_requests
from elmo.pretrain.learner import Learner, Step, compiled_cells, n_tokens_at_most
from elmo.pretrain.perplexity import Perplexity
from elmo.pretrain.prepare import Progress as CorpusProgress
from elmo.pretrain.processes import joined
from elmo.pretrain.recipe import PretrainRecipe
from elmo.pretrain.report import Pretrained, Progress
from elmo.pretrain.run_folder import LAST_FOLDER, check_output, sweep, write_summary
from elmo.pretrain.run_start import adaptation_start, corpora, new_model
from elmo.pretrain.validation import Validation
from elmo.training import FINAL, Budget, MetricLog
from elmo.training_state import TrainingState, read_state

logger = logging.getLogger(__name__)


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
            stack.enter_context(alone_in(output))
            check_output(output, resume=resume)
            sweep(output)
        # Read first: what is wrong with it is told before a large corpus is prepared.
        origin = None if recipe.start is None else load(recipe.start.model, softmax=True)
        architecture = recipe.model or (BiLMConfig() if origin is None else origin.bilm.config)
        max_chars = architecture.char_cnn.max_chars
        corpus, heldout = corpora(recipe, processes, max_chars, n_processes, progress)
        start = None
        if origin is not None:
            assert recipe.start is not None
            corpus, start = adaptation_start(recipe, recipe.start, origin, corpus)
        known_by = identity(recipe, corpus, heldout, origin, processes)
        state = read_state(output)
        if state is not None:
            check_continues(state, known_by)
            if processes.first:
                warn_of_rounding(state)
            logger.info("going on from step %s", f"{state.about['step']:,}")
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        model = new_model(recipe, len(corpus.vocabulary)) if start is None else start.model
        learner = Learner(model.to(device).train(), corpus, recipe, processes, state, start)
        run = _Run(recipe, learner, heldout, known_by, state, report)
        return run.go(measure_first=start is not None)


class _Run:
    """A run under way: what is measured, kept and told between the learner's steps."""

    def __init__(
        self,
        recipe: PretrainRecipe,
        learner: Learner,
        heldout: Corpus | None,
        known_by: Mapping[str, Any],
        state: TrainingState | None,
        report: Callable[[Progress], object] | None,
    ) -> None:
        self.recipe, self.learner, self.heldout, self.report = recipe, learner, heldout, report
        self.model, self.corpus, self.processes = learner.model, learner.corpus, learner.processes
        self.output, self.known_by = Path(recipe.output), known_by
        about = {} if state is None else state.about
        self.validation = Validation(recipe.validation, learner, heldout, about)
        self.budget = Budget(
            n_tokens_at_most(recipe, self.corpus),
            recipe.training.minutes,
            seconds=about.get("seconds", 0.0),
        )
        self.kind = "sampled" if learner.n_negatives else "full"

    def go(self, *, measure_first: bool) -> Pretrained:
        """Train to the end; `measure_first` what the model to adapt predicts as it is."""
        with ExitStack() as stack:
            log = stack.enter_context(_log_of(self.recipe, self.learner))
            stop = stack.enter_context(stop_requests())
            if self.recipe.training.compile:
                stack.enter_context(compiled_cells())
            if measure_first and self.learner.n_steps == 0 and self.validation.before is None:
                self._measure_start(log)
            self._train(log, stop)
            return self._finish(log)

    def _train(self, log: MetricLog | None, stop: Event) -> None:
        learner, every = self.learner, self.recipe.log.every_steps
        sums, n_tokens, last_seconds, saved = None, 0, self.budget.seconds, time.monotonic()
        (share,) = self.processes.from_first([self._share()])
        while share < 1 and not self.validation.patience.exhausted:
            before = learner.n_tokens
            step = learner.step(share)
            if not math.isfinite(step.norm):
                raise ValueError(
                    f"step {learner.n_steps}: the gradient is not finite; lower the learning rate, "
                    "and give another output: a run goes on at its own rate only"
                )
            sums = step.losses if sums is None else sums + step.losses
            n_tokens += step.n_tokens
            wanted = time.monotonic() - saved > self.recipe.log.save_minutes * 60
            share, saving = self.processes.from_first([self._share(), float(wanted)])
            stopping = self.processes.any(stop.is_set())
            if learner.n_steps % every == 0 or share >= 1:
                losses = (self.processes.sum(sums) / n_tokens).exp().tolist()
                seconds = self.budget.seconds
                speed = n_tokens / max(seconds - last_seconds, 1e-9)
                self._tell(log, share, step, speed, losses)
                sums, n_tokens, last_seconds = None, 0, seconds
            due = self.validation.due(before) or share >= 1
            # With a best model the state: a run that is killed would go on knowing nothing of it.
            best = due and self._validate(log)
            if saving or stopping or best:
                self._save(optional=not stopping)
                saved = time.monotonic()
            if stopping:
                logger.warning("interrupted; --resume goes on from step %s", learner.n_steps)
                self.processes.wait()  # torchrun ends all when one has ended: the first may save
                raise KeyboardInterrupt

    def _share(self) -> float:
        return self.budget.progress(self.learner.n_tokens)

    def _tell(
        self,
        log: MetricLog | None,
        share: float,
        step: Step,
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
                    "train/gradient_norm": step.norm,
                    "train/learning_rate": step.rate,
                    "train/tokens_per_second": speed,
                    "train/tokens": learner.n_tokens,
                    "train/minutes": self.budget.seconds / 60,
                },
            )
        if self.report is not None and self.processes.first:
            left = self.budget.seconds * (1 - share) / max(share, 1e-9)
            now = (share, learner.n_steps, speed, left, self.kind, forward_lm, backward_lm)
            with self.budget.paused():
                self.report(Progress(*now, self.validation.last))

    def _measure_start(self, log: MetricLog | None) -> None:
        """What the run starts from is a model too: the best so far."""
        if self.heldout is not None:
            with self.budget.paused():
                self.validation.before = self.validation.measure()
                if self._validate(log):
                    self._save(optional=True)

    def _validate(self, log: MetricLog | None) -> bool:
        """Measure on some held-out text; whether the model is the best so far, and was kept."""
        validation, patience = self.validation, self.validation.patience
        with self.budget.paused():
            if self.heldout is None:
                validation.best_step = self.learner.n_steps
                return False
            measured = validation.last = validation.measure(self.recipe.validation.n_sentences)
            self._write_measured(log, measured, "heldout")
            best_before = patience.best
            # While the biLM is frozen, that nothing gets better says nothing of what is to come.
            if not patience.improved(measured.average, counted=self.learner.in_last_phase):
                return False
            kept = self._keep_best()
            if kept:
                validation.best_step = self.learner.n_steps
            else:  # the next one that is better than what was kept will try again
                patience.best = best_before
            return kept

    def _keep_best(self) -> bool:
        """Write the model; whether that went well, as all processes are told."""
        written = True
        try:
            self._save_model(self.output)
        except OSError as error:
            logger.warning("could not write the best model so far: %s", error)
            written = False
        return bool(self.processes.from_first([float(written)])[0])

    def _write_measured(self, log: MetricLog | None, measured: Perplexity, what: str) -> None:
        logger.info("step %s: %s %s", f"{self.learner.n_steps:,}", what, measured)
        if log is not None:
            log.write(
                self.learner.n_steps,
                {
                    f"{what}/forward_perplexity_full": measured.forward_lm,
                    f"{what}/backward_perplexity_full": measured.backward_lm,
                    f"{what}/predictions": measured.n_tokens,
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
            "drawn_by": self.learner.drawn_by,
            **self.validation.about(),
            **circumstances(),
            **self.known_by,
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
        stopped = (
            "patience" if self.validation.patience.exhausted and self._share() < 1 else "budget"
        )
        self._save()
        if self.validation.best_step != learner.n_steps:
            self._save_model(self.output / LAST_FOLDER)
            self._take_best()
        self.model.requires_grad_(True)  # a phase may have ended in which some of it was frozen
        heldout = None if self.heldout is None else self.validation.measure()
        if heldout is not None:
            self._write_measured(log, heldout, FINAL)
        self.model.eval()
        result = Pretrained(
            self.model,
            self.corpus.vocabulary,
            heldout,
            self.validation.before,
            learner.n_steps,
            self.validation.best_step,
            learner.n_tokens,
            self.budget.seconds,
            stopped,
            self.processes.first,
        )
        if self.processes.first:
            write_summary(self.recipe, result, self.processes.n, self.corpus)
        self.processes.wait()
        return result

    def _take_best(self) -> None:
        if self.processes.first:
            best = load_folder(self.output)
            assert best.softmax is not None
            self.model.bilm.load_state_dict(best.bilm.state_dict())
            self.model.softmax.load_state_dict(best.softmax.state_dict())
        self.processes.same_as_first(self.model.parameters())


def _log_of(recipe: PretrainRecipe, learner: Learner) -> AbstractContextManager[MetricLog | None]:
    """The metric log, of the first process alone."""
    if not learner.processes.first:
        return nullcontext()
    return MetricLog(Path(recipe.output), after=learner.n_steps, tensorboard=recipe.log.tensorboard)
