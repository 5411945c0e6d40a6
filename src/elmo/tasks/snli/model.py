"""ESIM: two sentences are read alike, aligned token by token, compared, and read once more.

Axes: pairs, sentences (all premises, then all hypotheses), tokens, labels, dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_dropout, check_positive
from elmo.tasks.attention import comparison, soft_alignment
from elmo.tasks.bilstm import BiLstm, SentenceDropout
from elmo.tasks.features import SentenceBatch
from elmo.tasks.linear import linear
from elmo.tasks.task import TaskModel
from elmo.tasks.token_input import TokenInput

NO_LABEL = -100
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


@dataclass(frozen=True)
class EsimConfig:
    """An ESIM.

    Args:
        hidden_dim: Of both biLSTMs, per direction, and of the feed-forward layers.
        activation: Of the layer below the labels: `tanh`, as Chen et al. have it, or `relu`, as
            the ELMo paper has it.
        input_dropout: Of the first biLSTM's input, the same for all tokens of a sentence, on top
            of those of `[input]` and `[mix]`.
        alignment_dropout: Of what the alignment gives, before it is projected.
        dropout: Of the second biLSTM's input, the same for all tokens of a sentence, and before
            each of the last two layers.
        language: Whose rules split sentences that come without a parse into tokens; `whitespace`
            where tokens stand between spaces already.
    """

    hidden_dim: int = 300
    activation: str = "tanh"
    input_dropout: float = 0.0
    alignment_dropout: float = 0.0
    dropout: float = 0.5
    language: str = "en"

    def __post_init__(self) -> None:
        check_positive(self, "hidden_dim")
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation is {self.activation!r}, but expected one of {tuple(ACTIVATIONS)}"
            )
        check_dropout(self, "input_dropout", "alignment_dropout", "dropout")


@dataclass(frozen=True)
class PairBatch:
    """Pairs of sentences and the numbers of their labels.

    Attributes:
        sentences: All premises, then all hypotheses in the same order.
        labels: `NO_LABEL` for one that the model does not know; None where there are none.
    """

    sentences: SentenceBatch
    labels: Int[Tensor, " pairs"] | None

    def to(self, device: torch.device | str) -> "PairBatch":
        """The same on a device."""
        labels = None if self.labels is None else self.labels.to(device)
        return replace(self, sentences=self.sentences.to(device), labels=labels)


class Esim(TaskModel):
    """The enhanced sequential inference model, for any labels.

    What encoders give beside the output stands beside that of the first biLSTM, so that sentences
    are aligned by it too.

    Args:
        config: Sizes.
        inputs: What is known of each token.
        labels: All of them, by number.

    Source:
        Chen et al. (2017), sections 3.1 to 3.3; Peters et al. (2018), A.3, for dropout and where
        ELMo enters.
    """

    def __init__(self, config: EsimConfig, inputs: TokenInput, labels: Sequence[str]) -> None:
        super().__init__(inputs)
        self.labels = tuple(labels)
        hidden_dim = config.hidden_dim
        self.input_dropout = SentenceDropout(config.input_dropout)
        self.encoder = BiLstm(inputs.dim, hidden_dim)
        encoded_dim = self.encoder.output_dim + inputs.output_dim
        self.projection = nn.Sequential(
            nn.Dropout(config.alignment_dropout), linear(4 * encoded_dim, hidden_dim), nn.ReLU()
        )
        self.composition_dropout = SentenceDropout(config.dropout)
        self.composition = BiLstm(hidden_dim, hidden_dim)
        self.head = nn.Sequential(
            nn.Dropout(config.dropout),
            linear(4 * self.composition.output_dim, hidden_dim),
            ACTIVATIONS[config.activation](),
            nn.Dropout(config.dropout),
            linear(hidden_dim, len(labels)),
        )

    def scores(self, sentences: SentenceBatch) -> Float[Tensor, "pairs labels"]:
        """Of each label for each pair, before the softmax."""
        mask = sentences.mask
        vectors = self.inputs(sentences)
        encoded = self.encoder(self.input_dropout(vectors.input), mask)
        encoded = torch.cat([encoded, vectors.output], dim=-1)  # (sentences, tokens, encoded_dim)
        premise, hypothesis = encoded.chunk(2)
        premise_mask, hypothesis_mask = mask.chunk(2)
        aligned = torch.cat(soft_alignment(premise, premise_mask, hypothesis, hypothesis_mask))
        compared = self.projection(comparison(encoded, aligned))  # (sentences, tokens, hidden_dim)
        composed = self.composition(self.composition_dropout(compared), mask)
        premise, hypothesis = pooled(composed, mask).chunk(2)
        return self.head(torch.cat([premise, hypothesis], dim=-1))

    def loss(self, batch: PairBatch) -> Float[Tensor, ""]:
        """−log p of a pair's label: the mean of the batch."""
        assert batch.labels is not None
        return functional.cross_entropy(
            self.scores(batch.sentences), batch.labels, ignore_index=NO_LABEL
        )

    def predict(self, batch: PairBatch) -> list[str]:
        """The most likely label of each pair."""
        return [self.labels[i] for i in self.scores(batch.sentences).argmax(dim=-1).tolist()]


def pooled(
    vectors: Float[Tensor, "sentences tokens dim"], mask: Bool[Tensor, "sentences tokens"]
) -> Float[Tensor, "sentences 2*dim"]:
    """Mean and maximum over the real tokens of each sentence, one after the other.

    Source:
        Chen et al. (2017), equations 18 and 19.
    """
    real = mask.unsqueeze(-1)
    mean = vectors.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1)
    largest = vectors.masked_fill(~real, -torch.inf).amax(dim=1)
    return torch.cat([mean, largest], dim=-1)
