"""What every training here shares: optimiser, schedule, clipping, budget, metric log."""

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from elmo.config import check_positive

OPTIMISERS = ("adagrad", "adam")
SCHEDULES = ("constant", "linear", "cosine")


@dataclass(frozen=True)
class OptimiserConfig:
    """How weights are changed.

    Args:
        name: `adagrad` as the original has it (accumulators start at 1), or `adam` (decoupled
            weight decay; parameters with sparse gradients are updated lazily).
        learning_rate: At its highest. The original trains with Adagrad at 0.2.
        warmup: Share of the budget in which the rate rises from zero.
        schedule: `constant`, or a fall to zero over the rest of the budget by a line or a cosine.
        betas: Of `adam`.
        weight_decay: Of `adam`, for dense matrices.
        clip_norm: Gradients of all parameters together are scaled down to this norm.
    """

    name: str = "adam"
    learning_rate: float = 1e-3
    warmup: float = 0.02
    schedule: str = "cosine"
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
    """

    def __init__(
        self, config: OptimiserConfig, dense: Iterable[nn.Parameter], sparse: Iterable[nn.Parameter]
    ) -> None:
        self.config = config
        self.dense, self.sparse = list(dense), list(sparse)
        rate = config.learning_rate
        self._parts: list[torch.optim.Optimizer] = []
        if config.name == "adagrad":
            parameters = [*self.dense, *self.sparse]
            self._parts.append(
                torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0)
            )
            return
        decay = [p for p in self.dense if p.ndim > 1]
        rest = [p for p in self.dense if p.ndim <= 1]
        groups: list[dict[str, Any]] = [
            {"params": decay, "weight_decay": config.weight_decay},
            {"params": rest, "weight_decay": 0.0},
        ]
        self._parts.append(
            torch.optim.AdamW(
                [g for g in groups if g["params"]], lr=rate, betas=config.betas, fused=True
            )
        )
        if self.sparse:
            self._parts.append(torch.optim.SparseAdam(self.sparse, lr=rate, betas=config.betas))

    def rate(self, progress: float) -> float:
        """The learning rate when `progress`, from 0 to 1, of the budget is used."""
        config = self.config
        if progress < config.warmup:
            return config.learning_rate * progress / config.warmup
        left = 1 - min(1.0, (progress - config.warmup) / (1 - config.warmup))
        factor = {
            "constant": 1.0,
            "linear": left,
            "cosine": 0.5 - 0.5 * math.cos(math.pi * left),
        }[config.schedule]
        return config.learning_rate * factor

    def step(self, progress: float) -> float:
        """Clip all gradients by their common norm, change the weights, forget the gradients.

        Returns:
            The norm before clipping.
        """
        norm = clip_gradients([*self.dense, *self.sparse], self.config.clip_norm)
        rate = self.rate(progress)
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = rate
            # PyTorch's own code makes sparse tensors without saying that they need no checks.
            with torch.sparse.check_sparse_tensor_invariants(False):
                part.step()
            part.zero_grad(set_to_none=True)
        return norm


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


@dataclass
class Budget:
    """How long to train: whichever bound is reached first. Progress is the larger share used.

    Raises:
        ValueError: If there is no bound, or one is not positive.
    """

    n_steps: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.n_steps is None and self.minutes is None:
            raise ValueError("a budget needs steps or minutes")
        check_positive(self, "n_steps", "minutes")
        self._started = time.monotonic()

    def progress(self, step: int) -> float:
        """Share of the budget that is used after `step` steps, 1 at its end."""
        shares = [0.0]
        if self.n_steps is not None:
            shares.append(step / self.n_steps)
        if self.minutes is not None:
            shares.append((time.monotonic() - self._started) / 60 / self.minutes)
        return min(1.0, max(shares))


class MetricLog:
    """Metrics of a run: one JSON object per line in `metrics.jsonl`, and TensorBoard beside it.

    Args:
        folder: Where to write; both are appended to.
        tensorboard: Whether to write TensorBoard events, which needs the extra `train`.

    Raises:
        ValueError: If TensorBoard is asked for, but not installed.
    """

    def __init__(self, folder: Path, *, tensorboard: bool = True) -> None:
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ValueError(
                    "TensorBoard is not installed: pip install 'elmo-torch[train]', or set "
                    "log.tensorboard = false"
                ) from None
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self._board: Any = SummaryWriter(str(folder / "tensorboard")) if tensorboard else None

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
