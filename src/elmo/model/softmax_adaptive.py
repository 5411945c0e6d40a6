"""The adaptive softmax (Grave et al., 2017): exact, and cheap for large vocabularies.

Words are numbered by falling frequency. The most frequent ones are scored one by one, as by
`Softmax`; the others lie in clusters, each scored in fewer dimensions than the one before, and only
for tokens whose target lies in it: p(word) = p(its cluster) · p(word in the cluster). Axes: tokens,
dim, vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.config import AdaptiveSoftmaxConfig
from elmo.model.softmax import CHUNK_TOKENS, Softmax


class AdaptiveSoftmax(nn.Module):
    """The probability of every word: a class on its own, or a cluster's times its share in it.

    Args:
        n_words: Size of the vocabulary.
        dim: Size of an output of the biLM.
        config: Where clusters begin, and how much smaller each is.

    Raises:
        ValueError: If the vocabulary ends before the last cluster begins, or a cluster has no
            dimension left.
    """

    def __init__(self, n_words: int, dim: int, config: AdaptiveSoftmaxConfig) -> None:
        super().__init__()
        cutoffs, shrink = list(config.cutoffs), config.shrink
        if cutoffs[-1] >= n_words:
            raise ValueError(
                f"the adaptive softmax has cutoffs {cutoffs}, but the vocabulary only "
                f"{n_words:,} words: give smaller cutoffs, or use the full softmax"
            )
        if dim // shrink ** len(cutoffs) < 1:
            raise ValueError(
                f"{len(cutoffs)} clusters that shrink {shrink:g}-fold each leave nothing of "
                f"{dim} dimensions: give fewer cutoffs or a smaller shrink"
            )
        self.config = config
        self.words = nn.AdaptiveLogSoftmaxWithLoss(dim, n_words, cutoffs, shrink, head_bias=True)

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return self.words.n_classes

    def reset_parameters(self) -> None:
        """As `Softmax`: scores of inputs of length √dim have variance 1, in every cluster."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)

    def full_loss(
        self, hidden: Float[Tensor, "tokens dim"], targets: Int[Tensor, " tokens"]
    ) -> Float[Tensor, " tokens"]:
        """−log p(target) of each token, in nats, over the whole vocabulary: exact.

        Every parameter gets a gradient, of zero where no target lies in its cluster: whether a
        weight is changed does not depend on how a batch is shared among processes.
        """
        parts = [
            -self.words(h, t).output
            for h, t in zip(hidden.split(CHUNK_TOKENS), targets.split(CHUNK_TOKENS), strict=True)
        ]
        nothing = 0.0 * sum(parameter.view(-1)[0] for parameter in self.parameters())
        return torch.cat(parts) + nothing

    def log_probabilities(
        self, hidden: Float[Tensor, "tokens dim"]
    ) -> Float[Tensor, "tokens vocabulary"]:
        """Log p of every word in the place of each token."""
        return self.words.log_prob(hidden)


AnySoftmax = Softmax | AdaptiveSoftmax
"""What gives words their probabilities."""
