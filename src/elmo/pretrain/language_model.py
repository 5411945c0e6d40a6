"""The biLM with its softmax, as it is trained: windows in, losses out.

Axes: directions, steps, rows, dim.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn
from torch.nn import functional

from elmo.model.bilm import BiLM
from elmo.model.char_cnn_window import encode_groups
from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_window import WindowReader, read_window
from elmo.model.softmax import Negatives, Softmax
from elmo.model.softmax_adaptive import AnySoftmax
from elmo.pretrain.windows import NO_TARGET, Window
from elmo.text import PADDING_CHAR

LENGTH_GROUPS = 4

LmState = Sequence[LayerState]
"""State of each LSTM layer, both directions stacked: (directions, rows, ·)."""


class Losses(NamedTuple):
    """Mean −log p per prediction, in nats, of each direction; the state to go on from."""

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
        char_table: Integer[np.ndarray, "types chars"],
        state: LmState,
        *,
        negatives: Negatives | None = None,
        elsewhere: Int[Tensor, " words"] | None = None,
        carry: bool = True,
        dtype: torch.dtype = torch.float32,
        read: WindowReader = read_window,
    ) -> Losses:
        """Losses of a window: their sum over its predictions, divided by `window.n_predicted`.

        In training mode, dropout acts on inputs of every LSTM layer and on outputs of the last.

        Args:
            window: From `elmo.pretrain.windows`.
            char_table: Character ids of the types that the window's inputs number.
            state: As the last window left it.
            negatives: For a sampled softmax; None for the full one.
            elsewhere: Words that other processes predict with the same negatives: the gradient of
                a sampled softmax gets their rows too, so that it can be averaged.
            carry: Whether the state is carried from a sentence to the next, as in the original, or
                each sentence begins from zero, as vectors are computed later.
            dtype: Of matrix products in the CNN, the LSTMs and a sampled softmax.
            read: What reads a window with a layer; on a GPU a `WindowGraphs` is faster.

        Raises:
            ValueError: If the table holds another number of characters than the biLM reads.
        """
        x = self.token_vectors(window.inputs, char_table, dtype)
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
        words = window.targets.reshape(-1)
        predicted = np.flatnonzero(words != NO_TARGET)
        n_predicted: float = window.n_predicted
        if not len(predicted):
            # Any prediction, counted as nothing: every weight still gets its gradient, of zero.
            # One that was drawn, where words are: all processes have its row.
            any_word = 0 if negatives is None else int(negatives.words[0])
            words, predicted, n_predicted = (
                np.full_like(words, any_word),
                np.arange(len(words)),
                math.inf,
            )
        if len(predicted) < len(words):
            hidden, words = hidden[torch.from_numpy(predicted).to(x.device)], words[predicted]
        targets = torch.from_numpy(words).to(x.device)
        if negatives is None:
            losses = self.softmax.full_loss(hidden, targets)
        else:
            assert isinstance(self.softmax, Softmax)  # an adaptive one needs no sampling
            losses = self.softmax.sampled_loss_fast(hidden, targets, negatives, dtype, elsewhere)
        # What one direction predicts the other does too, at other steps.
        forward_loss, backward_loss = losses.view(2, -1).sum(dim=1) / n_predicted
        return Losses(forward_loss, backward_loss, new_state)

    def token_vectors(
        self,
        inputs: Int[np.ndarray, "directions steps rows"],
        char_table: Integer[np.ndarray, "types chars"],
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "directions steps rows dim"]:
        """Character CNN of every input, computed once per distinct token."""
        if char_table.shape[1] != self.bilm.config.char_cnn.max_chars:
            raise ValueError(
                f"the corpus has {char_table.shape[1]} characters per token, but the biLM reads "
                f"{self.bilm.config.char_cnn.max_chars}: prepare it with that max_chars"
            )
        distinct, where = np.unique(inputs, return_inverse=True)
        ids = char_table[distinct].astype(np.int64)
        # Short tokens apart from long ones: a batch is as wide as its longest token.
        by_length = np.argsort((ids != PADDING_CHAR).sum(axis=1), kind="stable")
        device = self.bilm.char_cnn.embedding.weight.device
        groups = [
            torch.from_numpy(ids[group]).to(device)
            for group in np.array_split(by_length, LENGTH_GROUPS)
        ]
        vectors = encode_groups(self.bilm.char_cnn, groups, dtype)
        rank = np.empty(len(distinct), dtype=np.int64)
        rank[by_length] = np.arange(len(distinct))
        places = torch.from_numpy(rank[where].reshape(inputs.shape)).to(device)
        return functional.embedding(places, vectors)
