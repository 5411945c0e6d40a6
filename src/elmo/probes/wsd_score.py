"""Precision, recall and F1 of word senses, as the scorer of the unified evaluation framework.

Of what is answered for an instance, the share that is among its right senses counts as right: one
answer of two right ones is half right, and one answer is right if it is any of several right ones.
Precision is out of the instances answered, recall out of all.

Source:
    `Scorer.java` of Raganato, Camacho-Collados and Navigli (2017).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmo.probes.wsd_data import Instance, Keys


@dataclass(frozen=True)
class WsdScore:
    """How many of some instances were answered, and how many rightly.

    Attributes:
        n_right: A sum of shares.
        n_answered: Instances with an answer.
        n_instances: All of them.
    """

    n_right: float
    n_answered: int
    n_instances: int

    @property
    def precision(self) -> float:
        """Of the answered; 0 if there are none."""
        return self.n_right / self.n_answered if self.n_answered else 0.0

    @property
    def recall(self) -> float:
        """Of all; 0 if there are none."""
        return self.n_right / self.n_instances if self.n_instances else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def score(gold: Keys, answers: Mapping[str, Sequence[str]]) -> WsdScore:
    """Compare answers with the right senses; answers for other instances are passed over.

    Args:
        gold: The right senses of each instance.
        answers: One sense or several of each; an instance may be absent, or have none.
    """
    n_right, n_answered = 0.0, 0
    for name, right in gold.items():
        given = set(answers.get(name, ()))
        if given:
            n_right += len(given.intersection(right)) / len(given)
            n_answered += 1
    return WsdScore(n_right, n_answered, len(gold))


def score_by_pos(
    instances: Sequence[Instance], answers: Mapping[str, Sequence[str]]
) -> dict[str, WsdScore]:
    """Scores of each part of speech by its name, in alphabetical order."""
    gold: dict[str, dict[str, tuple[str, ...]]] = {}
    for instance in instances:
        gold.setdefault(instance.word[1], {})[instance.id] = instance.senses
    return {pos: score(gold[pos], answers) for pos in sorted(gold)}
