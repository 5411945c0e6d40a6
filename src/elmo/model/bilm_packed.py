"""The biLM for inference: rows without padding, weights made ready once.

The numbers are those of `BiLM`; `layer_reader` says which form reads a layer. Axes: layers, batch,
tokens (with boundaries or without), dim; packed (all tokens of a batch).
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from elmo.model.bilm import BiLM, BiLMOutput, BiLMState, check_rows
from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_fused import FusedLstm
from elmo.model.lstm_packed import PackedLstm, packed_order
from elmo.model.lstm_paired import PairedLstm
from elmo.model.product import PlainProduct, Product
from elmo.model.product_int8 import Int8Product
from elmo.model.product_onednn import OneDnnProduct, can_pack
from elmo.model.weight_changes import WeightChanges

FUSED_ROWS = {torch.float32: 48, torch.bfloat16: 24, torch.float16: 24}
"""Rows per step, on average, from which on fused steps are fastest."""
LARGE_MATRIX = 2**22
"""Numbers in a matrix from which on, in float32, prepacked weights pay with few rows too."""


class ApartLstm:
    """A layer of which the directions are read one after the other.

    Args:
        lstms: The layer of the forward and of the backward direction.
        reader: What reads a direction.
        form: How it multiplies.
    """

    def __init__(
        self,
        lstms: tuple[Lstm, Lstm],
        reader: type[PackedLstm | FusedLstm],
        form: type[Product],
    ) -> None:
        self.readers = [reader(lstm, form) for lstm in lstms]

    def read(
        self,
        x: Float[Tensor, "directions packed dim"],
        batch_sizes: list[int],
        state: LayerState,
    ) -> tuple[Float[Tensor, "directions packed dim"], LayerState]:
        """As `PairedLstm.read`."""
        outputs, after_h, after_c = torch.empty_like(x), *map(torch.empty_like, state)
        for d, reader in enumerate(self.readers):
            start = LayerState(state.h[d], state.c[d])
            outputs[d], (after_h[d], after_c[d]) = reader.read(x[d], batch_sizes, start)
        return outputs, LayerState(after_h, after_c)


LayerReader = PairedLstm | ApartLstm


def layer_reader(
    lstms: tuple[Lstm, Lstm], n_rows: float, *, int8: bool = False
) -> Callable[[tuple[Lstm, Lstm]], LayerReader]:
    """What reads a layer fastest.

    Args:
        lstms: The layer of both directions.
        n_rows: Rows per step, on average.
        int8: Whether matrices are to be of 8-bit numbers.
    """
    weight = lstms[0].state_weight
    if int8:
        return EIGHT_BITS
    if weight.device.type != "cpu" or not can_pack(weight.dtype):
        return PairedLstm
    if n_rows >= FUSED_ROWS[weight.dtype]:
        return FUSED
    if weight.dtype != torch.float32:
        return PACKED
    if n_rows <= 1:
        return PLAIN  # reads the weights where they are, and a direction's stay in the cache
    return PACKED if weight.numel() >= LARGE_MATRIX else PairedLstm


PLAIN = partial(ApartLstm, reader=PackedLstm, form=PlainProduct)
PACKED = partial(ApartLstm, reader=PackedLstm, form=OneDnnProduct)
FUSED = partial(ApartLstm, reader=FusedLstm, form=OneDnnProduct)
EIGHT_BITS = partial(ApartLstm, reader=PackedLstm, form=Int8Product)


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
        self.changes = WeightChanges(bilm.forward_lm, bilm.backward_lm)
        self._lock = threading.Lock()
        self._made_at = 0
        self._readers: dict[object, list[LayerReader]] = {}

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
        places = by_length[order // mask.shape[1]] * mask.shape[1] + order % mask.shape[1]
        packed = tokens.flatten(0, 1).index_select(0, places)
        # Written where they belong: nothing of this size is held twice.
        shape = (self.bilm.config.n_layers, *mask.shape, 2 * tokens.shape[-1])
        layers = tokens.new_zeros(shape)
        after = BiLMState(*map(torch.empty_like, state))

        def write(k: int, x: Tensor) -> None:
            both = torch.cat([x[0], x[1].index_select(0, mirrored)], dim=-1)
            layers[k].flatten(0, 1).index_copy_(0, places, both)

        x = torch.stack([packed, packed.index_select(0, mirrored)])
        write(0, x)
        for k, reader in enumerate(self._ready(len(packed) / max(1, len(batch_sizes)))):
            start = LayerState(state.h[:, k, by_length], state.c[:, k, by_length])
            out, new = reader.read(x, batch_sizes, start)
            x = out + x if self.bilm.config.lstm.skip_connections and k > 0 else out
            write(k + 1, x)
            after.h[:, k, by_length], after.c[:, k, by_length] = new
        return BiLMOutput(layers, mask, after)

    def _ready(self, n_rows: float) -> list[LayerReader]:
        """What reads each layer."""
        pairs = list(zip(self.bilm.forward_lm, self.bilm.backward_lm, strict=True))
        layers = cast(list[tuple[Lstm, Lstm]], pairs)
        with self._lock:
            if self._made_at != (now := self.changes.count()):
                self._readers.clear()
                self._made_at = now
            make = layer_reader(layers[0], n_rows, int8=self.int8)
            if make not in self._readers:
                self._readers[make] = list(map(make, layers))
            return self._readers[make]
