"""Which spans speak of the same thing: span ranking from end to end (Lee et al., 2017).

Axes: tokens (of a document), spans, antecedents, width, dim.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_dropout, check_positive
from elmo.tasks.bilstm import BiLstm
from elmo.tasks.coref.batch import CorefBatch, ReadDocument
from elmo.tasks.coref.clusters import NO_ANTECEDENT, cluster_numbers, clusters_of_antecedents
from elmo.tasks.coref.data import Clusters
from elmo.tasks.coref.scorers import NEARNESS, PairScorer, distance_buckets, feed_forward
from elmo.tasks.coref.spans import Spans, best_apart, spans_within
from elmo.tasks.embedding import embedding
from elmo.tasks.task import TaskModel
from elmo.tasks.token_input import TokenInput


@dataclass(frozen=True)
class CorefConfig:
    """The model of Lee et al. (2017), with the numbers of their section 7.

    Args:
        hidden_dim: Of the biLSTM that reads each sentence, per direction.
        n_layers: Of the biLSTM.
        dropout: Of the biLSTM's output, of hidden layers of scores, and of features.
        score_dim: Size of hidden layers of scores.
        score_layers: Hidden layers of each score, at least one.
        feature_dim: Size of the embedding of a feature.
        width: Whether a span is known by its width.
        distance: Whether a pair is known by the number of spans from one to the other.
        speaker: Whether a pair is known by whether one speaker says both.
        genre: Whether a pair is known by the kind of its document.
        max_width: Tokens of a span at most.
        spans_per_token: λ: how many spans of a document are looked at as mentions.
        max_antecedents: K: how many of the spans before one are looked at as antecedents.
        window_sentences: Sentences in a row, at most, that are learned from in a step.
        window_tokens: Likewise tokens; what a step needs of memory grows with them.
        max_tokens: Of a document; longer ones are refused.
        singletons: Whether clusters of one mention are found; None for whether the training data
            has them.
    """

    hidden_dim: int = 200
    n_layers: int = 1
    dropout: float = 0.2
    score_dim: int = 150
    score_layers: int = 2
    feature_dim: int = 20
    width: bool = True
    distance: bool = True
    speaker: bool = True
    genre: bool = True
    max_width: int = 10
    spans_per_token: float = 0.4
    max_antecedents: int = 250
    window_sentences: int = 50
    window_tokens: int = 2000
    max_tokens: int = 20_000
    singletons: bool | None = None

    def __post_init__(self) -> None:
        check_positive(
            self,
            *("hidden_dim", "n_layers", "score_dim", "score_layers", "feature_dim", "max_width"),
            *("spans_per_token", "max_antecedents"),
            *("window_sentences", "window_tokens", "max_tokens"),
        )
        check_dropout(self)


class Ranked(NamedTuple):
    """Spans of a document with scores.

    Attributes:
        candidates: All spans.
        mention_scores: s_m of all spans.
        kept: Numbers of those that are looked at.
        antecedents: Of each of the kept, the kept ones before it, the nearest first.
        mask: True where there is such a one.
        scores: s(i, ε) = 0, and s(i, j) of each antecedent; −∞ outside the mask.
    """

    candidates: Spans
    mention_scores: Float[Tensor, " candidates"]
    kept: Int[Tensor, " spans"]
    antecedents: Int[Tensor, "spans antecedents"]
    mask: Bool[Tensor, "spans antecedents"]
    scores: Float[Tensor, "spans choices"]


class SpanRanker(TaskModel):
    """Scores of mentions, and of pairs of them.

    Args:
        config: Sizes.
        inputs: What is known of each token.
        n_genres: Kinds of documents in the training data.
        singletons: Whether mentions alone in their cluster are learned and found.
    """

    def __init__(
        self, config: CorefConfig, inputs: TokenInput, n_genres: int, *, singletons: bool
    ) -> None:
        super().__init__(inputs)
        self.config, self.singletons = config, singletons
        self.dropout = nn.Dropout(config.dropout)
        self.bilstm = BiLstm(
            inputs.dim, config.hidden_dim, n_layers=config.n_layers, dropout=config.dropout
        )
        hidden = self.bilstm.output_dim + inputs.output_dim
        score = config.score_dim, config.score_layers, config.dropout
        self.head = feed_forward(hidden, *score)
        self.widths = embedding(config.max_width, config.feature_dim) if config.width else None
        dim = 2 * hidden + inputs.dim + (config.feature_dim if config.width else 0)
        self.mention = feed_forward(dim, *score)
        self.distances = embedding(len(NEARNESS), config.feature_dim) if config.distance else None
        self.speakers = embedding(3, config.feature_dim) if config.speaker else None
        self.genres = embedding(n_genres + 1, config.feature_dim) if config.genre else None
        n_features = config.distance + config.speaker + config.genre
        self.pair = PairScorer(dim, n_features * config.feature_dim, *score)

    def loss(self, batch: CorefBatch) -> Float[Tensor, ""]:
        """−log p of any right antecedent, summed over a document's spans: the mean of documents.

        With singletons, −log p of whether each candidate is a mention is added. In training a
        window is drawn of each document.
        """
        config, losses = self.config, []
        for document in batch.documents:
            assert document.clusters is not None
            if self.training:
                document = document.window(config.window_sentences, config.window_tokens)
            ranked = self.rank(document)
            spans = ranked.candidates.pairs()
            clusters = torch.tensor(
                cluster_numbers(spans, document.clusters or ()), device=ranked.scores.device
            )
            right = right_choices(clusters[ranked.kept], ranked.antecedents, ranked.mask)
            loss = marginal_loss(ranked.scores, right)
            if self.singletons:
                loss = loss + functional.binary_cross_entropy_with_logits(
                    ranked.mention_scores, (clusters > 0).to(loss.dtype), reduction="sum"
                )
            losses.append(loss)
        return torch.stack(losses).mean()

    def predict(self, batch: CorefBatch) -> list[Clusters]:
        """The clusters of each document, each span following its best antecedent."""
        found = []
        for document in batch.documents:
            ranked = self.rank(document)
            choice = ranked.scores.argmax(dim=1, keepdim=True)
            nowhere = torch.full_like(choice, NO_ANTECEDENT)
            choices = torch.cat([nowhere, ranked.antecedents], dim=1)
            alone = ranked.mention_scores[ranked.kept] > 0 if self.singletons else choice[:0]
            found.append(
                clusters_of_antecedents(
                    ranked.candidates.chosen(ranked.kept).pairs(),
                    choices.gather(1, choice).squeeze(1).tolist(),
                    singletons=alone.tolist(),
                )
            )
        return found

    def rank(self, document: ReadDocument) -> Ranked:
        """Score all spans of a document, and pairs of the best."""
        config = self.config
        candidates = spans_within(document.lengths, config.max_width, document.speakers.device)
        vectors = self.represent(document, candidates)
        mention_scores = self.mention(vectors).squeeze(-1)
        n_kept = max(1, int(config.spans_per_token * sum(document.lengths)))
        best = best_apart(mention_scores.tolist(), candidates.pairs(), n_kept)
        kept = torch.tensor(best, device=vectors.device)
        numbers = torch.arange(len(best), device=vectors.device).unsqueeze(1)
        back = torch.arange(1, config.max_antecedents + 1, device=vectors.device)
        antecedents = numbers - back[: max(1, len(best) - 1)]
        mask, antecedents = antecedents >= 0, antecedents.clamp(min=0)
        of_mention = mention_scores[kept]
        first_tokens = candidates.starts[kept]

        def features(part: Tensor, others: Tensor) -> Tensor:
            return self._features(document, first_tokens, part, others)

        scores = self.pair(vectors[kept], antecedents, features)
        scores = scores + of_mention.unsqueeze(1) + of_mention[antecedents]
        scores = scores.masked_fill(~mask, -torch.inf)
        scores = torch.cat([scores.new_zeros(len(best), 1), scores], dim=1)
        return Ranked(candidates, mention_scores, kept, antecedents, mask, scores)

    def represent(self, document: ReadDocument, spans: Spans) -> Float[Tensor, "spans dim"]:
        """g: what stands at both ends of a span, its head as attention finds it, its width."""
        mask, vectors = document.sentences.mask, self.inputs(document.sentences)
        read = self.dropout(self.bilstm(vectors.input, mask))
        hidden = torch.cat([read, vectors.output], dim=-1)[mask]  # (tokens, …)
        places = torch.arange(self.config.max_width, device=mask.device)
        within = spans.starts.unsqueeze(1) + places  # (spans, width)
        inside = within <= spans.ends.unsqueeze(1)
        within = within.where(inside, spans.starts.unsqueeze(1))
        attention = self.head(hidden).squeeze(-1)[within]
        attention = attention.masked_fill(~inside, -torch.inf).softmax(dim=1)
        heads = functional.embedding_bag(
            within, vectors.input[mask], per_sample_weights=attention, mode="sum"
        )
        parts = [hidden[spans.starts], hidden[spans.ends], heads]
        if self.widths is not None:
            parts.append(self.dropout(self.widths(spans.ends - spans.starts)))
        return torch.cat(parts, dim=-1)

    def _features(
        self, document: ReadDocument, first_tokens: Tensor, part: Tensor, others: Tensor
    ) -> Tensor:
        """φ of spans and their antecedents."""
        features = []
        if self.distances is not None:
            apart = (part.unsqueeze(1) - others).clamp(min=1)
            features.append(self.distances(distance_buckets(apart)))
        if self.speakers is not None:
            speakers = document.speakers[first_tokens]
            one, other = speakers[part].unsqueeze(1), speakers[others]
            known = (one > 0) & (other > 0)
            features.append(self.speakers(known.long() * (1 + (one == other).long())))
        if self.genres is not None:
            features.append(self.genres(document.genre.expand_as(others)))
        return self.dropout(torch.cat(features, dim=-1))


def right_choices(
    clusters: Int[Tensor, " spans"],
    antecedents: Int[Tensor, "spans antecedents"],
    mask: Bool[Tensor, "spans antecedents"],
) -> Bool[Tensor, "spans choices"]:
    """Antecedents of the same cluster; ε, the first choice, where there is none.

    Args:
        clusters: Of each span, from 1; 0 for no mention.
        antecedents: Numbers of spans.
        mask: True where there is one.
    """
    of_span = clusters.unsqueeze(1)
    same = (clusters[antecedents] == of_span) & (of_span > 0) & mask
    return torch.cat([~same.any(dim=1, keepdim=True), same], dim=1)


def marginal_loss(
    scores: Float[Tensor, "spans choices"], right: Bool[Tensor, "spans choices"]
) -> Float[Tensor, ""]:
    """−Σ_i log Σ_j p(j | i), over the right choices j of each span i (their equation in section 6).

    Args:
        scores: Of choices; p is their softmax.
        right: At least one of each span.
    """
    of_right = scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)
    return (scores.logsumexp(dim=1) - of_right).sum()
