"""Parts of the end-to-end model: feed-forward scores, and scores of pairs of spans.

Axes: spans, antecedents (candidates of a span), dim (of a span), hidden.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from elmo.tasks.linear import hidden_layers, linear

PAIRS_AT_ONCE = 16_384
"""Pairs whose intermediate results are in memory at a time, also while gradients are computed."""
NEARNESS = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""Where buckets of distances begin."""


def feed_forward(dim: int, hidden_dim: int, n_layers: int, dropout: float) -> nn.Sequential:
    """Hidden layers, each with ReLU and dropout, and a single number in the end."""
    layers = hidden_layers(dim, hidden_dim, n_layers, dropout)
    return nn.Sequential(*layers, linear(hidden_dim if n_layers else dim, 1))


def distance_buckets(distances: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Buckets 1, 2, 3, 4, 5–7, 8–15, 16–31, 32–63, 64+ of distances from 1 up, numbered from 0."""
    edges = torch.tensor(NEARNESS, device=distances.device)
    return torch.bucketize(distances, edges, right=True) - 1


class PairScorer(nn.Module):
    """s_a(i, j) = FFNN([g_i, g_j, g_i ∘ g_j, φ(i, j)]) of Lee et al. (2017), section 4.

    The first layer's matrix is applied in parts, those of g_i and g_j once per span; and pairs are
    scored some at a time, so that memory does not grow with their number.

    Args:
        dim: Size of g.
        feature_dim: Size of φ; may be 0.
        hidden_dim: Of each hidden layer.
        n_layers: Hidden layers, at least one.
        dropout: Of hidden layers.
    """

    def __init__(
        self, dim: int, feature_dim: int, hidden_dim: int, n_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.sizes = [dim, dim, dim, feature_dim]
        self.first = linear(sum(self.sizes), hidden_dim)
        self.rest = nn.Sequential(
            nn.ReLU(),
            nn.Dropout(dropout),
            feed_forward(hidden_dim, hidden_dim, n_layers - 1, dropout),
        )

    def forward(
        self,
        spans: Float[Tensor, "spans dim"],
        antecedents: Int[Tensor, "spans antecedents"],
        features: Callable[[Tensor, Tensor], Tensor],
    ) -> Float[Tensor, "spans antecedents"]:
        """A score for each span and each of its candidates.

        Args:
            spans: g of all spans.
            antecedents: Numbers of spans.
            features: φ of spans, (n,), and their antecedents, (n, antecedents), by number.
        """
        of_span, of_antecedent, of_both, of_features = self.first.weight.split(self.sizes, dim=1)
        first = functional.linear(spans, of_span, self.first.bias)
        second = functional.linear(spans, of_antecedent)

        def scores(part: Tensor) -> Tensor:
            others = antecedents[part]
            hidden = first[part].unsqueeze(1) + second[others]
            hidden = hidden + functional.linear(spans[part].unsqueeze(1) * spans[others], of_both)
            if of_features.shape[1]:
                hidden = hidden + functional.linear(features(part, others), of_features)
            scored: Tensor = self.rest(hidden).squeeze(-1)
            return scored

        n_at_once = max(1, PAIRS_AT_ONCE // max(1, antecedents.shape[1]))
        parts = torch.arange(len(spans), device=spans.device).split(n_at_once)
        if len(parts) == 1 or not torch.is_grad_enabled():
            return torch.cat([scores(part) for part in parts])
        return torch.cat([checkpoint(scores, part, use_reentrant=False) for part in parts])
