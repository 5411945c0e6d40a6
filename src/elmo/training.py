"""What every training here shares: optimiser, schedule, clipping, budget, patience, metric log."""

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from elmo.config import check_positive

OPTIMISERS = ("adagrad", "adamw", "adam", "adadelta", "sgd")
SCHEDULES = ("constant", "linear", "cosine", "trapezoid")
METRICS_FILE = "metrics.jsonl"
FINAL = "final"
"""Metrics called `final/…` are of the end of a run."""


@dataclass(frozen=True)
class OptimiserConfig:
    """How weights are changed.

    Args:
        name: `adagrad` as the original has it (accumulators start at 1); `adamw` (decoupled
            weight decay; parameters with sparse gradients are updated lazily, without decay); or,
            where no gradient is sparse, `adam`, `adadelta` (ρ 0.95) or `sgd`, as the task models
            of the paper have them, with weight decay as an L2 penalty.
        learning_rate: At its highest. The original trains with Adagrad at 0.2.
        warmup: Share of the budget in which the rate rises from zero.
        schedule: `constant`; or a fall to zero over the rest of the budget by a line or a cosine;
            or `trapezoid`: constant, then a fall by a line over the last `decay` of the budget, so
            that until then a run can be given more time without changing what it has done.
        decay: Share of the budget in which the rate of a `trapezoid` falls.
        betas: Of `adamw` and `adam`.
        weight_decay: For dense matrices; not of `adagrad`.
        clip_norm: Gradients of all parameters together are scaled down to this norm.
    """

    name: str = "adamw"
    learning_rate: float = 1e-3
    warmup: float = 0.02
    schedule: str = "cosine"
    decay: float = 0.2
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in OPTIMISERS:
            raise ValueError(f"optimiser {self.name!r} is unknown: give one of {OPTIMISERS}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule {self.schedule!r} is unknown: give one of {SCHEDULES}")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup is {self.warmup}, but it is a share of the budget below 1")
        if not 0 < self.decay <= 1 - self.warmup:
            raise ValueError(
                f"decay is {self.decay}, but it is a share of the budget above 0, and with warmup "
                f"({self.warmup}) at most 1"
            )
        check_positive(self, "learning_rate", "clip_norm")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas is {self.betas}, but each is at least 0 and below 1")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise ValueError(f"weight_decay is {self.weight_decay}, but must be 0 or more")


class Optimiser:
    """Clips, steps and schedules; parameters with sparse gradients have an optimiser of their own.

    Args:
        config: What to do.
        dense: Parameters with ordinary gradients.
        sparse: Parameters whose gradients are sparse tensors.

    Attributes:
        scale: What the rate is multiplied by: for those who lower it when nothing gets better.
    """

    def __init__(
        self, config: OptimiserConfig, dense: Iterable[nn.Parameter], sparse: Iterable[nn.Parameter]
    ) -> None:
        self.config = config
        self.scale = 1.0
        self.dense, self.sparse = list(dense), list(sparse)
        self._order = [*self.dense, *self.sparse]
        rate = config.learning_rate
        self._parts: list[torch.optim.Optimizer] = []
        if config.name == "adagrad":
            parameters = [*self.dense, *self.sparse]
            self._parts.append(
                torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0)
            )
            return
        matrices = [p for p in self.dense if p.ndim > 1]
        rest = [p for p in self.dense if p.ndim <= 1]
        groups: list[dict[str, Any]] = [
            {"params": parameters, "weight_decay": decay}
            for parameters, decay in ((matrices, config.weight_decay), (rest, 0.0))
            if parameters
        ]
        if self.sparse and config.name != "adamw":
            raise ValueError(
                f"{config.name} cannot take sparse gradients: give adamw or adagrad, or train with "
                "a full softmax"
            )
        self._parts.append(_optimiser_of(config, groups))
        if self.sparse:
            self._parts.append(torch.optim.SparseAdam(self.sparse, lr=rate, betas=config.betas))

    def rate(self, progress: float) -> float:
        """The learning rate when `progress`, from 0 to 1, of the budget is used."""
        config = self.config
        if progress < config.warmup:
            return config.learning_rate * self.scale * progress / config.warmup
        left = 1 - min(1.0, (progress - config.warmup) / (1 - config.warmup))
        factor = {
            "constant": 1.0,
            "linear": left,
            "cosine": 0.5 - 0.5 * math.cos(math.pi * left),
            "trapezoid": min(1.0, left * (1 - config.warmup) / config.decay),
        }[config.schedule]
        return config.learning_rate * factor * self.scale

    def step(self, progress: float) -> float:
        """Clip all gradients by their common norm, change the weights, forget the gradients.

        Returns:
            The norm before clipping. If it is not finite, no weight was changed.
        """
        norm = clip_gradients(self._order, self.config.clip_norm)
        if not math.isfinite(norm):
            return norm
        rate = self.rate(progress)
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = rate
            # PyTorch's own code makes sparse tensors without saying that they need no checks.
            with torch.sparse.check_sparse_tensor_invariants(False):
                part.step()
            part.zero_grad(set_to_none=True)
        return norm

    def state_dict(self) -> dict[str, Tensor]:
        """All that a step leaves for the next: tensors named by parameter and meaning."""
        numbers = {id(parameter): i for i, parameter in enumerate(self._order)}
        return {
            f"{numbers[id(parameter)]}.{name}": torch.as_tensor(value)
            for part in self._parts
            for parameter, values in part.state.items()
            for name, value in values.items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` gave, for the same parameters.

        Raises:
            ValueError: If a tensor is of another shape than its parameter.
        """
        for part in self._parts:
            for group in part.param_groups:
                for parameter in group["params"]:
                    (number,) = (i for i, p in enumerate(self._order) if p is parameter)
                    part.state[parameter] = {
                        name.partition(".")[2]: self._restored(part, name, value, parameter)
                        for name, value in state.items()
                        if name.startswith(f"{number}.")
                    }

    def _restored(
        self, part: torch.optim.Optimizer, name: str, value: Tensor, parameter: nn.Parameter
    ) -> Tensor | int:
        if name.endswith(".step"):
            fused = isinstance(part, torch.optim.Adam)  # and AdamW, which is one
            if isinstance(part, torch.optim.SparseAdam):
                return int(value)
            return value.clone().to(parameter.device if fused else "cpu")
        if value.shape != parameter.shape:
            raise ValueError(
                f"the optimiser's {name} has shape {tuple(value.shape)}, but its parameter "
                f"{tuple(parameter.shape)}: it is of another model"
            )
        return value.clone().to(parameter.device)


def _optimiser_of(config: OptimiserConfig, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    rate = config.learning_rate
    if config.name == "adamw":
        return torch.optim.AdamW(groups, lr=rate, betas=config.betas, fused=True)
    if config.name == "adam":
        return torch.optim.Adam(groups, lr=rate, betas=config.betas, fused=True)
    if config.name == "adadelta":
        return torch.optim.Adadelta(groups, lr=rate, rho=0.95)
    return torch.optim.SGD(groups, lr=rate)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale gradients, dense and sparse, so that their common norm is at most `max_norm`.

    Returns:
        The norm before clipping. Where it is not finite, the gradients are left as they are.

    Source:
        `tf.clip_by_global_norm`.
    """
    values = [_values(p.grad) for p in parameters if p.grad is not None]
    squares = [v.float().square().sum() for v in values]
    # Together: each look at a number on a GPU waits for it.
    norm = math.sqrt(sum(torch.stack(squares).tolist())) if squares else 0.0
    if math.isfinite(norm) and norm > max_norm:
        for value in values:
            value.mul_(max_norm / norm)
    return norm


def _values(gradient: Tensor) -> Tensor:
    return gradient._values() if gradient.is_sparse else gradient


class Budget:
    """How long to train: whichever bound is reached first. Progress is the larger share used.

    The clock runs only while training: saving and measuring are done in `paused`.

    Args:
        n_tokens: Predictions per direction; of task models, passes over the data.
        minutes: Of training.
        seconds: Used already, by the run that this one goes on with.

    Raises:
        ValueError: If there is no bound, or one is not positive.
    """

    def __init__(
        self, n_tokens: int | None = None, minutes: float | None = None, *, seconds: float = 0.0
    ) -> None:
        self.n_tokens, self.minutes = n_tokens, minutes
        if n_tokens is None and minutes is None:
            raise ValueError("a budget needs tokens or minutes")
        check_positive(self, "n_tokens", "minutes")
        self._before = seconds
        self._since: float | None = time.monotonic()  # None in a pause

    @property
    def seconds(self) -> float:
        """Of training so far."""
        running = 0.0 if self._since is None else time.monotonic() - self._since
        return self._before + running

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is done here takes no time of the budget; pauses may lie in one another."""
        was_running = self._since is not None
        self._before, self._since = self.seconds, None
        try:
            yield
        finally:
            if was_running:
                self._since = time.monotonic()

    def progress(self, n_tokens: int | float) -> float:
        """Share of the budget that is used after so many tokens, 1 at its end."""
        shares = [0.0]
        if self.n_tokens is not None:
            shares.append(n_tokens / self.n_tokens)
        if self.minutes is not None:
            shares.append(self.seconds / 60 / self.minutes)
        return min(1.0, max(shares))


@dataclass
class Patience:
    """When to stop a training that gets no better.

    Attributes:
        n_allowed: Measurements without a new best one; 0 never stops.
        best: The smallest loss measured.
        n_since: Measurements since then.
    """

    n_allowed: int = 0
    best: float = math.inf
    n_since: int = 0

    def improved(self, loss: float, *, counted: bool = True) -> bool:
        """Take note of a loss; whether it is the smallest so far.

        Args:
            loss: The measurement.
            counted: Whether it brings the end nearer if it is no better.
        """
        better = loss < self.best
        self.best, self.n_since = (loss, 0) if better else (self.best, self.n_since + counted)
        return better

    @property
    def exhausted(self) -> bool:
        """Whether to stop."""
        return 0 < self.n_allowed <= self.n_since


class MetricLog:
    """Metrics of a run: one JSON object per line in `metrics.jsonl`, and TensorBoard beside it.

    Args:
        folder: Where to write; both are appended to.
        after: What an earlier run wrote of later steps is dropped, and what it wrote of its end:
            they are made again.
        tensorboard: Whether to write TensorBoard events, which needs the extra `train`.

    Raises:
        ValueError: If TensorBoard is asked for, but not installed.
    """

    def __init__(self, folder: Path, *, after: int = 0, tensorboard: bool = True) -> None:
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ValueError(
                    "TensorBoard is not installed: pip install 'elmo-torch[train]', or set the "
                    "recipe's tensorboard to false"
                ) from None
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / METRICS_FILE
        _drop_later(path, after)
        self._file = path.open("a", encoding="utf-8")
        self._board: Any = (
            SummaryWriter(str(folder / "tensorboard"), purge_step=after + 1)
            if tensorboard
            else None
        )

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a line: the step and its metrics."""
        self._file.write(json.dumps({"step": step, **metrics}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(name, value, step)

    def __enter__(self) -> "MetricLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _drop_later(path: Path, after: int) -> None:
    """Leave the whole lines of steps up to `after`, but none of the end of a run.

    A killed run may have written half a line.
    """
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            values = json.loads(line)
            if line.endswith("\n") and values["step"] <= after and not _is_final(values):
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    beside = path.with_name(f"{path.name}.tmp")
    beside.write_text("".join(kept), encoding="utf-8")
    os.replace(beside, path)


def _is_final(names: Iterable[str]) -> bool:
    return any(name.startswith(f"{FINAL}/") for name in names)
