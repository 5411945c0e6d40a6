"""Held-out text during a run: when it is measured, and which model predicted it best."""

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import Any

import torch

from elmo.pretrain.corpus import Corpus
from elmo.pretrain.learner import Learner, tokens_of_epochs
from elmo.pretrain.perplexity import Perplexity, PerplexitySums, perplexity_sums
from elmo.pretrain.recipe import ValidationConfig
from elmo.training import Patience

MOST_TOKENS_UNMEASURED = 2_000_000
LEAST_STEPS_UNMEASURED = 10


class Validation:
    """Measures a learner's model, and remembers which was the best.

    Args:
        settings: When, and on how much.
        learner: Whose model.
        heldout: Text to measure on; without it, the last model is the best.
        about: What `about` gave, of a run to go on with.

    Attributes:
        patience: What ends a training that gets no better.
        best_step: The step that made the best model.
        before: Perplexity of the model that an adaptation starts from.
        last: The last measurement.
    """

    def __init__(
        self,
        settings: ValidationConfig,
        learner: Learner,
        heldout: Corpus | None,
        about: Mapping[str, Any],
    ) -> None:
        self.settings, self.learner, self.heldout = settings, learner, heldout
        self.patience = Patience(
            settings.patience, about.get("best", math.inf), about.get("n_since", 0)
        )
        self.best_step: int = about.get("best_step", 0)
        before = about.get("before")
        self.before = None if before is None else Perplexity(**before)
        self.last: Perplexity | None = None
        self._interval = settings.every_tokens or self._own_interval()

    def about(self) -> dict[str, Any]:
        """Plain values that a run needs to go on."""
        return {
            "best": self.patience.best,
            "n_since": self.patience.n_since,
            "best_step": self.best_step,
            "before": None if self.before is None else asdict(self.before),
        }

    def due(self, n_before: int) -> bool:
        """Whether to measure, where `n_before` predictions had been made before the last step."""
        return self.learner.n_tokens // self._interval > n_before // self._interval

    def _own_interval(self) -> int:
        """Tokens of an epoch; but of so many that training, not measuring, takes most of the time.

        A measurement is not of more tokens than were learned from since the last, and some steps
        lie between two: else a corpus smaller than a window would be measured after every one.
        """
        epoch = tokens_of_epochs(self.learner.corpus, 1.0)
        return max(
            min(MOST_TOKENS_UNMEASURED, epoch),
            LEAST_STEPS_UNMEASURED * self.learner.tokens_per_step,
            self._n_measured(),
        )

    def _n_measured(self) -> int:
        """Predictions per direction of a measurement, about."""
        if self.heldout is None:
            return 0
        n_sentences = self.heldout.n_sentences
        share = min(1.0, self.settings.n_sentences / n_sentences)
        return round(share * (self.heldout.n_tokens + n_sentences))

    def measure(self, n_sentences: int | None = None) -> Perplexity:
        """Perplexity on the held-out text, or so many of its sentences; shared by processes."""
        assert self.heldout is not None
        model, processes = self.learner.model, self.learner.processes
        n = self.heldout.n_sentences
        chosen = range(n) if n_sentences is None else range(0, n, max(1, -(-n // n_sentences)))
        sentences = map(self.heldout.text, chosen[processes.rank :: processes.n])
        model.eval()
        sums = perplexity_sums(model, self.learner.corpus.vocabulary, sentences)
        model.train()
        numbers = torch.tensor(astuple(sums), dtype=torch.float64)
        forward_lm, backward_lm, *counts = processes.sum(numbers).tolist()
        return PerplexitySums(forward_lm, backward_lm, *map(int, counts)).result()
