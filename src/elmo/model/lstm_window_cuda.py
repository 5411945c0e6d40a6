"""Training windows on a GPU, each layer's forward and backward pass replayed as a CUDA graph.

What is computed is `lstm_window.Window`, with the same numbers; only who launches it differs.
Windows all have one size, so that a layer is recorded once. Dropout, the character CNN and the
softmax, whose shapes change or which draw numbers, stay outside. Axes: directions, steps, batch,
dim.
"""

import logging
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.model.cuda_graph import capture, new_pool
from elmo.model.lstm import LayerState, Lstm
from elmo.model.lstm_window import Window, read_window, stacked_weights

logger = logging.getLogger(__name__)

NAMES = ("input_weight", "state_weight", "bias", "projection_weight")
"""Of a layer's parameters, as `Window` gives their gradients."""


class WindowGraphs:
    """Takes the place of `elmo.model.lstm_window.read_window` in training, and remembers graphs.

    One window of a layer is kept: its backward pass comes before its next forward pass. Outside a
    GPU, and without gradients, it is `read_window`.
    """

    def __init__(self) -> None:
        self._recorded: dict[Lstm, tuple[object, _Recorded]] = {}
        self._works = True

    def __call__(
        self,
        lstms: tuple[Lstm, Lstm],
        x: Float[Tensor, "directions steps batch dim"],
        state: LayerState,
        keep: Float[Tensor, "directions steps batch"] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Float[Tensor, "directions steps batch dim"], LayerState]:
        """As `elmo.model.lstm_window.read_window`."""
        if not (self._works and self._records(x) and torch.is_grad_enabled()):
            return read_window(lstms, x, state, keep, dtype)
        parameters = [p for lstm in lstms for p in lstm.parameters()]
        places = [(p.data_ptr(), p.dtype) for p in parameters]
        key = (places, x.shape, x.dtype, x.device, keep is None, dtype)
        found = self._recorded.get(lstms[0])
        if found is None or found[0] != key:
            self._recorded.pop(lstms[0], None)  # its memory first
            try:
                with torch.cuda.device_of(x):
                    found = key, _Recorded(lstms, x, state, keep, dtype)
            except RuntimeError as error:
                logger.warning("training without CUDA graphs, which is slower: %s", error)
                self._works = False
                return read_window(lstms, x, state, keep, dtype)
            self._recorded[lstms[0]] = found
        outputs, h, c = _Replayed.apply(found[1], x, state.h, state.c, keep, *parameters)
        return outputs, LayerState(h, c)

    def _records(self, x: Tensor) -> bool:
        return x.is_cuda


class _Saved:
    """What `Window` needs of autograd's context."""

    saved_tensors: tuple[Tensor | None, ...] = ()
    clips: tuple[float | None, float | None]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        pass


class _Recorded:
    """A layer's window: places of what goes in, replays, and places of what comes out.

    Parameters are read where they lie; optimisers change them there.
    """

    def __init__(
        self,
        lstms: tuple[Lstm, Lstm],
        x: Tensor,
        state: LayerState,
        keep: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        self.lstms, self.turn = lstms, 0
        self.x, self.h, self.c = (part.detach().clone() for part in (x, state.h, state.c))
        self.keep = None if keep is None else keep.clone()
        self.d_outputs = torch.zeros_like(self.x)
        self.after: tuple[Tensor, ...] = ()
        self.gradients: tuple[Tensor | None, ...] = ()
        context = _Saved()

        @torch.no_grad()
        def forward() -> None:
            weights, clips = stacked_weights(lstms)
            arguments = (self.x, self.h, self.c, self.keep, *weights, clips, dtype)
            self.after = Window.forward(context, *arguments)

        @torch.no_grad()
        def backward() -> None:
            self.gradients = Window.backward(context, self.d_outputs)

        self.replay_forward, self.replay_backward = capture(forward, backward, pool=new_pool())


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, recorded, x, h, c, keep, *parameters):  # type: ignore[no-untyped-def]
        for place, value in (
            (recorded.x, x),
            (recorded.h, h),
            (recorded.c, c),
            (recorded.keep, keep),
        ):
            if place is not None:
                place.copy_(value)
        recorded.replay_forward()
        recorded.turn += 1
        ctx.recorded, ctx.turn = recorded, recorded.turn
        # The next window goes to the same places.
        outputs, h, c = (part.clone() for part in recorded.after)
        ctx.mark_non_differentiable(h, c)
        return outputs, h, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, *_: Tensor):  # type: ignore[no-untyped-def]
        recorded = ctx.recorded
        if recorded.turn != ctx.turn:
            raise RuntimeError(
                "another window was read, or this one gone back through, since: call backward once "
                "on each window, before the next is read"
            )
        recorded.turn += 1  # what the forward pass left is written over
        recorded.d_outputs.copy_(d_outputs)
        recorded.replay_backward()
        d_x, _, _, _, *d_weights = recorded.gradients[:8]
        by_name = dict(zip(NAMES, d_weights, strict=True))
        d_parameters = [
            by_name[name][d].clone()
            for d, lstm in enumerate(recorded.lstms)
            for name, _ in lstm.named_parameters()
        ]
        return None, d_x.clone(), None, None, None, *d_parameters
