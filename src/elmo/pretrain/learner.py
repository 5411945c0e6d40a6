"""One step of training after another: windows in, changed weights out.

A step is a pure function of weights, optimiser, LSTM state, position in the corpus and its own
number: negatives and dropout are drawn from the seed and that number. So a run that goes on from a
saved step makes the same steps as one that never stopped.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from elmo.model import lstm_window, softmax_chunked
from elmo.model.lstm import LayerState
from elmo.model.lstm_window import read_window
from elmo.model.lstm_window_cuda import WindowGraphs
from elmo.model.softmax import draw_negatives
from elmo.pretrain.adaptation import EVERYTHING, Beginning, phase_at
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.processes import Processes
from elmo.pretrain.recipe import PretrainRecipe
from elmo.pretrain.sentence_batches import SentenceBatches
from elmo.pretrain.shuffle import Shuffled
from elmo.pretrain.windows import NO_TARGET, Position, Window, Windows
from elmo.training import Optimiser
from elmo.training_state import TrainingState

logger = logging.getLogger(__name__)

FREQUENCY, NUMBER = "frequency", "number"


class Step(NamedTuple):
    """What a step found out.

    Attributes:
        losses: Summed −log p of the forward and the backward model, of this process.
        n_tokens: Predictions per direction, of all processes.
        norm: Of the gradient before clipping.
        rate: The learning rate.
    """

    losses: Tensor
    n_tokens: int
    norm: float
    rate: float


class Learner:
    """A model that learns, between two steps.

    Args:
        model: In training mode, on its device.
        corpus: What it reads.
        recipe: How.
        processes: Who reads with it.
        state: To go on from; None begins.
        start: Where an adaptation began; None for a new model.

    Attributes:
        n_steps: Steps made.
        n_tokens: Predictions per direction made, by all processes.
        drawn_by: What ranks the words that negatives are drawn from: their frequency in the corpus,
            or their numbers, as in runs that an older version began.
    """

    def __init__(
        self,
        model: LanguageModel,
        corpus: Corpus,
        recipe: PretrainRecipe,
        processes: Processes,
        state: TrainingState | None = None,
        start: Beginning | None = None,
    ) -> None:
        settings = recipe.training
        self.model, self.corpus, self.recipe, self.processes = model, corpus, recipe, processes
        self.n_steps = self.n_tokens = 0
        self.n_negatives = settings.n_negatives if sampled(recipe, len(corpus.vocabulary)) else 0
        self._phases = (EVERYTHING,) if start is None else start.phases
        self._phase = self._phases[0]
        self.drawn_by = FREQUENCY if state is None else state.about.get("drawn_by", NUMBER)
        self._order = None if start is None else start.order
        if start is None and self.n_negatives and self.drawn_by == FREQUENCY:
            self._order = _order_of_ranks(corpus)
        learned = list(model.parameters())
        rows = list(model.softmax.parameters()) if self.n_negatives else []
        sparse = [p for p in learned if any(p is row for row in rows)]
        dense = [p for p in learned if not any(p is row for row in rows)]
        self.parameters = [*dense, *sparse]
        self.optimiser = Optimiser(recipe.optimiser, dense, sparse)
        self.batches = _batches(corpus, recipe, processes, state)
        self._windows = settings.batches == "windows"
        self.lm_state = model.zero_state(settings.n_rows) if self._windows else []
        # Graphs are of windows of one size.
        self._read = WindowGraphs() if self._windows else read_window
        self._device = learned[0].device
        if state is not None:
            self._restore(state)

    def step(self, progress: float) -> Step:
        """Read the next batches and change the weights.

        Args:
            progress: Share of the budget used so far.
        """
        settings, n_before = self.recipe.training, self.n_tokens
        self._phase = phase_at(self._phases, progress)
        self._phase.freeze_the_rest(self.model)
        losses = torch.zeros(2, device=self._device)
        for i in range(settings.n_accumulate):
            window = next(self.batches)
            number = self.n_steps * settings.n_accumulate + i
            losses += self._accumulate(window, number)
            self.n_tokens += window.n_predicted
        self._coalesce()
        self.processes.average_gradients([p for p in self.parameters if p.requires_grad])
        norm = self.optimiser.step(progress)
        self.n_steps += 1
        return Step(losses, self.n_tokens - n_before, norm, self.optimiser.rate(progress))

    @property
    def in_last_phase(self) -> bool:
        """Whether the last step was one of the phase that training ends in."""
        return self._phase is self._phases[-1]

    @property
    def tokens_per_step(self) -> int:
        """Predictions per direction of a step, of all processes, at most."""
        settings = self.recipe.training
        of_a_process = settings.n_rows * settings.n_steps * settings.n_accumulate
        return of_a_process * self.processes.n

    def tensors(self) -> dict[str, Tensor]:
        """What the next step depends on, of all processes."""
        position = {
            f"position.{name}": torch.as_tensor(value)
            for name, value in self.batches.position._asdict().items()
        }
        gathered = self.processes.gathered
        state = {
            f"lm_state.{k}.{name}": gathered(getattr(layer, name), dim=1)
            for k, layer in enumerate(self.lm_state)
            for name in ("h", "c")
        }
        return {
            **{f"model.{k}": v for k, v in self.model.state_dict().items()},
            **{f"optimiser.{k}": v for k, v in self.optimiser.state_dict().items()},
            **state,
            **position,
        }

    def _restore(self, state: TrainingState) -> None:
        self.n_steps, self.n_tokens = state.about["step"], state.about["n_tokens"]
        self.model.load_state_dict(state.part("model"))
        self.optimiser.load_state_dict(state.part("optimiser"))
        lm_state, rows = state.part("lm_state"), self.processes.rows(self.recipe.training.n_rows)
        self.lm_state = [
            LayerState(
                *(lm_state[f"{k}.{name}"][:, rows].to(self._device).clone() for name in ("h", "c"))
            )
            for k in range(len(self.lm_state))
        ]

    def _accumulate(self, window: Window, number: int) -> Tensor:
        """Add a batch's gradient to what is there."""
        settings, seed = self.recipe.training, self.recipe.seed
        negatives, elsewhere = None, None
        if self.n_negatives:
            rng = np.random.default_rng([seed, number])
            negatives = draw_negatives(
                len(self.corpus.vocabulary), self.n_negatives, rng, self._order
            )
            if self.processes.n > 1:
                targets = torch.from_numpy(window.targets[window.targets != NO_TARGET])
                elsewhere = self.processes.gathered(targets)
        noise = np.random.SeedSequence([seed, number, self.processes.rank])
        torch.manual_seed(int(noise.generate_state(1, np.uint64)[0] >> 1))
        rows = window.inputs.shape[-1]
        found = self.model(
            window,
            self.corpus.char_ids,
            self.lm_state if self._windows else self.model.zero_state(rows),
            negatives=negatives,
            elsewhere=elsewhere,
            carry=settings.carry,
            dtype=getattr(torch, settings.dtype),
            read=self._read,
        )
        # As the original: the mean over tokens, times the steps of a window.
        scale = settings.n_steps * self.processes.n / settings.n_accumulate
        (found.total * scale).backward()
        if self._windows:
            self.lm_state = [LayerState(s.h.detach(), s.c.detach()) for s in found.state]
        both = torch.stack([found.forward_lm.detach(), found.backward_lm.detach()])
        return both * window.n_predicted

    def _coalesce(self) -> None:
        """Rows that several batches changed become one row each."""
        for parameter in self.parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()


def _order_of_ranks(corpus: Corpus) -> Int[np.ndarray, " words"] | None:
    """All words by falling frequency in a corpus; None where they are numbered so."""
    order = corpus.frequency_order()
    if (order == np.arange(len(order))).all():
        return None
    logger.info(
        "the vocabulary is not sorted by frequency in this text, by which negatives are drawn"
    )
    return order


def sampled(recipe: PretrainRecipe, n_words: int) -> bool:
    """Whether words are drawn for the softmax: not if all would be."""
    return recipe.training.softmax == "sampled" and recipe.training.n_negatives < n_words


def _batches(
    corpus: Corpus, recipe: PretrainRecipe, processes: Processes, state: TrainingState | None
) -> Windows | SentenceBatches:
    settings, position = recipe.training, None
    if state is not None:
        at = state.part("position")
        position = Position(int(at["drawn"]), at["sentences"].numpy(), at["offsets"].numpy())
    order = Shuffled(corpus.n_sentences, recipe.seed)
    n_rows, n_steps = settings.n_rows * processes.n, settings.n_steps
    if settings.batches == "windows":
        rows = processes.rows(settings.n_rows)
        return Windows(corpus, order, n_rows=n_rows, n_steps=n_steps, rows=rows, position=position)
    return SentenceBatches(
        corpus,
        order,
        n_rows=n_rows,
        n_steps=n_steps,
        rows=slice(processes.rank, None, processes.n),
        seed=recipe.seed,
        position=position,
    )


def tokens_of_epochs(corpus: Corpus, n_epochs: float) -> int:
    """Predictions per direction in so many passes: tokens, and a sentence end each."""
    return max(1, math.floor(n_epochs * (corpus.n_tokens + corpus.n_sentences)))


def n_tokens_at_most(recipe: PretrainRecipe, corpus: Corpus) -> int | None:
    """Predictions per direction that the recipe allows; None where only time counts."""
    settings, bounds = recipe.training, []
    if settings.n_tokens is not None:
        bounds.append(settings.n_tokens)
    if settings.n_epochs is not None:
        bounds.append(tokens_of_epochs(corpus, settings.n_epochs))
    return min(bounds, default=None)


@contextmanager
def compiled_cells() -> Iterator[None]:
    """Fuse the arithmetic between matrix products: fewer passes over memory, the same formulas."""
    plain = {
        (module, name): getattr(module, name)
        for module, name in (
            (lstm_window, "cell_forward"),
            (lstm_window, "cell_backward"),
            (softmax_chunked, "probabilities"),
        )
    }
    for (module, name), function in plain.items():
        dynamic = name == "probabilities" or None
        setattr(module, name, torch.compile(function, dynamic=dynamic))
    try:
        yield
    finally:
        for (module, name), function in plain.items():
            setattr(module, name, function)
