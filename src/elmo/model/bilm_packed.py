"""The biLM for inference: rows without padding, weights made ready once, directions side by side.

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
from elmo.model.side_by_side import side_by_side
from elmo.model.weight_changes import WeightChanges

FUSED_ROWS = 24
"""Rows per step, on average, from which on fused steps are faster."""
LARGE_MATRIX = 2**20
"""Numbers in a matrix from which on a product takes so long that threads and oneDNN always pay."""


class ApartLstm:
    """A layer of which each direction is read by itself, both at the same time.

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

        def read_one(d: int) -> tuple[Tensor, LayerState]:
            return self.readers[d].read(x[d], batch_sizes, LayerState(state.h[d], state.c[d]))

        (forward_x, forward_state), (backward_x, backward_state) = side_by_side(read_one)
        after = map(torch.stack, zip(forward_state, backward_state, strict=True))
        return torch.stack([forward_x, backward_x]), LayerState(*after)


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
    if n_rows < FUSED_ROWS and weight.numel() < LARGE_MATRIX:
        return PairedLstm
    if weight.device.type != "cpu" or not can_pack(weight.dtype):
        return PLAIN
    if n_rows >= FUSED_ROWS:
        return FUSED
    # One row's product reads each weight once: where they are is as good a place as any.
    return PLAIN if n_rows <= 1 and weight.dtype == torch.float32 else PACKED


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
        rows, steps = by_length[order // mask.shape[1]], order % mask.shape[1]
        packed = tokens[rows, steps]
        # Written where they belong: nothing of this size is held twice.
        shape = (self.bilm.config.n_layers, *mask.shape, 2 * tokens.shape[-1])
        layers = tokens.new_zeros(shape)
        after = BiLMState(*map(torch.empty_like, state))

        def write(k: int, x: Tensor) -> None:
            layers[k, rows, steps] = torch.cat([x[0], x[1][mirrored]], dim=-1)

        x = torch.stack([packed, packed[mirrored]])
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
