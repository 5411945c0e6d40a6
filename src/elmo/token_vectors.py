"""Vectors of tokens by the character CNN, each computed once and remembered.

A token's vector depends on its characters alone, and few tokens make up most of a text. Axes:
tokens, dim.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from elmo.model.char_cnn import CharCnn
from elmo.model.char_cnn_packed import PackedCharCnn
from elmo.model.device import full_precision
from elmo.model.weight_changes import WeightChanges
from elmo.text import char_ids


class TokenVectors:
    """Vectors of the tokens seen last, in bounded memory; for any number of threads.

    What is remembered is forgotten as soon as weights change; see `WeightChanges` for what is seen.

    Args:
        char_cnn: What computes them.
        max_tokens: How many are remembered; the ones not seen for longest go first. A token takes
            `dim` numbers and some hundred bytes.
    """

    def __init__(self, char_cnn: CharCnn, max_tokens: int) -> None:
        if max_tokens < 0:
            raise ValueError(f"max_tokens is {max_tokens}, but a cache holds at least 0 tokens")
        self.char_cnn = char_cnn
        self.max_tokens = max_tokens
        self._places: OrderedDict[str, int] = OrderedDict()
        self._vectors: Tensor | None = None
        self._packed: PackedCharCnn | None = None
        self.changes = WeightChanges(char_cnn)
        self._made_at = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._places)

    @torch.inference_mode()
    def __call__(self, tokens: Sequence[str]) -> Float[Tensor, "tokens dim"]:
        """Vectors of distinct tokens, in their order.

        Raises:
            TypeError: If a token is not a string.
            ValueError: If it holds a lone surrogate or a NUL.
        """
        with self._lock, full_precision(self.char_cnn.embedding.weight.device):
            try:
                return self._look_up(tokens)
            except (KeyboardInterrupt, MemoryError, RuntimeError):
                self._forget()  # what was interrupted may have left names without vectors
                raise

    def _look_up(self, tokens: Sequence[str]) -> Tensor:
        if self._made_at != (now := self.changes.count()):
            self._forget()
            self._packed, self._made_at = None, now
        weight = self.char_cnn.embedding.weight
        vectors = weight.new_empty(len(tokens), self.char_cnn.config.dim)
        known, places, absent = [], [], []
        for i, token in enumerate(tokens):
            place = self._places.get(token)
            if place is None:
                absent.append(i)
            else:
                self._places.move_to_end(token)
                known.append(i)
                places.append(place)
        if known and self._vectors is not None:
            vectors[known] = self._vectors[places]
        if absent:
            computed = self._compute([tokens[i] for i in absent])
            vectors[absent] = computed
            self._remember([tokens[i] for i in absent], computed)
        return vectors

    def _forget(self) -> None:
        self._places.clear()
        self._vectors = None

    def _compute(self, tokens: Sequence[str]) -> Tensor:
        if self._packed is None:
            self._packed = PackedCharCnn(self.char_cnn)
        # Similar in length: a pass is as wide as its longest token.
        by_length = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        max_chars = self.char_cnn.config.max_chars
        device = self.char_cnn.embedding.weight.device
        parts, n = [], self._packed.batch_tokens
        for start in range(0, len(tokens), n):
            batch = [tokens[i] for i in by_length[start : start + n]]
            parts.append(self._packed(torch.from_numpy(char_ids(batch, max_chars)).to(device)))
        computed = torch.cat(parts)
        return torch.empty_like(computed).index_copy_(
            0, torch.tensor(by_length, device=device), computed
        )

    def _remember(self, tokens: Sequence[str], vectors: Tensor) -> None:
        n = min(len(tokens), self.max_tokens)
        if n == 0:
            return
        tokens, vectors = tokens[-n:], vectors[-n:]
        free = [
            self._places.popitem(last=False)[1]
            for _ in range(max(0, len(self._places) + n - self.max_tokens))
        ]
        places = [*free, *range(len(self._places) + len(free), len(self._places) + n)]
        if self._vectors is None or max(places) >= len(self._vectors):
            self._grow(max(places) + 1, vectors)
        assert self._vectors is not None
        self._vectors[places] = vectors
        self._places.update(zip(tokens, places, strict=True))

    def _grow(self, n_wanted: int, like: Tensor) -> None:
        n_rows = min(self.max_tokens, max(n_wanted, 2 * len(self), 1024))
        grown = like.new_empty(n_rows, like.shape[1])
        if self._vectors is not None:
            grown[: len(self._vectors)] = self._vectors
        self._vectors = grown
