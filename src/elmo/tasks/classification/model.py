"""Labels of a text: what every network for them shares, and the plainest of them.

Axes: batch, tokens, labels, dim.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_dropout, check_positive
from elmo.encoders.tfidf import Tfidf, TfidfConfig
from elmo.tasks.features import SentenceBatch
from elmo.tasks.linear import hidden_layers, linear
from elmo.tasks.task import TaskModel
from elmo.tasks.token_input import TokenInput


@dataclass(frozen=True)
class LabelsConfig:
    """What every network for the labels of texts is told.

    Args:
        several: Whether a text may have several labels, or none, so that each is a decision of its
            own; None for yes where a text of the training data has more than one.
        threshold: Probability from which on a label of several is given.
        phrases: Whether each phrase of a tree is learned from as a text of its own; what is
            measured is the sentences.
        min_phrase: Tokens of the shortest phrase that is learned from.
    """

    several: bool | None = None
    threshold: float = 0.5
    phrases: bool = False
    min_phrase: int = 4

    def __post_init__(self) -> None:
        check_positive(self, "min_phrase")
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold}, but it is a probability")


@dataclass(frozen=True)
class PooledConfig(LabelsConfig):
    """A perceptron over the mean of a text's vectors.

    Args:
        hidden_dim: Of each layer.
        n_layers: Layers below the last, which gives the labels; 0 for a linear model.
        dropout: Of what each layer reads.
        tfidf: Terms of documents, where `tfidf` is among the encoders.
    """

    hidden_dim: int = 256
    n_layers: int = 1
    dropout: float = 0.2
    tfidf: TfidfConfig = field(default_factory=TfidfConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "hidden_dim")
        if self.n_layers < 0:
            raise ValueError(f"n_layers is {self.n_layers}, but must be 0 or more")
        check_dropout(self)


@dataclass(frozen=True)
class TextBatch:
    """Texts and their labels.

    Attributes:
        sentences: The texts.
        targets: 1 for each label that a text has; None where labels are not known.
    """

    sentences: SentenceBatch
    targets: Float[Tensor, "batch labels"] | None

    def to(self, device: torch.device | str) -> "TextBatch":
        """The same on a device."""
        targets = None if self.targets is None else self.targets.to(device)
        return replace(self, sentences=self.sentences.to(device), targets=targets)


class TextClassifier(TaskModel):
    """A network for the labels of texts.

    Args:
        config: When a label is given.
        inputs: What is known of each token.
        labels: All of them, by number.
        several: Whether each label is a decision of its own.
    """

    def __init__(
        self, config: LabelsConfig, inputs: TokenInput, labels: Sequence[str], *, several: bool
    ) -> None:
        super().__init__(inputs)
        self.labels, self.several, self.threshold = tuple(labels), several, config.threshold

    @abstractmethod
    def scores(self, batch: SentenceBatch) -> Float[Tensor, "batch labels"]:
        """Of each label: before a softmax, or before a sigmoid where there may be several."""

    def loss(self, batch: TextBatch) -> Float[Tensor, ""]:
        """−log p of a text's labels: the mean of the batch."""
        assert batch.targets is not None
        scores = self.scores(batch.sentences)
        if not self.several:
            return functional.cross_entropy(scores, batch.targets)
        each = functional.binary_cross_entropy_with_logits(scores, batch.targets, reduction="none")
        return each.sum(dim=1).mean()

    def predict(self, batch: TextBatch) -> list[tuple[str, ...]]:
        """The likeliest label of each text; or all that are likely enough, which may be none."""
        scores = self.scores(batch.sentences)
        if not self.several:
            return [(self.labels[best],) for best in scores.argmax(dim=1).tolist()]
        given = (scores.sigmoid() >= self.threshold).tolist()
        return [
            tuple(label for label, is_given in zip(self.labels, row, strict=True) if is_given)
            for row in given
        ]


class Pooled(TextClassifier):
    """The mean of a text's vectors, and its TF-IDF if that is wanted, through a perceptron.

    Args:
        config: Sizes.
        inputs: What is known of each token.
        labels: All of them, by number.
        several: Whether each label is a decision of its own.
        documents: Gives texts vectors by their terms; None for none.

    Raises:
        ValueError: If encoders are to be taken in at the output of recurrent layers.
    """

    def __init__(
        self,
        config: PooledConfig,
        inputs: TokenInput,
        labels: Sequence[str],
        *,
        several: bool,
        documents: Tfidf | None = None,
    ) -> None:
        super().__init__(config, inputs, labels, several=several)
        if inputs.output_dim:
            raise ValueError(
                "a pooled classifier has no recurrent layers at whose output encoders could be "
                'taken in: set where = "input"'
            )
        self.documents = documents
        dim = inputs.dim + (documents.dim if documents else 0)
        layers, out = perceptron(dim, config.hidden_dim, config.n_layers, config.dropout)
        layers[0] = nn.Identity()  # what they read has a dropout of its own
        self.dropout = config.dropout
        self.layers = nn.Sequential(layers, linear(out, len(labels)))

    def scores(self, batch: SentenceBatch) -> Float[Tensor, "batch labels"]:
        """See `TextClassifier`."""
        read = self._dropped(token_mean(self.inputs(batch).input, batch.mask))
        if self.documents is not None:
            terms = torch.from_numpy(self.documents.encode(batch.tokens))
            # A text has few of all terms, and dropout of the others changes nothing.
            present = terms.nonzero(as_tuple=True)
            terms[present] = self._dropped(terms[present])
            read = torch.cat([read, terms.to(read.device)], dim=1)
        return self.layers(read)

    def _dropped(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.dropout, self.training)


def token_mean(
    vectors: Float[Tensor, "batch tokens dim"], mask: Tensor
) -> Float[Tensor, "batch dim"]:
    """The mean over the real tokens of each sentence."""
    real = mask.unsqueeze(-1)
    return vectors.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1)


def perceptron(
    dim: int, hidden_dim: int, n_layers: int, dropout: float
) -> tuple[nn.Sequential, int]:
    """Layers of ReLU, dropout before each and before what follows; and the size of the output."""
    layers = hidden_layers(dim, hidden_dim, n_layers, dropout)
    return nn.Sequential(nn.Dropout(dropout), *layers), hidden_dim if n_layers else dim
