"""One run of training: a task model learns until dev gets no better.

A step depends on the weights, what the optimiser remembers, the seed and its own number alone, so
that a run that goes on from a saved step makes the same steps as one that never stopped.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, gather_object
from torch import Tensor

from elmo.model.device import named_device
from elmo.tasks.batches import share_of, shuffled_batches
from elmo.tasks.identity import Checksums, check_continues, identity
from elmo.tasks.moving_average import MovingAverage
from elmo.tasks.task import n_rows, n_tokens
from elmo.tasks.trained import Trained
from elmo.training import Budget, MetricLog, Optimiser, Patience
from elmo.training_state import STATE_FILE, TrainingState, read_state

logger = logging.getLogger(__name__)

TELL_SECONDS = 1.0
"""Between two reports."""
SAVE_SECONDS = 600.0
"""Between two saves of a long epoch."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever draws it.

    Attributes:
        seed: Of the run.
        share: Of the budget that is used, 0 to 1; patience may end it earlier.
        step: Steps made.
        examples_per_second: Since the last report.
        seconds_left: At the speed so far, if nothing stops it earlier.
        loss: The mean since the last report.
        best: The best on dev so far, by the task's metric; None before the first measurement.
    """

    seed: int
    share: float
    step: int
    examples_per_second: float
    seconds_left: float
    loss: float
    best: float | None


@dataclass(frozen=True)
class Fitted:
    """What a run came to.

    Attributes:
        scores: On dev, of the best model, which is the one in the folder.
        n_steps: Steps made.
        best_step: The step that made the best model.
        seconds: Of training, without measuring and saving.
        n_parameters: That learned.
        stopped: `budget`, or `patience` when dev got no better.
    """

    scores: Mapping[str, float]
    n_steps: int
    best_step: int
    seconds: float
    n_parameters: int
    stopped: str


@dataclass
class _Steps:
    """What was learned since something was told.

    Attributes:
        begun: When that was, in seconds.
        losses: Of each step.
        n_examples: Of all.
    """

    begun: float
    losses: list[float] = field(default_factory=list)
    n_examples: int = 0

    def add(self, loss: float, n_examples: int) -> None:
        self.losses.append(loss)
        self.n_examples += n_examples

    def mean_loss(self) -> float:
        return float(np.mean(self.losses))

    def speed(self, now: float) -> float:
        """Examples per second."""
        return self.n_examples / max(now - self.begun, 1e-9)


class Fit:
    """A run under way.

    Args:
        trained: The model, with new weights.
        train: Examples to learn from.
        dev: Examples to measure on.
        seed: Of order and dropout.
        files: Of the data, by which a run knows whether it can go on.
        folder: Of the best model, the metric log and the state to go on from.
        accelerator: Device and processes.
        report: Called now and then.
    """

    def __init__(
        self,
        trained: Trained,
        train: Sequence[Any],
        dev: Sequence[Any],
        *,
        seed: int,
        files: Checksums,
        folder: Path,
        accelerator: Accelerator,
        report: Callable[[Progress], object] | None = None,
    ) -> None:
        self.trained, self.train, self.dev, self.seed = trained, train, dev, seed
        self.folder, self.accelerator, self.report = folder, accelerator, report
        self.recipe, self.task = trained.recipe, trained.task
        self.settings, self.metric = self.recipe.training, self.task.metric(trained.labels)
        trained.model.to(accelerator.device).train()
        self.parameters = [p for p in trained.model.parameters() if p.requires_grad]
        self.optimiser = Optimiser(self.recipe.optimiser, self.parameters, ())
        self.average = MovingAverage(self.parameters, self.settings.average_decay)
        # Not all of a model need be used by every batch.
        self.model = accelerator.prepare_model(trained.model)
        self.lengths = [n_tokens(self.task, example) for example in train]
        self.rows = [n_rows(self.task, example) for example in train]
        self.identity = identity(
            self.recipe,
            files,
            trained.encoders,
            n_examples=(len(train), len(dev)),
            n_processes=accelerator.num_processes,
        )
        self.n_steps = self.best_step = 0
        self.epoch, self.position = 0, 0
        self.patience = Patience(self.settings.patience)
        self.scores: dict[str, float] = {}
        self.waited = 0
        before = self._restore()
        self.batches = self._batches(self.epoch)
        self._check_length(before)
        # In epochs, not steps: where batches are bounded by tokens, epochs differ in their number.
        self.budget = Budget(
            self.settings.n_epochs, self.settings.minutes, seconds=before.get("seconds", 0.0)
        )

    def go(self) -> Fitted:
        """Train to the end."""
        if self.accelerator.is_main_process:
            with MetricLog(
                self.folder, after=self.n_steps, tensorboard=self.recipe.tensorboard
            ) as log:
                self._train(log)
        else:
            self._train(None)
        self.accelerator.wait_for_everyone()
        return Fitted(
            self.scores,
            self.n_steps,
            self.best_step,
            self.budget.seconds,
            sum(p.numel() for p in self.parameters),
            "patience" if self.patience.exhausted else "budget",
        )

    def _train(self, log: MetricLog | None) -> None:
        every = self.settings.every_steps
        saved = time.monotonic()
        unreported, unlogged = _Steps(saved), _Steps(self.budget.seconds)
        while not self._over() or not self.n_steps:  # a model there has to be
            while self.position < len(self.batches):
                batch = self.batches[self.position]
                loss = self._step(batch)
                unreported.add(loss, len(batch))
                unlogged.add(loss, len(batch))
                self.position += 1
                due = self._at_end() or (
                    self.n_steps % every == 0 if every else self.position == len(self.batches)
                )
                now = time.monotonic()
                if told := due or now - unreported.begun > TELL_SECONDS:
                    self._report(unreported, now)
                if due:
                    self._log(log, unlogged)
                    self._measure(log)
                    unlogged = _Steps(self.budget.seconds)
                elif now - saved > SAVE_SECONDS:
                    with self.budget.paused():
                        self._save()
                if due or now - saved > SAVE_SECONDS:
                    saved = time.monotonic()
                if told:
                    unreported = _Steps(time.monotonic())
                if due and self._over():
                    return
            self.epoch, self.position = self.epoch + 1, 0
            self.batches = self._batches(self.epoch)

    def _epochs(self) -> float:
        """Passes over the data so far."""
        return self.epoch + self.position / len(self.batches)

    def _progress(self) -> float:
        """Share of the budget that is used, by which the learning rate goes."""
        return self.budget.progress(self._epochs())

    def _at_end(self) -> bool:
        """Whether the budget is used up: by epochs, or by time, of which all processes are told."""
        if self._epochs() >= self.settings.n_epochs:
            return True
        return self.settings.minutes is not None and self._over()

    def _over(self) -> bool:
        over = self._progress() >= 1 or self.patience.exhausted
        # Clocks differ between processes: the first one's counts for all.
        flag = torch.tensor([float(over)], device=self.accelerator.device)
        if self.accelerator.num_processes > 1:
            torch.distributed.broadcast(flag, 0)
        return bool(flag.item())

    def _batches(self, epoch: int) -> list[list[int]]:
        batches = shuffled_batches(
            self.lengths,
            self.rows,
            batch_size=self.settings.batch_size,
            batch_tokens=self.settings.batch_tokens,
            seed=self.seed,
            epoch=epoch,
        )
        return share_of(batches, self.accelerator.process_index, self.accelerator.num_processes)

    def _step(self, batch: Sequence[int]) -> float:
        """Learn from a batch; its loss."""
        rank = self.accelerator.process_index
        noise = np.random.SeedSequence([self.seed, self.n_steps, rank])
        torch.manual_seed(int(noise.generate_state(1, np.uint64)[0] >> 1))
        trained = self.trained
        examples = [self.train[i] for i in batch]
        read = self.task.batch(examples, trained.features, trained.labels)
        loss = self.model(read.to(self.accelerator.device))
        self.accelerator.backward(loss)
        norm = self.optimiser.step(self._progress())
        self.n_steps += 1
        self.average.update(self.n_steps)
        if not math.isfinite(norm):
            raise ValueError(
                f"step {self.n_steps}: the gradient is not finite; begin again in another output "
                "with a lower learning rate"
            )
        return loss.item()

    def _log(self, log: MetricLog | None, steps: _Steps) -> None:
        """Write a line about the steps since the last one."""
        if log is None:
            return
        seconds = self.budget.seconds
        log.write(
            self.n_steps,
            {
                "train/loss": steps.mean_loss(),
                "train/learning_rate": self.optimiser.rate(self._progress()),
                "train/examples_per_second": steps.speed(seconds),
                "train/epochs": self._epochs(),
                "train/minutes": seconds / 60,
            },
        )

    def _report(self, steps: _Steps, now: float) -> None:
        """Tell whoever draws it where the run stands."""
        if self.report is None or not self.accelerator.is_main_process:
            return
        share = self._progress()
        left = self.budget.seconds * (1 - share) / max(share, 1e-9)
        best, speed = self.scores.get(self.metric), steps.speed(now)
        self.report(Progress(self.seed, share, self.n_steps, speed, left, steps.mean_loss(), best))

    def _measure(self, log: MetricLog | None) -> None:
        """Measure on dev; keep the model if it is the best so far; save where the run stands."""
        with self.budget.paused():
            with self.average.used():
                scores = self._dev_scores()
                value = scores[self.metric]
                if log is not None:
                    told = {f"dev/{name}": score for name, score in scores.items()}
                    log.write(self.n_steps, told)
                logger.info("step %d: dev %s %.2f", self.n_steps, self.metric, value)
                if self.patience.improved(-value):
                    self._keep(scores)
                else:
                    self._wait()
            self._save()

    def _keep(self, scores: Mapping[str, float]) -> None:
        """Write the model, which is the best so far."""
        self.scores, self.best_step, self.waited = dict(scores), self.n_steps, 0
        self.trained.scores = self.scores
        if self.accelerator.is_main_process:
            self.trained.save(self.folder)

    def _wait(self) -> None:
        """Lower the learning rate if there was no new best for long enough."""
        self.waited += 1
        if self.settings.halve_after and self.waited >= self.settings.halve_after:
            self.optimiser.scale, self.waited = self.optimiser.scale / 2, 0

    def _dev_scores(self) -> dict[str, float]:
        """Metrics on dev; each process answers a part of it."""
        n, rank = self.accelerator.num_processes, self.accelerator.process_index
        answers = self.trained.predict(self.dev[rank::n])
        if n == 1:
            return self.task.score(self.dev, answers, self.trained.labels)
        of_each = gather_object([answers])
        together: list[Any] = [None] * len(self.dev)
        for k, of_process in enumerate(of_each):
            together[k::n] = of_process
        return self.task.score(self.dev, together, self.trained.labels)

    def _save(self) -> None:
        """Write all that is needed to go on."""
        if not self.accelerator.is_main_process:
            return
        tensors: dict[str, Tensor] = {
            **{f"model.{k}": v for k, v in self.trained.model.state_dict().items()},
            **{f"optimiser.{k}": v for k, v in self.optimiser.state_dict().items()},
            **{f"average.{k}": v for k, v in self.average.state_dict().items()},
        }
        about = {
            "step": self.n_steps,
            "best_step": self.best_step,
            "epoch": self.epoch,
            "position": self.position,
            "best": self.patience.best,
            "n_since": self.patience.n_since,
            "waited": self.waited,
            "scale": self.optimiser.scale,
            "scores": self.scores,
            "seconds": self.budget.seconds,
            "minutes": self.settings.minutes,
            **self.identity,
        }
        TrainingState(tensors, about).write(self.folder)

    def _restore(self) -> Mapping[str, Any]:
        """Go on from what was saved; what was said of it, nothing if there was none."""
        state = read_state(self.folder)
        if state is None:
            return {}
        about = state.about
        check_continues(about, self.identity, self.folder / STATE_FILE)
        self.trained.model.load_state_dict(state.part("model"))
        self.optimiser.load_state_dict(state.part("optimiser"))
        self.average.load_state_dict(state.part("average"))
        self.n_steps, self.best_step = about["step"], about["best_step"]
        self.epoch, self.position = about["epoch"], about["position"]
        self.patience.best, self.patience.n_since = about["best"], about["n_since"]
        self.waited, self.optimiser.scale = about["waited"], about["scale"]
        self.scores = about["scores"]
        self.trained.scores = dict(self.scores)
        logger.info("seed %d: going on from step %d", self.seed, self.n_steps)
        return about

    def _check_length(self, before: Mapping[str, Any]) -> None:
        """Refuse a budget that a run has passed already: what is there is not of it.

        Raises:
            ValueError: If it has.
        """
        settings, where = self.settings, self.folder / STATE_FILE
        epochs, minutes = self._epochs(), before.get("seconds", 0.0) / 60
        if epochs > settings.n_epochs:
            raise ValueError(
                f"{where} is of a run that has made {epochs:.3g} epochs, but training.n_epochs is "
                f"{settings.n_epochs}: give another output, or as many"
            )
        # By the clock a run ends a little late.
        changed = before.get("minutes", settings.minutes) != settings.minutes
        if settings.minutes is not None and changed and minutes > settings.minutes:
            raise ValueError(
                f"{where} is of a run that has taken {minutes:.3g} minutes, but training.minutes "
                f"is {settings.minutes:g}: give another output, or as many"
            )


def accelerator_for(device: str) -> Accelerator:
    """The processes and the device of a run; `torchrun` or `accelerate launch` make several.

    Raises:
        ValueError: If there is no such device.
    """
    target = named_device(device)
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    return Accelerator(cpu=target.type == "cpu", kwargs_handlers=[unused])
