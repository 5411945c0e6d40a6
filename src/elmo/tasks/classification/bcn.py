"""The biattentive classification network, by which the paper measures SST-5.

Axes: batch, tokens, labels, dim.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_dropout, check_positive
from elmo.tasks.attention import check_attended, masked_softmax
from elmo.tasks.bilstm import BiLstm
from elmo.tasks.classification.data import LabelledText
from elmo.tasks.classification.model import (
    LabelsConfig,
    TextClassifier,
    perceptron,
    token_mean,
)
from elmo.tasks.classification.task import Classification
from elmo.tasks.features import SentenceBatch
from elmo.tasks.linear import linear
from elmo.tasks.token_input import TokenInput

HEADS = ("relu", "maxout")


@dataclass(frozen=True)
class BcnConfig(LabelsConfig):
    """A biattentive classification network.

    Args:
        hidden_dim: Of the feed-forward layer and of both biLSTMs, per direction.
        head: The layers above the pooled text: `relu`, as the ELMo paper has them, or `maxout`,
            batch-normalised, as McCann et al. have them.
        head_dim: Size of each of its layers.
        n_head: Its layers, below the last, which gives the labels.
        n_pieces: Linear pieces of which `maxout` takes the largest.
        dropout: After the feed-forward layer and before each layer of the head.
    """

    hidden_dim: int = 300
    head: str = "relu"
    head_dim: int = 300
    n_head: int = 2
    n_pieces: int = 4
    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "hidden_dim", "head_dim", "n_head", "n_pieces")
        check_dropout(self)
        if self.head not in HEADS:
            raise ValueError(f"head is {self.head!r}, but expected one of {HEADS}")


class Bcn(TextClassifier):
    """A text attends to itself, is read once more, and is pooled in four ways.

    What encoders give beside the output stands beside that of the second biLSTM, where the text is
    pooled, as in AllenNLP: beside the first, its large numbers would decide alone what is attended.

    Args:
        config: Sizes.
        inputs: What is known of each token.
        labels: All of them, by number.
        several: Whether each label is a decision of its own.

    Source:
        McCann et al. (2017), section 5, with the same text on both sides; Peters et al. (2018),
        A.8, for the head of ReLU layers.
    """

    def __init__(
        self, config: BcnConfig, inputs: TokenInput, labels: Sequence[str], *, several: bool
    ) -> None:
        super().__init__(config, inputs, labels, several=several)
        hidden_dim = config.hidden_dim
        self.feed_forward, _ = perceptron(inputs.dim, hidden_dim, 1, config.dropout)
        self.feed_forward[0] = nn.Identity()  # inputs come with a dropout of their own
        self.encoder = BiLstm(hidden_dim, hidden_dim)
        self.integrator = BiLstm(3 * self.encoder.output_dim, hidden_dim)
        integrated_dim = self.integrator.output_dim + inputs.output_dim
        self.attention = linear(integrated_dim, 1)
        head, dim = _head(config, 4 * integrated_dim)
        self.head = nn.Sequential(head, linear(dim, len(labels)))

    def scores(self, batch: SentenceBatch) -> Float[Tensor, "batch labels"]:
        """See `TextClassifier`."""
        vectors, mask = self.inputs(batch), batch.mask
        encoded = self.encoder(self.feed_forward(vectors.input), mask)
        attended = self_attended(encoded, mask)
        integrated = self.integrator(
            torch.cat([encoded, encoded - attended, encoded * attended], dim=-1), mask
        )
        integrated = torch.cat([integrated, vectors.output], dim=-1)
        weights = masked_softmax(self.attention(integrated).squeeze(-1), mask)
        return self.head(pooled(integrated, weights, mask))


class Maxout(nn.Module):
    """The largest of several linear functions, for each number of the output.

    Source:
        Goodfellow et al. (2013).
    """

    def __init__(self, dim: int, output_dim: int, n_pieces: int) -> None:
        super().__init__()
        self.n_pieces = n_pieces
        self.pieces = linear(dim, output_dim * n_pieces)

    def forward(self, x: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch output_dim"]:
        """Of each vector."""
        return self.pieces(x).unflatten(-1, (-1, self.n_pieces)).amax(dim=-1)


class Standardise(nn.BatchNorm1d):
    """Batch normalisation, which takes the running mean and variance for a batch of one."""

    def forward(self, input: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """Of each vector."""
        if self.training and len(input) == 1:
            return functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(input)


def self_attended(
    vectors: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
) -> Float[Tensor, "batch tokens dim"]:
    """For each token the mean of all, weighed by the softmax of their products with it."""
    affinity = vectors @ vectors.transpose(1, 2)  # (batch, tokens, tokens)
    return masked_softmax(affinity, mask.unsqueeze(1)) @ vectors


def pooled(
    vectors: Float[Tensor, "batch tokens dim"],
    weights: Float[Tensor, "batch tokens"],
    mask: Bool[Tensor, "batch tokens"],
) -> Float[Tensor, "batch pooled_dim"]:
    """Largest, mean, smallest and weighed mean of the real tokens' vectors, one after another."""
    padding = ~mask.unsqueeze(-1)
    largest = vectors.masked_fill(padding, -torch.inf).amax(dim=1)
    smallest = vectors.masked_fill(padding, torch.inf).amin(dim=1)
    weighed = (weights.unsqueeze(1) @ vectors).squeeze(1)
    return torch.cat([largest, token_mean(vectors, mask), smallest, weighed], dim=-1)


def _head(config: BcnConfig, dim: int) -> tuple[nn.Sequential, int]:
    if config.head == "relu":
        return perceptron(dim, config.head_dim, config.n_head, config.dropout)
    layers: list[nn.Module] = []
    for _ in range(config.n_head):
        layers += [Standardise(dim), nn.Dropout(config.dropout)]
        layers.append(Maxout(dim, config.head_dim, config.n_pieces))
        dim = config.head_dim
    return nn.Sequential(*layers, Standardise(dim), nn.Dropout(config.dropout)), dim


class BcnClassification(Classification):
    """Labels by a biattentive classification network."""

    name = "bcn"
    settings = BcnConfig

    def check_lengths(self, examples: Sequence[LabelledText], labels: Mapping[str, Any]) -> None:
        """Refuse texts that are too long for attention."""
        check_attended([example.tokens for example in examples])

    def model(self, settings: BcnConfig, inputs: TokenInput, labels: Mapping[str, Any]) -> Bcn:
        """See `Classification`."""
        return Bcn(settings, inputs, labels["labels"], several=labels["several"])


TASK = BcnClassification()
