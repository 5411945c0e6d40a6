"""Where the answer to a question starts and ends: attention to the question, then to oneself.

Axes: batch (of pairs of a question and a window), tokens, others (the question's tokens), dim;
spans (of one question's answers).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo.config import check_dropout, check_positive
from elmo.tasks.attention import BiAttention, SelfAttention
from elmo.tasks.bilstm import SentenceDropout, initialise_recurrent, read_sentences
from elmo.tasks.features import SentenceBatch
from elmo.tasks.linear import linear
from elmo.tasks.squad.batch import NO_TOKEN, SquadBatch
from elmo.tasks.squad.decode import best_spans
from elmo.tasks.task import TaskModel
from elmo.tasks.token_input import TokenInput

PAIRS = 64
"""Windows that are read at once when answers are looked for: bounds the memory of long texts."""


@dataclass(frozen=True)
class SquadConfig:
    """A reader of paragraphs.

    Args:
        hidden_dim: Of the biGRUs, per direction; linear layers have twice as much.
        dropout: Before and after biGRUs, the same for all tokens of a text.
        max_answer: Tokens of a predicted answer at most.
        max_context: Tokens of a paragraph that are read at once. A longer one is read in windows
            that overlap by half: one with the answer in training, all at prediction.
        language: Whose rules split text into tokens; `whitespace` where that is done.
    """

    hidden_dim: int = 90
    dropout: float = 0.2
    max_answer: int = 17
    max_context: int = 400
    language: str = "en"

    def __post_init__(self) -> None:
        check_positive(self, "hidden_dim", "max_answer", "max_context")
        check_dropout(self)
        if self.max_answer > self.max_context // 2 + 1:
            raise ValueError(
                f"max_answer is {self.max_answer}, but windows of max_context = {self.max_context} "
                f"tokens hold any answer of up to {self.max_context // 2 + 1} whole: raise "
                "max_context"
            )


class BiGru(nn.Module):
    """Read each sentence in both directions; padding is not read, and gets zeros."""

    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.gru = nn.GRU(dim, hidden_dim, bidirectional=True, batch_first=True)
        initialise_recurrent(self.gru, n_gates=3)

    def forward(
        self, vectors: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens states_dim"]:
        """The state after each token, left to right and right to left."""
        return read_sentences(self.gru, vectors, mask)


class Reader(TaskModel):
    """The improved BiDAF of Clark and Gardner (2018), as Peters et al. (2018) simplified it.

    ELMo enters before the shared biGRU, beside its output, or at both. The authors also keep the
    word vectors fixed, which is left out here.

    Args:
        config: Sizes.
        inputs: What is known of each token.

    Source:
        Peters et al. (2018), A.4; `docqa/elmo/ablate_elmo_model.py` in `allenai/document-qa`.
    """

    def __init__(self, config: SquadConfig, inputs: TokenInput) -> None:
        super().__init__(inputs)
        self.max_answer = config.max_answer
        dim = 2 * config.hidden_dim
        self.dropout = SentenceDropout(config.dropout)
        self.reading = BiGru(inputs.dim, config.hidden_dim)
        self.attention = BiAttention(dim + inputs.output_dim)
        self.attended = linear(4 * (dim + inputs.output_dim), dim)
        self.again = BiGru(dim, config.hidden_dim)
        self.self_attention = SelfAttention(dim)
        self.self_attended = linear(3 * dim, dim)
        self.starting = BiGru(dim, config.hidden_dim)
        self.start = linear(dim, 1)
        self.ending = BiGru(2 * dim, config.hidden_dim)
        self.end = linear(dim, 1)

    def read(self, text: SentenceBatch) -> Float[Tensor, "batch tokens dim"]:
        """Each token where it stands, in a question or a paragraph alike."""
        vectors = self.inputs(text)
        states = self.dropout(self.reading(self.dropout(vectors.input), text.mask))
        return torch.cat([states, vectors.output], dim=-1)

    def scores(
        self, batch: SquadBatch
    ) -> tuple[Float[Tensor, "batch tokens"], Float[Tensor, "batch tokens"]]:
        """How well the answer of each pair's question starts, and ends, at each token."""
        mask = batch.windows.mask[batch.window_of]
        x = self.attention(
            self.read(batch.windows)[batch.window_of],
            mask,
            self.read(batch.queries)[batch.question_of],
            batch.queries.mask[batch.question_of],
        )
        x = torch.relu(self.attended(x))  # (batch, tokens, dim)
        y = self.self_attention(self.dropout(self.again(self.dropout(x), mask)), mask)
        x = self.dropout(x + torch.relu(self.self_attended(y)))
        starting = self.starting(x, mask)
        ending = self.ending(torch.cat([x, starting], dim=-1), mask)
        return self.start(starting).squeeze(-1), self.end(ending).squeeze(-1)

    def loss(self, batch: SquadBatch) -> Float[Tensor, ""]:
        """−log p(answer): the mean of the questions that have one to learn from, 0 without any."""
        taught = (batch.spans[:, 0, 0] != NO_TOKEN).nonzero().squeeze(1)
        if not len(taught):
            return sum((p.sum() * 0 for p in self.parameters()), start=torch.zeros(()))
        batch = batch.part(taught)
        starts, ends = self.scores(batch)
        return span_loss(starts, ends, batch.windows.mask[batch.window_of], batch.spans).mean()

    def predict(self, batch: SquadBatch) -> list[str]:
        """The best span of each question, of all windows, as its paragraph writes it."""
        best: list[tuple[float, int, int]] = [(-torch.inf, 0, 0)] * len(batch.questions)
        for pairs in torch.arange(len(batch.starts), device=batch.starts.device).split(PAIRS):
            part = batch.part(pairs)
            mask = part.windows.mask[part.window_of]
            spans = best_spans(*self.scores(part), mask, max_tokens=self.max_answer)
            firsts, lasts = spans.first + part.starts, spans.last + part.starts
            found = zip(spans.score.tolist(), firsts.tolist(), lasts.tolist(), strict=True)
            for i, answer in zip(part.question_of.tolist(), found, strict=True):
                # Of equals the first, as within a window.
                best[i] = max(best[i], answer, key=lambda each: each[0])
        return [
            question.paragraph.cut(first, last)
            for question, (_, first, last) in zip(batch.questions, best, strict=True)
        ]


def span_loss(
    start_scores: Float[Tensor, "batch tokens"],
    end_scores: Float[Tensor, "batch tokens"],
    mask: Bool[Tensor, "batch tokens"],
    spans: Int[Tensor, "batch spans 2"],
) -> Float[Tensor, " batch"]:
    """−log Σ p(start) p(end) over the places of the answer: for one, −log p(start) − log p(end).

    Args:
        start_scores: Before the softmax over tokens.
        end_scores: Likewise.
        mask: True where a token is.
        spans: The first and the last token of each place, at least one; `NO_TOKEN` in padding.
    """
    starts = start_scores.masked_fill(~mask, -torch.inf).log_softmax(dim=1)
    ends = end_scores.masked_fill(~mask, -torch.inf).log_softmax(dim=1)
    first, last = spans.clamp(min=0).unbind(dim=2)
    together = starts.gather(1, first) + ends.gather(1, last)  # (batch, spans)
    return -together.masked_fill(spans[..., 0] == NO_TOKEN, -torch.inf).logsumexp(dim=1)
