"""Settings as frozen dataclasses; `config.json` and the official `options.json` in and out.

Every setting of a biLM is here, and nothing that depends on data. Reading refuses what it does
not know: an unknown key is named together with the nearest known one.
"""

import dataclasses
import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

MAX_CHARS = 50
"""Characters per token in every released model, begin and end of word included."""

N_CHARS = 262
"""256 bytes, begin and end of sentence, begin and end of word, padding, and id 0 for no token."""

ACTIVATIONS = ("relu", "tanh")


def _positive(config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} is {getattr(config, name)}, but it must be at least 1")


def check_positive(settings: Any, *names: str) -> None:
    """Refuse settings that are no finite numbers above 0; one that is None is not set."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} is {value}, but must be positive and finite")


def check_dropout(settings: Any, *names: str) -> None:
    """Refuse settings that are no probabilities below 1; one that is None is not set."""
    for name in names or ("dropout",):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < 1:
            raise ValueError(f"{name} is {value}, but it is a probability below 1")


@dataclass(frozen=True)
class CharCnnConfig:
    """The character CNN: embedding, convolutions, highway layers, projection.

    Args:
        char_dim: Size of a character's embedding.
        filters: (width in characters, number of filters), one pair per convolution.
        dim: Size of a token's vector.
        n_highway: Highway layers after pooling; 0 for none.
        activation: `relu` or `tanh`, applied to the pooled filters.
        max_chars: Characters kept per token, begin and end of word included.
        projection: Whether a linear layer maps the filters to `dim`. The original leaves it out
            where `dim` equals the number of filters, and only there.

    Source:
        `char_cnn` in the options of `allenai/bilm-tf`.
    """

    char_dim: int = 16
    filters: tuple[tuple[int, int], ...] = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    dim: int = 512
    n_highway: int = 2
    activation: str = "relu"
    max_chars: int = MAX_CHARS
    projection: bool = True

    def __post_init__(self) -> None:
        _positive(self, "char_dim", "dim")
        if self.n_highway < 0:
            raise ValueError(f"n_highway is {self.n_highway}, but it counts layers: give 0 or more")
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation is {self.activation!r}, but the original knows {ACTIVATIONS}"
            )
        if self.max_chars < 3:
            raise ValueError(
                f"max_chars is {self.max_chars}, but begin, end and one character need at least 3"
            )
        if not self.filters:
            raise ValueError("filters is empty: give at least one (width, number) pair")
        for width, n_filters in self.filters:
            if not 1 <= width <= self.max_chars or n_filters < 1:
                raise ValueError(
                    f"filters has ({width}, {n_filters}): a width is 1 to {self.max_chars} "
                    "characters (max_chars), and the number of filters at least 1"
                )
        if not self.projection and self.dim != self.n_filters:
            raise ValueError(
                f"dim is {self.dim} but there are {self.n_filters} filters and no projection: "
                "make them equal, or set projection"
            )

    @property
    def n_filters(self) -> int:
        """Filters of all widths together: the size of a token's vector before projection."""
        return sum(n_filters for _, n_filters in self.filters)


@dataclass(frozen=True)
class LstmConfig:
    """The LSTM layers; both directions have the same.

    Args:
        n_layers: Layers per direction.
        hidden_dim: Size of the cell state.
        dim: Size of a layer's output in one direction.
        cell_clip: Cell states are clipped to ±cell_clip; None for no clipping.
        projection_clip: Projected outputs are clipped to ±projection_clip; None for no clipping.
        skip_connections: Whether each layer after the first adds its input to its output.
        projection: Whether a linear layer (no bias) maps the cell's output to `dim`. The original
            leaves it out where `dim` is `hidden_dim`.

    Source:
        `lstm` in the options of `allenai/bilm-tf`.
    """

    n_layers: int = 2
    hidden_dim: int = 4096
    dim: int = 512
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    skip_connections: bool = True
    projection: bool = True

    def __post_init__(self) -> None:
        _positive(self, "n_layers", "hidden_dim", "dim")
        for name in ("cell_clip", "projection_clip"):
            clip = getattr(self, name)
            if clip is not None and not (clip > 0 and math.isfinite(clip)):
                raise ValueError(f"{name} is {clip}, but a clip is a positive number, or none")
        if not self.projection and self.dim != self.hidden_dim:
            raise ValueError(
                f"dim is {self.dim} but hidden_dim is {self.hidden_dim} and there is no "
                "projection: make them equal, or set projection"
            )


@dataclass(frozen=True)
class BiLMConfig:
    """A bidirectional language model over characters.

    Args:
        char_cnn: The token encoder.
        lstm: The layers above it.
        dropout: Probability with which an input of an LSTM layer, and an output of the last, is
            zeroed in training mode. Without effect in inference.
    """

    char_cnn: CharCnnConfig = CharCnnConfig()
    lstm: LstmConfig = LstmConfig()
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_dropout(self)
        if self.char_cnn.dim != self.lstm.dim:
            raise ValueError(
                f"char_cnn.dim is {self.char_cnn.dim} but lstm.dim is {self.lstm.dim}: layers can "
                "be stacked only where tokens and LSTM outputs have one size"
            )

    @property
    def n_layers(self) -> int:
        """Layers that a mix sees: the character CNN and each LSTM layer."""
        return 1 + self.lstm.n_layers

    @property
    def dim(self) -> int:
        """Size of a token's vector at any layer: both directions."""
        return 2 * self.lstm.dim


@dataclass(frozen=True)
class AdaptiveSoftmaxConfig:
    """An adaptive softmax: frequent words one by one, rarer ones in clusters of fewer dimensions.

    Args:
        cutoffs: Rank of the first word of each cluster, words ranked by falling frequency from 0:
            so many words lie before it.
        shrink: How many times fewer dimensions each cluster has than the one before.

    Source:
        Grave et al. (2017), "Efficient softmax approximation for GPUs".
    """

    cutoffs: tuple[int, ...] = (2_000, 10_000)
    shrink: float = 4.0

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip((0, *self.cutoffs), self.cutoffs, strict=False))
        if not self.cutoffs or not rising:
            raise ValueError(
                f"cutoffs is {self.cutoffs}, but expected whole numbers above 0, each larger than "
                "the one before"
            )
        if not 1 <= self.shrink < math.inf:
            raise ValueError(f"shrink is {self.shrink}, but must be a finite number from 1 up")


Config = TypeVar("Config")


def config_from_dict(cls: type[Config], values: object, where: str = "") -> Config:
    """Build a (nested) settings dataclass from plain values, refusing what it does not know.

    Args:
        cls: A frozen dataclass of settings.
        values: A table of plain values as TOML or JSON give them, or what a file holds in its
            place; missing ones take their defaults, also those of a table within.
        where: Named at the start of an error: a file, a table.

    Raises:
        ValueError: If the values are no table; if a key is unknown (the nearest is suggested), or
            required and absent; if a value is not of the setting's type or out of range.
    """
    prefix = f"{where}: " if where else ""
    if not isinstance(values, Mapping):
        raise ValueError(f"{prefix}expected a table of settings, but found {values!r}")
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ValueError(f'{prefix}unknown setting "{key}".{suggest(key, fields)}')
    built = {}
    for name, field in fields.items():
        if name in values:
            given = values[name]
            if isinstance(given, Mapping):
                given = {**_default_table(field), **given}
            built[name] = _convert(given, hints[name], name, where)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f'{prefix}setting "{name}" is missing')
    try:
        return cls(**built)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from None


def config_to_dict(config: Any) -> dict[str, Any]:
    """Plain values of a settings dataclass, as JSON can hold them."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def suggest(key: str, known: Any) -> str:
    """` Did you mean "…"?` with the nearest known name, or all the names, or nothing."""
    nearest = difflib.get_close_matches(key, list(known), n=1)
    if nearest:
        return f' Did you mean "{nearest[0]}"?'
    return f" Known: {', '.join(known)}." if known else ""


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is not a JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds {type(values).__name__}, but a JSON object was expected")
    return values


def config_from_options(options: Mapping[str, Any], where: str = "options.json") -> BiLMConfig:
    """Read the official options of a biLM.

    What the original's reader looks at is read; training settings of `bilm-tf` (batch_size,
    n_epochs, …) are passed over. `n_characters` may be 261 (as in training) or 262.

    Args:
        options: The content of an official `options.json`.
        where: Named at the start of an error.

    Raises:
        ValueError: If a setting that the model needs is absent, of another type, contradicts
            another, or describes something that is not a character biLM.
    """

    def get(table: Any, key: str, wanted: tuple[type, ...], *default: Any) -> Any:
        name, settings = table
        if key not in settings:
            if default:
                return default[0]
            raise ValueError(f'{where}: "{key}" is missing in {name}')
        value = settings[key]
        if value is None and default and default[0] is None:
            return None
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise ValueError(
                f'{where}: "{key}" in {name} is {value!r}, but expected '
                f"{' or '.join(t.__name__ for t in wanted)}"
            )
        return value

    top = ("the options", options)
    if "char_cnn" not in options:
        raise ValueError(
            f'{where}: "char_cnn" is missing: only models over characters can be loaded'
        )
    lstm = ("lstm", get(top, "lstm", (dict,)))
    char_cnn = ("char_cnn", get(top, "char_cnn", (dict,)))
    embedding = ("char_cnn.embedding", get(char_cnn, "embedding", (dict,)))
    if options.get("bidirectional") is False:
        raise ValueError(f'{where}: "bidirectional" is false, but ELMo needs both directions')
    n_characters = get(char_cnn, "n_characters", (int,), N_CHARS)
    if n_characters not in (N_CHARS - 1, N_CHARS):
        raise ValueError(
            f'{where}: "n_characters" is {n_characters}, but bytes and specials make '
            f"{N_CHARS - 1} (training) or {N_CHARS} (inference)"
        )
    filters = get(char_cnn, "filters", (list,))
    if not all(
        isinstance(f, list | tuple) and len(f) == 2 and all(type(n) is int for n in f)
        for f in filters
    ):
        raise ValueError(f'{where}: "filters" is {filters!r}, but expected [[width, number], …]')
    hidden_dim = get(lstm, "dim", (int,))
    dim = get(lstm, "projection_dim", (int,))
    n_filters = sum(n for _, n in filters)
    number = (int, float)
    cell_clip = get(lstm, "cell_clip", number, None)
    projection_clip = get(lstm, "proj_clip", number, None)
    try:
        return BiLMConfig(
            CharCnnConfig(
                char_dim=get(embedding, "dim", (int,)),
                filters=tuple((width, n) for width, n in filters),
                dim=dim,
                n_highway=get(char_cnn, "n_highway", (int,), None) or 0,
                activation=get(char_cnn, "activation", (str,)),
                max_chars=get(char_cnn, "max_characters_per_token", (int,)),
                projection=n_filters != dim,
            ),
            LstmConfig(
                n_layers=get(lstm, "n_layers", (int,), 1),
                hidden_dim=hidden_dim,
                dim=dim,
                # The original reads 0 as a clip at 0 for a cell: nobody means that.
                cell_clip=None if not cell_clip else float(cell_clip),
                projection_clip=None if not projection_clip else float(projection_clip),
                skip_connections=bool(get(lstm, "use_skip_connections", (bool,), False)),
                projection=dim != hidden_dim,
            ),
            dropout=float(get(top, "dropout", number, 0.0)),
        )
    except ValueError as error:
        said = str(error)
        raise ValueError(said if said.startswith(where) else f"{where}: {said}") from None


def config_to_options(config: BiLMConfig) -> dict[str, Any]:
    """The official options of a biLM, as the originals read them for inference."""
    lstm: dict[str, Any] = {
        "use_skip_connections": config.lstm.skip_connections,
        "projection_dim": config.lstm.dim,
        "cell_clip": config.lstm.cell_clip,
        "proj_clip": config.lstm.projection_clip,
        "dim": config.lstm.hidden_dim,
        "n_layers": config.lstm.n_layers,
    }
    char_cnn: dict[str, Any] = {
        "activation": config.char_cnn.activation,
        "filters": [list(f) for f in config.char_cnn.filters],
        "n_highway": config.char_cnn.n_highway,
        "embedding": {"dim": config.char_cnn.char_dim},
        "n_characters": N_CHARS,
        "max_characters_per_token": config.char_cnn.max_chars,
    }
    return {
        "bidirectional": True,
        "dropout": config.dropout,
        "lstm": lstm,
        "char_cnn": char_cnn,
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return config_to_dict(value)
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


def _default_table(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """What a table of settings holds if it is not given; empty if it has to be."""
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if not dataclasses.is_dataclass(default) or isinstance(default, type):
        return {}
    return config_to_dict(default)


_KINDS: Mapping[Any, tuple[str, str]] = {
    str: ("a string", "strings"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "truth values"),
}
_EXAMPLES = {str: '"…"', int: "1, 2", float: "0.1, 0.2"}


def _convert(value: Any, hint: Any, name: str, where: str) -> Any:
    """`value` as the type `hint` says: tables to dataclasses, lists to tuples, ints to floats."""
    prefix = f"{where}: " if where else ""
    if dataclasses.is_dataclass(hint):
        return config_from_dict(hint, value, f"{prefix}[{name}]")  # type: ignore[arg-type]
    wrong = ValueError(f'{prefix}"{name}" is {value!r}, but expected {_describe(hint)}')
    if get_origin(hint) in (Union, UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        for option in get_args(hint):
            if dataclasses.is_dataclass(option):  # the only one: its own error says more
                return _convert(value, option, name, where)
            try:
                return _convert(value, option, name, where)
            except ValueError:
                continue
        raise wrong
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise wrong
        items = get_args(hint)
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple(_convert(v, items[0], name, where) for v in value)
        if len(items) != len(value):
            raise wrong
        return tuple(_convert(v, i, name, where) for v, i in zip(value, items, strict=True))
    if hint is float and type(value) is int:
        return float(value)
    if hint is Any or type(value) is hint:
        return value
    raise wrong


def _describe(hint: Any, *, many: bool = False) -> str:
    """A type, as who writes a recipe calls it."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [option for option in get_args(hint) if option is not type(None)]
        return " or ".join(_describe(kind, many=many) for kind in kinds)
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        if others == [Ellipsis]:
            return f"a list of {_describe(first, many=True)}, as [{_EXAMPLES.get(first, '…')}]"
        return f"a list of {1 + len(others)}: {', '.join(map(_describe, (first, *others)))}"
    one, several = _KINDS.get(hint, (str(hint), str(hint)))
    return several if many else one
