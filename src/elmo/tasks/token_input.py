"""What a task model knows of each token: its word, its characters, its encoders' mixed layers.

Axes: batch, tokens, dim; types (distinct tokens of a batch); layers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import CharCnnConfig
from elmo.encoders.encoder import Encoder
from elmo.model.char_cnn import CharCnn
from elmo.model.scalar_mix import ScalarMix
from elmo.tasks.embedding import embedding
from elmo.tasks.features import MAX_CHARS, SentenceBatch
from elmo.tasks.input_config import InputConfig, MixConfig


class TokenVectors(NamedTuple):
    """What goes into a task model.

    Attributes:
        input: At its input.
        output: To be put beside the output of its recurrent layers; of size 0 where nothing is.
    """

    input: Float[Tensor, "batch tokens dim"]
    output: Float[Tensor, "batch tokens output_dim"]


class TokenInput(nn.Module):
    """One vector per token for a task model to start from, and maybe one to end with.

    Args:
        config: Word and character vectors.
        n_words: Words of the vocabulary, specials included.
        encoders: What gives layers; their sizes count here.
        mix: How the layers of each become one vector.
        where: Where these are taken in: `input`, `output`, `both`.
        learned: Encoders that learn with the task, in place of what batches bring.
        optional: Whether a task can do without any vector of tokens.

    Attributes:
        dim: Size of a vector at the input.
        output_dim: Size of what is put beside the output.

    Source:
        Peters et al. (2018), section 3.3 and table 3.
    """

    def __init__(
        self,
        config: InputConfig,
        n_words: int,
        encoders: Sequence[Encoder] = (),
        mix: MixConfig | None = None,
        *,
        where: str = "input",
        learned: Sequence[nn.Module] = (),
        optional: bool = False,
    ) -> None:
        super().__init__()
        self.config, self.mix = config, mix or MixConfig()
        self.words = embedding(n_words, config.word_dim) if config.word_dim else None
        self.chars = _char_cnn(config) if config.char_filters else None
        self.learned = nn.ModuleList(learned)
        mixed = [e.dim for e in encoders]
        at_input, at_output = where in ("input", "both"), where in ("output", "both")
        self.input_mixes = _mixes(encoders if at_input else (), self.mix)
        self.output_mixes = _mixes(encoders if at_output else (), self.mix)
        self.dim = config.word_dim + config.char_filters + (sum(mixed) if at_input else 0)
        self.output_dim = sum(mixed) if at_output else 0
        if not self.dim and not optional:
            raise ValueError(
                "a token has no vector: give an encoder at the input, input.word_dim or "
                "input.char_filters"
            )

    def forward(self, batch: SentenceBatch) -> TokenVectors:
        """The vectors of each token; what they are in padding is not said."""
        encoded = [module(batch.tokens) for module in self.learned] or batch.encoded
        own = self._own(batch)
        parts = [functional.dropout(part, self.config.dropout, self.training) for part in own]
        parts += self._mixed(self.input_mixes, encoded, batch)
        beside = self._mixed(self.output_mixes, encoded, batch)
        nothing = batch.mask.new_zeros((*batch.mask.shape, 0), dtype=torch.float32)
        return TokenVectors(
            torch.cat(parts, -1) if parts else nothing,
            torch.cat(beside, -1) if beside else nothing,
        )

    def penalty(self) -> Float[Tensor, ""]:
        """λ‖w‖² of all mixes."""
        mixes = [*self.input_mixes, *self.output_mixes]
        return sum((mix.penalty() for mix in mixes), start=torch.zeros(()))

    def layer_weights(self) -> dict[str, list[list[float]]]:
        """softmax(w) of each encoder's layers, at the input and at the output (figure 2)."""
        places = {"input": self.input_mixes, "output": self.output_mixes}
        return {
            place: [mix.normalised_weights.tolist() for mix in mixes]  # type: ignore[operator]
            for place, mixes in places.items()
            if len(mixes)
        }

    def _own(self, batch: SentenceBatch) -> list[Tensor]:
        """Vectors of words and of their characters, as far as there are any."""
        own = []
        if self.words is not None:
            own.append(self.words(batch.word_ids))
        if self.chars is not None:
            own.append(self.chars(batch.char_ids)[batch.type_ids])
        return own

    def _mixed(
        self, mixes: nn.ModuleList, encoded: Sequence[Tensor], batch: SentenceBatch
    ) -> list[Tensor]:
        # Each sentence by itself: where layers are normalised, its neighbours have no part in it.
        mixed = (
            torch.vmap(mix, in_dims=(1, 0))(layers, batch.mask)
            for mix, layers in zip(mixes, encoded, strict=False)
        )
        return [functional.dropout(part, self.mix.dropout, self.training) for part in mixed]


def _mixes(encoders: Sequence[Encoder], config: MixConfig) -> nn.ModuleList:
    mixes = []
    for encoder in encoders:
        if config.layers == "all":
            mix = ScalarMix(encoder.n_layers, layer_norm=config.layer_norm, l2=config.l2)
        else:
            layer = -1 if config.layers == "last" else int(config.layers)
            try:
                mix = ScalarMix.single(layer, encoder.n_layers)
            except ValueError as error:
                raise ValueError(f"mix.layers, of {encoder.name}: {error}") from None
            mix.layer_norm = config.layer_norm
        mix.gamma.requires_grad_(config.gamma)
        mixes.append(mix)
    return nn.ModuleList(mixes)


def _char_cnn(config: InputConfig) -> CharCnn:
    chars = CharCnn(
        CharCnnConfig(
            char_dim=config.char_dim,
            filters=((config.char_width, config.char_filters),),
            dim=config.char_filters,
            n_highway=0,
            max_chars=MAX_CHARS,
            projection=False,
        )
    )
    chars.reset_parameters()
    return chars
