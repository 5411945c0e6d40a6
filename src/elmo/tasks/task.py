"""What a task is to everything that trains, measures and applies task models.

Axes: batch, tokens, dim.
"""

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from elmo.tasks.features import Features
from elmo.tasks.token_input import TokenInput
from elmo.text import Tokenizer

logger = logging.getLogger(__name__)

Example = Any
Prediction = Any
"""Each task has its own."""
Labels = Mapping[str, Any]
"""What the training data says of the answers, as JSON can hold it: stored with the model."""


def n_tokens(task: "Task", example: Example) -> int:
    """Tokens of an example, by which those of a batch are chosen."""
    return sum(map(len, task.texts(example)))


def n_rows(task: "Task", example: Example) -> int:
    """How often the network reads an example's tokens, side by side."""
    return max(1, task.n_rows(example)) if isinstance(task, ReadsInRows) else 1


def warn_of_unknown(counts: Counter[str], message: str) -> None:
    """Warn of answers that the training data has not, if there are some.

    Args:
        counts: How often each occurs.
        message: With a place for how many there are, and one for the most frequent of them.
    """
    if counts:
        told = ", ".join(f"{answer} ({n:,})" for answer, n in counts.most_common(5))
        logger.warning(message, f"{counts.total():,}", told)


class TaskModel(nn.Module):
    """A network for a task, above what it knows of each token.

    Args:
        inputs: What is known of each token.
    """

    def __init__(self, inputs: TokenInput) -> None:
        super().__init__()
        self.inputs = inputs

    @abstractmethod
    def loss(self, batch: Any) -> Float[Tensor, ""]:
        """The mean loss of the batch's examples."""

    @abstractmethod
    def predict(self, batch: Any) -> list[Prediction]:
        """An answer for each example of the batch."""

    def forward(self, batch: Any) -> Float[Tensor, ""]:
        """What training makes small: the loss, and the penalty on the weights of mixes."""
        return self.loss(batch) + self.inputs.penalty()


@runtime_checkable
class ReadsTraining(Protocol):
    """A task that learns from more, or other, examples of a file than it is measured on."""

    def read_training(self, path: Path, settings: Any) -> list[Example]:
        """Labelled examples to learn from; errors name file and line."""


@runtime_checkable
class ReadsInRows(Protocol):
    """A task whose network reads the tokens of an example several times, side by side."""

    def n_rows(self, example: Example) -> int:
        """How often, which counts for the size of batches."""


@runtime_checkable
class ReadsWhole(Protocol):
    """A task whose network takes memory by the square of an example's length, or nearly."""

    def check_lengths(self, examples: Sequence[Example], labels: Labels) -> None:
        """Refuse examples that are too long to be read."""


@runtime_checkable
class Reports(Protocol):
    """A task whose scores are also told as a table that people know."""

    def report(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], labels: Labels
    ) -> str:
        """The table."""


@runtime_checkable
class Settles(Protocol):
    """A task some of whose settings the training data decides where the recipe does not."""

    def settled(self, settings: Any, labels: Labels) -> Any:
        """The settings by which files are read once that is decided."""


@runtime_checkable
class WritesByName(Protocol):
    """A task whose written answers are told apart by the names of their examples."""

    def check_names(self, examples: Sequence[Example]) -> None:
        """Refuse examples, as of several files, of which two have one name."""


@runtime_checkable
class Task(Protocol):
    """A task.

    Attributes:
        name: As recipes name it.
        settings: The dataclass of its network's settings.
    """

    name: str
    settings: type

    def metric(self, labels: Labels) -> str:
        """Key of `score` that training makes large."""

    def read(self, path: Path, settings: Any, *, labelled: bool = True) -> list[Example]:
        """Examples of a file in the task's formats; errors name file and line.

        Args:
            path: The file, which may be compressed.
            settings: Of the network, which may say what to read.
            labelled: Whether answers are wanted; otherwise they are passed over, and may lack.
        """

    def read_text(self, path: Path, tokenizer: Tokenizer) -> list[Example]:
        """Examples without answers of a file of plain text; ValueError where text is not enough."""

    def texts(self, example: Example) -> Sequence[Sequence[str]]:
        """The tokenized sentences of an example, which encoders read; none without tokens."""

    def labels(self, examples: Sequence[Example], settings: Any) -> Labels:
        """What training examples say of the answers there are."""

    def check(self, examples: Sequence[Example], labels: Labels) -> None:
        """Refuse, or warn of, examples whose answers the model cannot give."""

    def model(self, settings: Any, inputs: TokenInput, labels: Labels) -> TaskModel:
        """A network with new weights."""

    def batch(self, examples: Sequence[Example], features: Features, labels: Labels) -> Any:
        """What the network reads; it can be moved by `to(device)`."""

    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], labels: Labels
    ) -> dict[str, float]:
        """The official metrics, in percent."""

    def write(
        self, path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> None:
        """Predictions in the task's standard format."""
