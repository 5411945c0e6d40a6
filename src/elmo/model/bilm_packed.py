"""The biLM for inference: rows without padding, weights made ready once, directions side by side.

The numbers are those of `BiLM`; `layer_form` says which form reads a layer. Axes: layers, batch,
tokens (with boundaries or without), dim; packed (all tokens of a batch).
"""

import threading

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo.model.bilm import BiLM, BiLMOutput, BiLMState, check_rows
from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_fused import FusedLstm
from elmo.model.lstm_packed import PackedLstm, packed_order
from elmo.model.product import PlainProduct, Product
from elmo.model.product_int8 import Int8Product
from elmo.model.product_onednn import OneDnnProduct, can_pack
from elmo.model.side_by_side import side_by_side
from elmo.model.weight_changes import WeightChanges

FUSED_ROWS = 24
"""Rows per step, on average, from which on fused steps are faster."""
LARGE_MATRIX = 2**20
"""Numbers in a matrix from which on a product takes so long that threads and oneDNN always pay."""

LayerReader = PackedLstm | FusedLstm
Form = tuple[type[LayerReader], type[Product]]


def layer_form(lstm: Lstm, n_rows: float, *, int8: bool = False) -> Form:
    """What reads a layer fastest.

    Args:
        lstm: The layer.
        n_rows: Rows per step, on average.
        int8: Whether matrices are to be of 8-bit numbers.
    """
    weight = lstm.state_weight
    if int8:
        return PackedLstm, Int8Product
    if weight.device.type != "cpu" or not can_pack(weight.dtype):
        return PackedLstm, PlainProduct
    if n_rows >= FUSED_ROWS:
        return FusedLstm, OneDnnProduct
    if weight.dtype == torch.float32 and (n_rows <= 1 or weight.numel() < LARGE_MATRIX):
        return PackedLstm, PlainProduct  # reads the weights where they are
    return PackedLstm, OneDnnProduct


class PackedBiLM:
    """Reads batches with a biLM's weights, from any number of threads; not for training.

    Weights are made ready when they are first needed, and again after they have changed. That
    takes memory: up to twice as much as the LSTMs' weights themselves.

    Args:
        bilm: The network.
        int8: Whether to multiply 8-bit numbers in the LSTMs (see `product_int8`).
    """

    def __init__(self, bilm: BiLM, *, int8: bool = False) -> None:
        self.bilm = bilm
        self.int8 = int8
        self._lock = threading.Lock()
        self.changes = WeightChanges(bilm.forward_lm, bilm.backward_lm)
        self._made_at = 0
        lstm = bilm.config.lstm
        self._n_weights = 4 * lstm.hidden_dim * lstm.dim
        self._readers: dict[tuple[int, int, Form], LayerReader] = {}

    @torch.no_grad()
    def read(
        self,
        tokens: Float[Tensor, "batch tokens token_dim"],
        mask: Bool[Tensor, "batch tokens"],
        state: BiLMState | None = None,
    ) -> BiLMOutput:
        """As `BiLM.read` in evaluation mode."""
        state = check_rows(self.bilm, mask, state)
        by_length = torch.argsort(mask.sum(dim=1), descending=True, stable=True)
        order, mirrored, batch_sizes = packed_order(mask[by_length])
        rows, steps = by_length[order // mask.shape[1]], order % mask.shape[1]
        packed = tokens[rows, steps]
        dim = tokens.shape[-1]
        # Written where they belong: nothing of this size is held twice.
        layers = tokens.new_zeros(self.bilm.config.n_layers, *mask.shape, 2 * dim)
        after = BiLMState(*map(torch.empty_like, state))
        n_rows = len(packed) / max(1, len(batch_sizes))
        readers = self._ready(n_rows)

        def read(d: int) -> None:
            half = slice(d * dim, (d + 1) * dim)
            x = packed if d == 0 else packed[mirrored]
            layers[0, rows, steps, half] = packed
            for k, reader in enumerate(readers[d]):
                start = LayerState(state.h[d, k, by_length], state.c[d, k, by_length])
                out, new = reader.read(x, batch_sizes, start)
                x = out + x if self.bilm.config.lstm.skip_connections and k > 0 else out
                layers[k + 1, rows, steps, half] = x if d == 0 else x[mirrored]
                after.h[d, k, by_length], after.c[d, k, by_length] = new

        if n_rows >= FUSED_ROWS or self._n_weights >= LARGE_MATRIX:
            side_by_side(read)
        else:
            read(0)
            read(1)
        return BiLMOutput(layers, mask, after)

    def _ready(self, n_rows: float) -> list[list[LayerReader]]:
        """Of both directions, what reads each layer."""
        directions = (self.bilm.forward_lm, self.bilm.backward_lm)
        with self._lock:
            if self._made_at != (now := self.changes.count()):
                self._readers.clear()
                self._made_at = now
            return [
                [self._reader(d, k, lstm, n_rows) for k, lstm in enumerate(lstms)]
                for d, lstms in enumerate(directions)
            ]

    def _reader(self, d: int, k: int, lstm: nn.Module, n_rows: float) -> LayerReader:
        assert isinstance(lstm, Lstm)
        form = layer_form(lstm, n_rows, int8=self.int8)
        if (d, k, form) not in self._readers:
            reader, product = form
            self._readers[d, k, form] = reader(lstm, product)
        return self._readers[d, k, form]
