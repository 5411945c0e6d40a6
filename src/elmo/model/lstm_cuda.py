"""All LSTM layers of a biLM for inference on a GPU: few launches per step, replayed as one graph.

As `lstm`, but both directions are one batched product, the input half of the gates is one large
product per layer, and a step is a product with the state, one kernel for all gates (`cell_triton`),
the projection and its clip. What a shape of batch launches is recorded as a CUDA graph when the
shape comes for the second time, and replayed from then on. Shapes are rounded up, so that there are
few of them. Steps of a row behind its last token are computed and not looked at: put sentences of
like length into a batch.

Not cuDNN: PyTorch's call of it (`torch.nn.LSTM`) has a projection but no clip, and cuDNN's own has
one pair of bounds, where the biLM clips both cells and projections.

Axes: directions, steps, rows, dim, hidden, gates = 4 × hidden; batch and tokens are rows and steps
as a caller sees them.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from elmo.config import LstmConfig
from elmo.model.bilm import BiLM, BiLMOutput, BiLMState, check_rows
from elmo.model.cell import cell_step, fused_cells
from elmo.model.cuda_graph import capture, new_pool
from elmo.model.lstm import Lstm
from elmo.model.weight_changes import WeightChanges

logger = logging.getLogger(__name__)

GATE_BYTES = 2**30
"""Memory for the gates of one stretch of time; a long sentence is read in several."""
MAX_SHAPES = 128
"""Shapes of batches that are remembered, with their graphs; those not seen for longest go first."""


class LayerWeights(NamedTuple):
    """Weights of one layer, both directions stacked."""

    input: Float[Tensor, "directions gates dim"]
    state: Float[Tensor, "directions gates dim"]
    bias: Float[Tensor, "directions gates"]
    projection: Float[Tensor, "directions dim hidden"] | None


class CudaReader:
    """Reads batches with the LSTM layers of a biLM; not for training.

    It can stand for a `PackedBiLM`: weights are stacked when they are first needed, and again after
    they have changed. Any thread and stream may read; one at a time does. On tensors outside a GPU
    it computes the same without graphs.

    Args:
        bilm: Whose layers; its weights may be moved and changed later.
        graphs: Whether to record CUDA graphs.
    """

    def __init__(self, bilm: BiLM, *, graphs: bool = True) -> None:
        self.bilm = bilm
        self.graphs = graphs
        self.changes = WeightChanges(bilm.forward_lm, bilm.backward_lm)
        self._lock = Lock()
        self._weights: list[LayerWeights] = []
        self._made_at = 0
        # Shapes seen, with what replays them if they were seen twice.
        self._shapes: OrderedDict[tuple[int, int], Callable[[], None] | None] = OrderedDict()
        self._room = (0, 0)
        self._idle: torch.cuda.Event | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (self.bilm, self.graphs)  # graphs are no part of a copy

    @torch.inference_mode(False)  # what is kept must be usable outside it
    @torch.no_grad()
    def read(
        self,
        tokens: Float[Tensor, "batch tokens token_dim"],
        mask: Bool[Tensor, "batch tokens"],
        state: BiLMState | None = None,
    ) -> BiLMOutput:
        """As `BiLM.read` in evaluation mode."""
        state = check_rows(self.bilm, mask, state)
        tokens = tokens * mask.unsqueeze(-1)
        shape = (self.bilm.config.n_layers, *mask.shape, 2 * tokens.shape[-1])
        if not mask.numel():
            return BiLMOutput(tokens.new_zeros(shape), mask, BiLMState(*map(torch.clone, state)))
        with self._lock, torch.cuda.device_of(tokens):
            if self._idle is not None:  # the last reading may have been on another stream
                torch.cuda.current_stream().wait_event(self._idle)
            self._stack()
            if self.graphs and self._records(tokens):
                layers, last = self._read_recorded(tokens, mask, state)
            else:
                layers = tokens.new_empty(shape)
                last = BiLMState(state.h.clone(), state.c.to(_cell_dtype(state.c.dtype), copy=True))
                _read(self._weights, self.bilm.config.lstm, tokens, mask, last, layers)
            if self._idle is not None:
                self._idle.record()
            return BiLMOutput(layers, mask, BiLMState(last.h, last.c.to(state.c.dtype)))

    def _records(self, tokens: Tensor) -> bool:
        return tokens.is_cuda

    def _read_recorded(
        self, tokens: Tensor, mask: Tensor, state: BiLMState
    ) -> tuple[Tensor, BiLMState]:
        n_rows, n_steps, dim = tokens.shape
        shape = (_rounded_up(n_rows), _rounded_up(n_steps))
        self._make_room(shape, tokens)
        of_tokens, of_mask, of_state, layers = self._views(shape, dim)
        of_tokens[:n_rows, :n_steps] = tokens
        of_mask.zero_()[:n_rows, :n_steps] = mask
        of_state.h[:, :, :n_rows], of_state.c[:, :, :n_rows] = state.h, state.c

        def read() -> None:
            _read(self._weights, self.bilm.config.lstm, of_tokens, of_mask, of_state, layers)

        replay = self._shapes.get(shape)
        if replay is None and shape in self._shapes:
            kept = BiLMState(of_state.h.clone(), of_state.c.clone())  # recording reads, and writes
            try:
                (replay,) = capture(read, pool=self._pool)
            except RuntimeError as error:
                logger.warning("going on without CUDA graphs, which is slower: %s", error)
                self.graphs = False
            of_state.h.copy_(kept.h)
            of_state.c.copy_(kept.c)
        self._shapes[shape] = replay
        self._shapes.move_to_end(shape)
        if len(self._shapes) > MAX_SHAPES:
            self._shapes.popitem(last=False)
        (replay or read)()
        last = BiLMState(*(part[:, :, :n_rows].clone() for part in of_state))
        return layers[:, :n_rows, :n_steps].clone(), last

    def _make_room(self, shape: tuple[int, int], like: Tensor) -> None:
        """See to it that what goes in and out of a graph has its place, the same for all shapes."""
        n_rows, n_tokens = shape[0], shape[0] * shape[1]
        if n_rows <= self._room[0] and n_tokens <= self._room[1]:
            return
        if like.is_cuda:
            torch.cuda.synchronize()  # what is given up may still be read from
        self._shapes.clear()
        self._pool = new_pool()
        self._room = (max(n_rows, self._room[0]), _rounded_up(max(n_tokens, self._room[1])))
        n_rows, n_tokens = self._room
        lstm, n_layers = self.bilm.config.lstm, len(self._weights)
        self._tokens = like.new_zeros(n_tokens * lstm.dim)
        self._mask = like.new_zeros(n_tokens, dtype=torch.bool)
        self._layers = like.new_zeros((n_layers + 1) * n_tokens * 2 * lstm.dim)
        self._h = like.new_zeros(2 * n_layers * n_rows * lstm.dim)
        self._c = like.new_zeros(
            2 * n_layers * n_rows * lstm.hidden_dim, dtype=_cell_dtype(like.dtype)
        )

    def _views(self, shape: tuple[int, int], dim: int) -> tuple[Tensor, Tensor, BiLMState, Tensor]:
        def view(flat: Tensor, *sizes: int) -> Tensor:
            return flat[: torch.Size(sizes).numel()].view(sizes)

        n_rows, n_layers = shape[0], len(self._weights)
        return (
            view(self._tokens, *shape, dim),
            view(self._mask, *shape),
            BiLMState(
                view(self._h, 2, n_layers, n_rows, dim),
                view(self._c, 2, n_layers, n_rows, self.bilm.config.lstm.hidden_dim),
            ),
            view(self._layers, n_layers + 1, *shape, 2 * dim),
        )

    def _stack(self) -> None:
        """Stack the weights of both directions, if they are not as they were."""
        if self._made_at == (now := self.changes.count()):
            return
        pairs: list[tuple[Any, Any]] = list(
            zip(self.bilm.forward_lm, self.bilm.backward_lm, strict=True)
        )
        weights = [_stacked(*pair) for pair in pairs]
        like, old = weights[0].bias, self._weights[0].bias if self._weights else None
        if old is not None and (old.dtype, old.device) == (like.dtype, like.device):
            # Into the same memory: graphs stay true.
            for before, after in zip(self._weights, weights, strict=True):
                for target, source in zip(before, after, strict=True):
                    if target is not None and source is not None:
                        target.copy_(source)
        else:
            self._weights, self._room = weights, (0, 0)
            self._idle = torch.cuda.Event() if like.is_cuda else None
        self._made_at = now


def _copied(bilm: BiLM, graphs: bool) -> CudaReader:
    return CudaReader(bilm, graphs=graphs)


@torch.inference_mode(False)
@torch.no_grad()
def _stacked(forward_lstm: Lstm, backward_lstm: Lstm) -> LayerWeights:
    pair = (forward_lstm, backward_lstm)
    projections: list[Tensor] = [
        lstm.projection_weight for lstm in pair if lstm.projection_weight is not None
    ]
    return LayerWeights(
        torch.stack([lstm.input_weight for lstm in pair]),
        torch.stack([lstm.state_weight for lstm in pair]),
        torch.stack([lstm.full_bias for lstm in pair]),
        torch.stack(projections) if projections else None,
    )


def _rounded_up(n: int) -> int:
    """The next size of which there are eight from each power of two to the next."""
    step = max(1, 2 ** (n.bit_length() - 1) // 8)
    return -(-n // step) * step


def _cell_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _read(
    weights: Sequence[LayerWeights],
    config: LstmConfig,
    tokens: Float[Tensor, "rows steps dim"],
    mask: Bool[Tensor, "rows steps"],
    state: BiLMState,
    layers: Float[Tensor, "layers rows steps 2*dim"],
) -> None:
    """Write all layers into `layers`, and the state after the last tokens over `state`."""
    dim = tokens.shape[-1]
    real = mask.T.contiguous()  # (steps, rows)
    lengths = real.sum(dim=0)
    steps = torch.arange(len(real), device=real.device).unsqueeze(1)
    mirrored = torch.where(real, lengths - 1 - steps, steps).unsqueeze(-1).expand(-1, -1, dim)
    ends = (lengths - 1).clamp_min(0).view(1, 1, -1, 1).expand(2, 1, -1, dim)
    empty, padding = (lengths == 0).view(1, -1, 1), ~real.unsqueeze(-1)

    def write(layer: Tensor, x: Tensor) -> None:
        by_row = layer.transpose(0, 1)  # (steps, rows, 2*dim)
        by_row[..., :dim] = x[0]
        by_row[..., dim:] = x[1].gather(0, mirrored)

    x = tokens.transpose(0, 1)
    x = torch.stack([x, x.gather(0, mirrored)])  # (directions, steps, rows, dim)
    write(layers[0], x)
    for k, of_layer in enumerate(weights):
        h = state.h[:, k]
        outputs = _read_layer(of_layer, config, x, real, h, state.c[:, k])
        h.copy_(torch.where(empty, h, outputs.gather(1, ends).squeeze(1)))
        x = outputs + x if config.skip_connections and k > 0 else outputs
        x = x.masked_fill(padding, 0.0)
        write(layers[k + 1], x)


def _read_layer(
    weights: LayerWeights,
    config: LstmConfig,
    x: Float[Tensor, "directions steps rows dim"],
    real: Bool[Tensor, "steps rows"],
    h: Float[Tensor, "directions rows dim"],
    c: Float[Tensor, "directions rows hidden"],
) -> Float[Tensor, "directions steps rows dim"]:
    """Outputs of every step, those of padding too; cells go on in `c` up to each row's end."""
    _, n_steps, n_rows, _ = x.shape
    fused = fused_cells(c)
    step = cell_step if fused is None else fused.cell_step
    projection, clip = weights.projection, config.projection_clip
    outputs = torch.empty_like(x)
    unprojected = None if projection is None else x.new_empty(c.shape)
    n_gates = weights.bias.shape[1]
    stretch = max(1, GATE_BYTES // (2 * n_rows * n_gates * x.element_size()))
    gates = x.new_empty(2, min(stretch, n_steps), n_rows, n_gates)
    for t in range(n_steps):
        if t % stretch == 0:
            part = x[:, t : t + stretch]
            for d in range(2):
                into = gates[d, : part.shape[1]].flatten(0, 1)
                torch.addmm(weights.bias[d], part[d].flatten(0, 1), weights.input[d].T, out=into)
        of_step, out = gates[:, t % stretch], outputs[:, t]
        of_step.baddbmm_(h, weights.state.transpose(1, 2))
        if projection is None or unprojected is None:
            step(of_step, c, real[t], config.cell_clip, out)
        else:
            step(of_step, c, real[t], config.cell_clip, unprojected)
            torch.bmm(unprojected, projection.transpose(1, 2), out=out)
            if clip is not None:
                out.clamp_(-clip, clip)
        h = out
    return outputs
