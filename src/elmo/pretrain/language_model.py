"""The biLM with its softmax, as it is trained: windows in, losses out.

Axes: directions, steps, rows, dim.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.model.bilm import BiLM
from elmo.model.char_cnn_window import encode_groups
from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_window import WindowReader, read_window
from elmo.model.softmax import Negatives, Softmax
from elmo.model.softmax_adaptive import AnySoftmax
from elmo.pretrain.windows import Window
from elmo.text import char_ids

LENGTH_GROUPS = 4

LmState = Sequence[LayerState]
"""State of each LSTM layer, both directions stacked: (directions, rows, ·)."""


class Losses(NamedTuple):
    """Mean −log p per token, in nats, of each direction; the state to go on from."""

    forward_lm: Float[Tensor, ""]
    backward_lm: Float[Tensor, ""]
    state: LmState

    @property
    def total(self) -> Float[Tensor, ""]:
        """The mean of both directions: what training makes smaller."""
        return (self.forward_lm + self.backward_lm) / 2


class LanguageModel(nn.Module):
    """A biLM and the softmax that both of its directions share (section 3.1)."""

    def __init__(self, bilm: BiLM, softmax: AnySoftmax) -> None:
        super().__init__()
        self.bilm = bilm
        self.softmax = softmax

    def zero_state(self, n_rows: int) -> LmState:
        """The state before anything was read."""
        h, c = self.bilm.zero_state(n_rows)
        return [LayerState(h[:, k], c[:, k]) for k in range(h.shape[1])]

    def forward(
        self,
        window: Window,
        types: Sequence[str],
        state: LmState,
        *,
        negatives: Negatives | None = None,
        carry: bool = True,
        dtype: torch.dtype = torch.float32,
        read: WindowReader = read_window,
    ) -> Losses:
        """Losses of a window.

        In training mode, dropout acts on inputs of every LSTM layer and on outputs of the last.

        Args:
            window: From `elmo.pretrain.windows`.
            types: The tokens that the window's inputs number.
            state: As the last window left it.
            negatives: For a sampled softmax; None for the full one.
            carry: Whether the state is carried from a sentence to the next, as in the original, or
                each sentence begins from zero, as vectors are computed later.
            dtype: Of matrix products in the CNN, the LSTMs and a sampled softmax.
            read: What reads a window with a layer; on a GPU a `WindowGraphs` is faster.
        """
        x = self.token_vectors(window.inputs, types, dtype)
        keep = None if carry else torch.from_numpy(~window.begins).to(x.device, x.dtype)
        dropout, new_state = self.bilm.config.dropout, []
        for k, lstms in enumerate(zip(self.bilm.forward_lm, self.bilm.backward_lm, strict=True)):
            forward_lstm, backward_lstm = lstms
            assert isinstance(forward_lstm, Lstm) and isinstance(backward_lstm, Lstm)
            x = functional.dropout(x, dropout, self.training)
            out, after = read((forward_lstm, backward_lstm), x, state[k], keep, dtype)
            x = out + x if self.bilm.config.lstm.skip_connections and k > 0 else out
            new_state.append(after)
        hidden = functional.dropout(x, dropout, self.training).flatten(0, 2)
        targets = torch.from_numpy(window.targets.reshape(-1)).to(x.device)
        if negatives is None:
            losses = self.softmax.full_loss(hidden, targets)
        else:
            assert isinstance(self.softmax, Softmax)  # an adaptive one needs no sampling
            losses = self.softmax.sampled_loss_fast(hidden, targets, negatives, dtype)
        forward_loss, backward_loss = losses.view(2, -1).mean(dim=1)
        return Losses(forward_loss, backward_loss, new_state)

    def token_vectors(
        self,
        inputs: Int[np.ndarray, "directions steps rows"],
        types: Sequence[str],
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "directions steps rows dim"]:
        """Character CNN of every input, computed once per distinct token."""
        distinct, where = np.unique(inputs, return_inverse=True)
        tokens = [types[i] for i in distinct]
        # Short tokens apart from long ones: a batch is as wide as its longest token.
        by_length = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        device, max_chars = (
            self.bilm.char_cnn.embedding.weight.device,
            self.bilm.config.char_cnn.max_chars,
        )
        groups = [
            torch.from_numpy(char_ids([tokens[i] for i in group], max_chars)).to(device)
            for group in np.array_split(np.array(by_length), LENGTH_GROUPS)
        ]
        vectors = encode_groups(self.bilm.char_cnn, groups, dtype)
        rank = np.empty(len(tokens), dtype=np.int64)
        rank[by_length] = np.arange(len(tokens))
        places = torch.from_numpy(rank[where].reshape(inputs.shape)).to(device)
        return functional.embedding(places, vectors)
