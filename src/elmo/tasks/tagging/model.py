"""A tag for each token: biLSTM, then a CRF over spans' tags or a softmax over others.

Axes: batch, tokens, tags, dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_dropout, check_positive
from elmo.tasks.bilstm import BiLstm
from elmo.tasks.crf import Crf
from elmo.tasks.features import SentenceBatch
from elmo.tasks.linear import linear
from elmo.tasks.tag_spans import allowed_transitions, check_scheme, rewritten
from elmo.tasks.task import TaskModel
from elmo.tasks.token_input import TokenInput

NO_TAG = -100


@dataclass(frozen=True)
class TaggingConfig:
    """A tagger.

    Args:
        hidden_dim: Of the biLSTM, per direction.
        n_layers: Of the biLSTM.
        dropout: Between its layers and of its output.
        scheme: How spans are written while they are learned: `BIO` or `BIOES`.
        crf: Whether the tags of a sentence are chosen together; None for tags that write spans.
        column: Where the tags are: in columns a number from 0, the last if None; in CoNLL-U a name,
            `upos` if None.
    """

    hidden_dim: int = 200
    n_layers: int = 2
    dropout: float = 0.5
    scheme: str = "BIOES"
    crf: bool | None = None
    column: int | str | None = None

    def __post_init__(self) -> None:
        check_positive(self, "hidden_dim", "n_layers")
        check_scheme(self.scheme)
        check_dropout(self)


@dataclass(frozen=True)
class TaggingBatch:
    """Sentences and the numbers of their tags.

    Attributes:
        sentences: The sentences.
        tags: `NO_TAG` in padding; None where they are not known.
    """

    sentences: SentenceBatch
    tags: Int[Tensor, "batch tokens"] | None

    @classmethod
    def of(cls, sentences: SentenceBatch, tags: Sequence[Sequence[int]] | None) -> "TaggingBatch":
        """The tags side by side."""
        if tags is None:
            return cls(sentences, None)
        numbers = torch.full(sentences.mask.shape, NO_TAG)
        for i, of_sentence in enumerate(tags):
            numbers[i, : len(of_sentence)] = torch.tensor(of_sentence)
        return cls(sentences, numbers)

    def to(self, device: torch.device | str) -> "TaggingBatch":
        """The same on a device."""
        tags = None if self.tags is None else self.tags.to(device)
        return replace(self, sentences=self.sentences.to(device), tags=tags)


class Tagger(TaskModel):
    """The tagger of Peters et al. (2018), A.7, for any tags.

    Args:
        config: Sizes.
        inputs: What is known of each token.
        tags: All of them, by number.
        spans: Whether they write spans.
    """

    def __init__(
        self, config: TaggingConfig, inputs: TokenInput, tags: Sequence[str], *, spans: bool
    ) -> None:
        super().__init__(inputs)
        self.tags, self.spans = tuple(tags), spans
        self.bilstm = BiLstm(
            inputs.dim, config.hidden_dim, n_layers=config.n_layers, dropout=config.dropout
        )
        self.dropout = nn.Dropout(config.dropout)
        self.emissions = linear(self.bilstm.output_dim + inputs.output_dim, len(tags))
        allowed = allowed_transitions(tags, config.scheme) if spans else None
        together = spans if config.crf is None else config.crf
        self.crf = Crf(len(tags), allowed) if together else None

    def scores(self, batch: SentenceBatch) -> Float[Tensor, "batch tokens tags"]:
        """Of each tag at each token."""
        vectors = self.inputs(batch)
        hidden = self.dropout(self.bilstm(vectors.input, batch.mask))
        return self.emissions(torch.cat([hidden, vectors.output], dim=-1))

    def loss(self, batch: TaggingBatch) -> Float[Tensor, ""]:
        """−log p of a sentence's tags, or of a token's without a CRF: the mean of the batch."""
        assert batch.tags is not None
        scores = self.scores(batch.sentences)
        if self.crf is None:
            return functional.cross_entropy(
                scores.flatten(0, 1), batch.tags.flatten(), ignore_index=NO_TAG
            )
        return -self.crf(scores, batch.tags, batch.sentences.mask).mean()

    def predict(self, batch: TaggingBatch) -> list[tuple[str, ...]]:
        """The most likely tags of each sentence; those that write spans in BIO."""
        mask = batch.sentences.mask
        scores = self.scores(batch.sentences)
        if self.crf is None:
            best = scores.argmax(dim=-1).tolist()
            found = [row[:n] for row, n in zip(best, mask.sum(1).tolist(), strict=True)]
        else:
            found = self.crf.decode(scores, mask)
        answers = [[self.tags[tag] for tag in tags] for tags in found]
        return [tuple(rewritten(tags) if self.spans else tags) for tags in answers]
