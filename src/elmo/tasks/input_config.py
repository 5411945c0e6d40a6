"""Settings of what a task model knows of each token; see `token_input`."""

import math
from dataclasses import dataclass

from elmo.config import check_dropout, check_positive


@dataclass(frozen=True)
class MixConfig:
    """How the layers of an encoder become one vector (equation 1 of the paper).

    Args:
        layers: `all` for a learned mix; `last` or the number of a layer for that one alone.
        gamma: Whether the scale γ is learned, or stays 1.
        layer_norm: Whether layers are normalised first, those of each sentence by themselves.
        l2: λ of the penalty on the weights before the softmax: 0.001 lets them differ, 1 comes
            close to an average of the layers (table 2).
        dropout: Of the mixed vectors.
    """

    layers: str | int = "all"
    gamma: bool = True
    layer_norm: bool = False
    l2: float = 0.001
    dropout: float = 0.5

    def __post_init__(self) -> None:
        if isinstance(self.layers, str) and self.layers not in ("all", "last"):
            raise ValueError(
                f'layers is "{self.layers}", but expected "all", "last" or the number of a layer'
            )
        check_dropout(self)
        if not 0 <= self.l2 < math.inf:
            raise ValueError(f"l2 is {self.l2}, but must be 0 or more, and finite")


@dataclass(frozen=True)
class InputConfig:
    """What a task model knows of a token beside its encoder's vector.

    Args:
        word_dim: Size of the learned embedding of words; 0 for none.
        min_count: Rarer words of the training text share one vector.
        lowercase: Whether words are embedded without their case.
        words: A file of word vectors that the embedding starts from, as `static:FILE`, of
            `word_dim` numbers each. None starts from small random numbers, as do words that the
            file lacks.
        char_filters: Filters of a character CNN that learns with the task; 0 for none.
        char_width: Their width in characters.
        char_dim: Size of a character's embedding.
        dropout: Of word and character vectors.
    """

    word_dim: int = 100
    min_count: int = 2
    lowercase: bool = False
    words: str | None = None
    char_filters: int = 64
    char_width: int = 3
    char_dim: int = 16
    dropout: float = 0.5

    def __post_init__(self) -> None:
        for name in ("word_dim", "char_filters"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be 0 or more")
        check_positive(self, "min_count", "char_width", "char_dim")
        check_dropout(self)
