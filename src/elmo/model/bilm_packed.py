"""The biLM for inference: rows without padding, weights made ready once, directions side by side.

The numbers are those of `BiLM`. Which form reads a layer is decided here:

    rows per step    float32, bfloat16, float16 by oneDNN     elsewhere    int8
    few              `lstm_packed`                            packed       packed, 8-bit products
    many             `lstm_fused`                             packed       packed, 8-bit products

Axes: layers, batch, tokens (with boundaries), dim; packed (all tokens of a batch).
"""

import threading

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from elmo.model.bilm import BiLM, BiLMOutput, BiLMState, check_rows
from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_fused import FusedLstm
from elmo.model.lstm_packed import PackedLstm, packed_order
from elmo.model.product import PlainProduct
from elmo.model.product_int8 import Int8Product
from elmo.model.product_onednn import OneDnnProduct, can_pack
from elmo.model.side_by_side import side_by_side
from elmo.model.weight_changes import WeightChanges

FUSED_ROWS = 24
"""Rows per step, on average, from which on fused steps are faster."""
LARGE_WEIGHT = 2**22
"""Numbers in a matrix from which on oneDNN is the faster also with few rows, in float32."""


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
        self._changes = WeightChanges(bilm.forward_lm, bilm.backward_lm)
        self._readers: dict[tuple[int, int, bool], PackedLstm | FusedLstm] = {}

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
        many = len(packed) >= FUSED_ROWS * max(1, len(batch_sizes))
        readers = self._ready(many)

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

        if many:
            side_by_side(read)
        else:
            read(0)
            read(1)
        return BiLMOutput(layers, mask, after)

    def _ready(self, many: bool) -> list[list[PackedLstm | FusedLstm]]:
        """Of both directions, the readers of all layers."""
        with self._lock:
            if self._changes.since_last_asked():
                self._readers.clear()
            directions = (self.bilm.forward_lm, self.bilm.backward_lm)
            for d, lstms in enumerate(directions):
                for k, lstm in enumerate(lstms):
                    if (d, k, many) not in self._readers:
                        assert isinstance(lstm, Lstm)
                        self._readers[d, k, many] = self._make_reader(lstm, many)
            return [
                [self._readers[d, k, many] for k in range(len(lstms))]
                for d, lstms in enumerate(directions)
            ]

    def _make_reader(self, lstm: Lstm, many: bool) -> PackedLstm | FusedLstm:
        weight = lstm.state_weight
        if self.int8:
            return PackedLstm(lstm, Int8Product)
        if weight.device.type != "cpu" or not can_pack(weight.dtype):
            return PackedLstm(lstm, PlainProduct)
        if many:
            return FusedLstm(lstm, OneDnnProduct)
        small = weight.dtype == torch.float32 and weight.numel() < LARGE_WEIGHT
        return PackedLstm(lstm, PlainProduct if small else OneDnnProduct)
