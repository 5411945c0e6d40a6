"""Token vectors from characters: the lowest box of the biLM (Peters et al., 2018, section 3.4).

Axes: tokens, chars (per token), char_dim, filters, dim.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.config import N_CHARS, CharCnnConfig
from elmo.model.highway import Highway
from elmo.text import PADDING_CHAR


class CharCnn(nn.Module):
    """Encode each token from its characters alone, so that no token is out of vocabulary."""

    def __init__(self, config: CharCnnConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(N_CHARS, config.char_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_dim, n_filters, width) for width, n_filters in config.filters
        )
        self.highway = Highway(config.n_filters, config.n_highway)
        self.projection = (
            nn.Linear(config.n_filters, config.dim) if config.projection else nn.Identity()
        )
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[config.activation]

    def reset_parameters(self) -> None:
        """Draw weights as the original does."""
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        with torch.no_grad():
            self.embedding.weight[0] = 0.0
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            if self.config.activation == "relu":
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                fan_in = convolution.kernel_size[0] * convolution.in_channels
                nn.init.normal_(convolution.weight, std=fan_in**-0.5)
            assert convolution.bias is not None
            nn.init.zeros_(convolution.bias)
        self.highway.reset_parameters()
        if isinstance(self.projection, nn.Linear):
            nn.init.normal_(self.projection.weight, std=self.config.n_filters**-0.5)
            nn.init.zeros_(self.projection.bias)

    def forward(self, char_ids: Int[Tensor, "tokens chars"]) -> Float[Tensor, "tokens dim"]:
        """Encode tokens. A token's vector does not depend on the tokens beside it.

        Args:
            char_ids: As `elmo.text.char_ids` makes them, `max_chars` per token.
        """
        x = self.embedding(self.without_idle_padding(char_ids))  # (tokens, chars, char_dim)
        x = x.transpose(1, 2)  # (tokens, char_dim, chars)
        # Both activations are monotone: pooling before them gives the same and leaves less to do.
        pooled = [convolution(x).amax(dim=-1) for convolution in self.convolutions]
        x = self.activation(torch.cat(pooled, dim=-1))  # (tokens, filters)
        return self.projection(self.highway(x))  # (tokens, dim)

    def without_idle_padding(
        self, char_ids: Int[Tensor, "tokens chars"]
    ) -> Int[Tensor, "tokens fewer_chars"]:
        """Cut trailing padding that no filter needs.

        Every window that lies in padding gives the same number, so that one such window per width
        is enough for the maximum: the padding is cut to the widest filter.
        """
        if not len(char_ids):
            return char_ids
        longest = int((char_ids != PADDING_CHAR).sum(dim=1).amax())
        widest = max(width for width, _ in self.config.filters)
        return char_ids[:, : longest + widest]
