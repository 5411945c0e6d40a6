"""The bidirectional language model below its softmax (Peters et al., 2018, sections 3.1 and 3.2).

Axes: batch, tokens (with the boundaries `<S>` and `</S>`), chars, directions (0 reads from left to
right, 1 from right to left), layers, dim.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import BiLMConfig
from elmo.model.char_cnn import CharCnn
from elmo.model.lstm import LayerState, Lstm


class BiLMState(NamedTuple):
    """LSTM state of every row: passed in, and given back as the last real token left it."""

    h: Float[Tensor, "directions lstm_layers batch dim"]
    c: Float[Tensor, "directions lstm_layers batch hidden"]


class BiLMOutput(NamedTuple):
    """What the biLM says of a batch.

    Attributes:
        layers: Layer 0 is the character CNN, twice; layer k is forward ‖ backward of LSTM k. Zero
            outside the mask.
        mask: True where a token (or a boundary) is.
        state: To go on reading from, where one wants to.
    """

    layers: Float[Tensor, "layers batch tokens dim"]
    mask: Bool[Tensor, "batch tokens"]
    state: BiLMState


class BiLM(nn.Module):
    """Characters in, every layer of both directions out.

    In training mode, dropout zeroes inputs of every LSTM layer, each direction by its own draw, as
    the original does (a skip connection then carries what dropout left). This is the definition,
    step by step; `bilm_packed` reads the same numbers faster where nothing is to be learned.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.char_cnn = CharCnn(config.char_cnn)
        self.forward_lm, self.backward_lm = (
            nn.ModuleList(Lstm(config.lstm) for _ in range(config.lstm.n_layers)) for _ in range(2)
        )

    def reset_parameters(self) -> None:
        """Draw all weights as the original does before training."""
        self.char_cnn.reset_parameters()
        for lstm in (*self.forward_lm, *self.backward_lm):
            assert isinstance(lstm, Lstm)
            lstm.reset_parameters()

    def zero_state(self, n_rows: int) -> BiLMState:
        """The state before anything was read."""
        lstm = self.config.lstm
        weight = self.char_cnn.embedding.weight
        h, c = (
            torch.zeros(2, lstm.n_layers, n_rows, dim, dtype=weight.dtype, device=weight.device)
            for dim in (lstm.dim, lstm.hidden_dim)
        )
        return BiLMState(h, c)

    def forward(
        self, char_ids: Int[Tensor, "batch tokens chars"], state: BiLMState | None = None
    ) -> BiLMOutput:
        """Encode a padded batch of sentences.

        Args:
            char_ids: As `elmo.text.batch_char_ids` makes them: sentences between `<S>` and `</S>`,
                0 beyond their end.
            state: To start from; None for zero, so that each sentence is read on its own.
        """
        return self.read(*self.embed(char_ids), state)

    def embed(
        self, char_ids: Int[Tensor, "batch tokens chars"]
    ) -> tuple[Float[Tensor, "batch tokens dim"], Bool[Tensor, "batch tokens"]]:
        """Token vectors by `char_cnn`, zero where there is none, and where they are."""
        mask = (char_ids > 0).any(dim=-1)
        vectors = self.char_cnn(char_ids[mask])
        tokens = vectors.new_zeros(*mask.shape, vectors.shape[-1])
        tokens[mask] = vectors
        return tokens, mask

    def read(
        self,
        tokens: Float[Tensor, "batch tokens token_dim"],
        mask: Bool[Tensor, "batch tokens"],
        state: BiLMState | None = None,
    ) -> BiLMOutput:
        """Encode a padded batch of which the token vectors are known.

        Args:
            tokens: Vectors of `char_cnn`, boundaries included.
            mask: True where a token is: from the first position of each row without a gap.
            state: To start from; None for zero.

        Raises:
            ValueError: If the mask has a gap, or the state is of another number of rows.
        """
        state = check_rows(self, mask, state)
        tokens = tokens * mask.unsqueeze(-1)
        lengths = mask.sum(dim=1, keepdim=True)
        positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
        mirrored = torch.where(mask, lengths - 1 - positions, positions).unsqueeze(-1)

        def mirror(x: Tensor) -> Tensor:
            return x.gather(1, mirrored.expand_as(x))

        directions, h, c = [], [], []
        for d, lstms in enumerate((self.forward_lm, self.backward_lm)):
            x, outputs = (tokens if d == 0 else mirror(tokens)), []
            for k, lstm in enumerate(lstms):
                x = functional.dropout(x, self.config.dropout, self.training)
                out, new = lstm(x, mask, LayerState(state.h[d, k], state.c[d, k]))
                x = out + x if self.config.lstm.skip_connections and k > 0 else out
                outputs.append(x if d == 0 else mirror(x))
                h.append(new.h)
                c.append(new.c)
            directions.append(outputs)
        layers = [torch.cat([tokens, tokens], dim=-1)]
        layers += [torch.cat(pair, dim=-1) for pair in zip(*directions, strict=True)]
        after = (torch.stack(part).unflatten(0, (2, -1)) for part in (h, c))
        return BiLMOutput(torch.stack(layers), mask, BiLMState(*after))


def check_rows(
    bilm: BiLM, mask: Bool[Tensor, "batch tokens"], state: BiLMState | None
) -> BiLMState:
    """The state to start a batch from, zero where none is given.

    Raises:
        ValueError: If the mask has a gap, or the state is of another number of rows.
    """
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise ValueError(
            "the mask has a gap: tokens stand at the start of a row, padding behind them"
        )
    if state is None:
        return bilm.zero_state(len(mask))
    if state.h.shape[2] != len(mask):
        raise ValueError(
            f"the state has {state.h.shape[2]} rows but the batch has {len(mask)}: pass the "
            "state of the same rows, or None"
        )
    return state
