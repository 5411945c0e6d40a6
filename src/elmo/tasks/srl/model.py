"""The arguments of a predicate: a deep alternating LSTM that knows where the predicate is.

Axes: batch (sentences), tokens, frames (of all sentences of the batch), tags, dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_dropout, check_positive
from elmo.tasks.features import SentenceBatch
from elmo.tasks.highway_lstm import HighwayLstm
from elmo.tasks.linear import linear
from elmo.tasks.srl.data import Frame
from elmo.tasks.srl.decode import arguments_of_tags, best_tags, tag_ids, tag_names
from elmo.tasks.task import TaskModel
from elmo.tasks.token_input import TokenInput

NO_TAG = -100


@dataclass(frozen=True)
class SrlConfig:
    """The labeller of He et al. (2017), section 2.

    Args:
        hidden_dim: Of the LSTM.
        n_layers: Of the LSTM, read in turn forwards and backwards.
        predicate_dim: Size of the embedding that says whether a token is the predicate.
        recurrent_dropout: Of the LSTM's outputs, the same for all tokens of a sentence.
    """

    hidden_dim: int = 300
    n_layers: int = 8
    predicate_dim: int = 100
    recurrent_dropout: float = 0.1

    def __post_init__(self) -> None:
        check_positive(self, "hidden_dim", "n_layers", "predicate_dim")
        check_dropout(self, "recurrent_dropout")


@dataclass(frozen=True)
class SrlBatch:
    """Sentences and their frames. What is known of a token is computed once for all its frames.

    Attributes:
        sentences: The sentences.
        frames: Of each sentence, in order.
        sentence_of: The sentence of each frame.
        predicates: The predicate's place in it.
        tags: `NO_TAG` in padding; None where arguments are not known.
    """

    sentences: SentenceBatch
    frames: Sequence[Sequence[Frame]]
    sentence_of: Int[Tensor, " frames"]
    predicates: Int[Tensor, " frames"]
    tags: Int[Tensor, "frames tokens"] | None

    @classmethod
    def of(
        cls, sentences: SentenceBatch, frames: Sequence[Sequence[Frame]], roles: Sequence[str]
    ) -> "SrlBatch":
        """Frames by number, with their tags where all arguments are known."""
        flat = [(i, frame) for i, of_sentence in enumerate(frames) for frame in of_sentence]
        tags = None
        if all(frame.arguments is not None for _, frame in flat):
            tags = torch.full((len(flat), sentences.mask.shape[1]), NO_TAG)
            for k, (i, frame) in enumerate(flat):
                n = len(sentences.tokens[i])
                tags[k, :n] = torch.tensor(tag_ids(frame.arguments or (), n, roles).ids)
        return cls(
            sentences,
            frames,
            torch.tensor([i for i, _ in flat], dtype=torch.long),
            torch.tensor([frame.predicate for _, frame in flat], dtype=torch.long),
            tags,
        )

    def to(self, device: torch.device | str) -> "SrlBatch":
        """The same on a device."""
        return replace(
            self,
            sentences=self.sentences.to(device),
            sentence_of=self.sentence_of.to(device),
            predicates=self.predicates.to(device),
            tags=None if self.tags is None else self.tags.to(device),
        )


class RoleLabeller(TaskModel):
    """Tags of each token for each predicate, chosen apart in training and together afterwards.

    Args:
        config: Sizes.
        inputs: What is known of each token.
        roles: That arguments can play.
    """

    def __init__(self, config: SrlConfig, inputs: TokenInput, roles: Sequence[str]) -> None:
        super().__init__(inputs)
        self.roles = tuple(roles)
        self.is_predicate = nn.Embedding(2, config.predicate_dim)
        nn.init.normal_(self.is_predicate.weight, std=0.1)
        self.lstm = HighwayLstm(
            inputs.dim + config.predicate_dim,
            config.hidden_dim,
            n_layers=config.n_layers,
            recurrent_dropout=config.recurrent_dropout,
        )
        n_tags = len(tag_names(roles))
        self.emissions = linear(self.lstm.output_dim + inputs.output_dim, n_tags)

    def scores(self, batch: SrlBatch) -> Float[Tensor, "frames tokens tags"]:
        """Of each tag at each token, before the softmax."""
        vectors, mask = self.inputs(batch.sentences), batch.sentences.mask[batch.sentence_of]
        places = torch.arange(mask.shape[1], device=mask.device)
        marks = self.is_predicate((places == batch.predicates.unsqueeze(1)).long())
        hidden = self.lstm(torch.cat([vectors.input[batch.sentence_of], marks], dim=-1), mask)
        return self.emissions(torch.cat([hidden, vectors.output[batch.sentence_of]], dim=-1))

    def loss(self, batch: SrlBatch) -> Float[Tensor, ""]:
        """−log p of a token's tag: the mean of all frames' tokens; 0 where there is no frame."""
        assert batch.tags is not None
        scores = self.scores(batch).flatten(0, 1)
        if not len(scores):
            return scores.sum()
        return functional.cross_entropy(scores, batch.tags.flatten(), ignore_index=NO_TAG)

    def predict(self, batch: SrlBatch) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, with the arguments that are most likely together."""
        found: list[list[int]] = []
        if len(batch.predicates):
            scores = self.scores(batch).log_softmax(dim=-1)
            found = best_tags(scores, batch.sentences.mask[batch.sentence_of])
        tags = iter(found)
        return [
            tuple(
                replace(frame, arguments=arguments_of_tags(next(tags), self.roles))
                for frame in frames
            )
            for frames in batch.frames
        ]
