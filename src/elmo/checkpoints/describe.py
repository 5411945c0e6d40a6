"""What is in a model, in numbers."""

from collections.abc import Callable
from pathlib import Path

from torch import nn

from elmo.checkpoints.folder import CONFIG_FILE
from elmo.checkpoints.sources import load, locate
from elmo.model.softmax_adaptive import AdaptiveSoftmax, AnySoftmax


def describe(
    source: str | Path,
    *,
    url: str | tuple[str, str] | None = None,
    offline: bool | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> dict[str, str | int | float | bool]:
    """Sizes, parameters, layers, vocabulary and memory of a model, by name.

    Args:
        source: As for `elmo.checkpoints.sources.locate`, like those that follow.

    Raises:
        ValueError: As `load`.
        OSError: As `load`.
    """
    folder = locate(source, url=url, offline=offline, progress=progress)
    checkpoint = load(folder, softmax=True)
    bilm, config = checkpoint.bilm, checkpoint.bilm.config
    cnn, lstm = config.char_cnn, config.lstm
    n_parameters = _count(bilm)
    files = [path for path in folder.iterdir() if path.is_file()]
    facts: dict[str, str | int | float | bool] = {
        "model": str(source),
        "folder": str(folder),
        "format": "ours" if (folder / CONFIG_FILE).is_file() else "official",
        "files_mb": round(sum(path.stat().st_size for path in files) / 1e6, 1),
        "layers": config.n_layers,
        "vector": 2 * lstm.dim,
        "parameters": n_parameters,
        "parameters_char_cnn": _count(bilm.char_cnn),
        "parameters_lstms": n_parameters - _count(bilm.char_cnn),
        "memory_mb_float32": round(4 * n_parameters / 1e6, 1),
        "memory_mb_per_10,000_remembered_tokens": round(4e4 * cnn.dim / 1e6, 1),
        "characters": f"bytes, {cnn.max_chars} per token, {cnn.char_dim} dimensions each",
        "filters": ", ".join(f"{n} of width {width}" for width, n in cnn.filters),
        "activation": cnn.activation,
        "highway_layers": cnn.n_highway,
        "lstm_layers": f"{lstm.n_layers} in each direction",
        "lstm_cells": lstm.hidden_dim,
        "lstm_output": f"{lstm.dim}, {'projected' if lstm.projection else 'not projected'}",
        "cell_clip": "none" if lstm.cell_clip is None else lstm.cell_clip,
        "projection_clip": "none" if lstm.projection_clip is None else lstm.projection_clip,
        "skip_connections": lstm.skip_connections,
    }
    vocabulary, softmax = checkpoint.vocabulary, checkpoint.softmax
    facts["vocabulary"] = "none" if vocabulary is None else len(vocabulary)
    facts["softmax"] = _kind(softmax)
    facts["softmax_parameters"] = "none" if softmax is None else _count(softmax)
    facts["learned_mixes"] = len(checkpoint.mixes)
    return facts


def _kind(softmax: AnySoftmax | None) -> str:
    if softmax is None:
        return "none"
    if isinstance(softmax, AdaptiveSoftmax):
        return f"adaptive, clusters from rank {', '.join(map(str, softmax.config.cutoffs))}"
    return "plain"


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
