"""The biLM as an encoder: its character CNN and each of its LSTM layers.

Axes: layers, batch, tokens, dim.
"""

import copy
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from elmo.checkpoints.sources import DEFAULT_MODEL
from elmo.config import config_to_dict
from elmo.encode import Elmo
from elmo.encoders.encoder import LayersModule, checked, digest
from elmo.model.bilm import BiLM
from elmo.text import batch_char_ids


class ElmoEncoder:
    """Layers of a biLM, each sentence read on its own from a zero state; see `encoder.Encoder`.

    Args:
        elmo: The model; mixes that came with it have no part.
        name: What it was asked for by.
        batch_tokens: Tokens per pass, padding included.
    """

    def __init__(self, elmo: Elmo, name: str = "elmo", *, batch_tokens: int = 8192) -> None:
        self.name = name
        self._elmo = elmo
        self._batch_tokens = batch_tokens

    @classmethod
    def open(
        cls,
        model: str | Path = DEFAULT_MODEL,
        *,
        name: str | None = None,
        device: str | torch.device = "cpu",
        offline: bool | None = None,
    ) -> "ElmoEncoder":
        """The encoder of a model that `Elmo.from_pretrained` knows; it raises as that does."""
        elmo = Elmo.from_pretrained(model, device=device, offline=offline)
        return cls(elmo, name or f"elmo:{model}")

    @property
    def n_layers(self) -> int:
        """The character CNN and the LSTM layers."""
        return self._elmo.n_layers

    @property
    def dim(self) -> int:
        """Both directions."""
        return self._elmo.dim

    @cached_property
    def identity(self) -> str:
        """See `Encoder`."""
        bilm = self._elmo.bilm
        weights = ((n, w.detach().float().cpu().numpy()) for n, w in bilm.state_dict().items())
        settings = config_to_dict(bilm.config) | {
            "dropout": 0.0,  # which reading does not know
            "dtype": str(bilm.char_cnn.embedding.weight.dtype),
            "int8": self._elmo._reader.int8,
        }
        return digest("elmo", settings, weights)

    def encode_layers(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[Float[np.ndarray, "layers tokens dim"]]:
        """See `Encoder`."""
        return self._elmo.encode_layers(
            checked(sentences), batch_tokens=self._batch_tokens, progress=False
        )

    def trainable(self) -> "ElmoLayers":
        """A copy of the biLM that learns with a task, with its own dropout."""
        return ElmoLayers(self._elmo.bilm)


class ElmoLayers(LayersModule):
    """A biLM as a part of a task's model; all of its weights learn.

    Args:
        bilm: What to begin with; it is copied.
    """

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = copy.deepcopy(bilm).requires_grad_(True).train()
        self.n_layers, self.dim = bilm.config.n_layers, bilm.config.dim

    def forward(
        self, sentences: Sequence[Sequence[str]]
    ) -> Float[Tensor, "layers batch tokens dim"]:
        """See `LayersModule`."""
        ids = batch_char_ids(checked(sentences), self.bilm.config.char_cnn.max_chars)
        output = self.bilm(torch.from_numpy(ids).to(self.bilm.char_cnn.embedding.weight.device))
        # Without <S>; the columns then end where the longest sentence does, and behind a shorter
        # one stands its </S>, which the mask cuts.
        mask = output.mask[:, 2:]
        return output.layers[:, :, 1:-1] * mask.unsqueeze(-1)
