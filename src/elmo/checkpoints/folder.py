"""Our format: a folder with `config.json` and `model.safetensors`.

Beside them `vocabulary.txt` and `softmax.safetensors`, where the model can still predict words, and
`mixes.safetensors`, where mixes of its layers were learned.
All files are written beside and then renamed; `config.json` leaves first and comes last, so that a
folder without it is known to be unfinished (see `together`).
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from elmo.checkpoints.together import not_replaced, replaced_together, take_back
from elmo.config import (
    AdaptiveSoftmaxConfig,
    BiLMConfig,
    config_from_dict,
    config_to_dict,
    read_json_object,
)
from elmo.model.bilm import BiLM
from elmo.model.scalar_mix import ScalarMix
from elmo.model.softmax import Softmax
from elmo.model.softmax_adaptive import AdaptiveSoftmax, AnySoftmax
from elmo.text import Vocabulary

CONFIG_FILE, MODEL_FILE = "config.json", "model.safetensors"
SOFTMAX_FILE, VOCABULARY_FILE = "softmax.safetensors", "vocabulary.txt"
MIXES_FILE = "mixes.safetensors"
ALL_FILES = (CONFIG_FILE, MODEL_FILE, VOCABULARY_FILE, SOFTMAX_FILE, MIXES_FILE)
FORMAT_VERSION = 1
ADAPTIVE = "adaptive_softmax"
"""In the config: settings of the softmax, where it is an adaptive one. Without it, it is plain."""
LEARNED = "learned"
"""In the metadata of the mixes: a JSON list that says which of them training changes."""


@dataclass(frozen=True)
class Checkpoint:
    """A model as it is stored.

    Attributes:
        bilm: The network below the softmax, in evaluation mode.
        vocabulary: The words of the softmax, where it is known.
        softmax: The softmax over them, where it was kept.
        mixes: Mixes of the layers, where some were kept.
    """

    bilm: BiLM
    vocabulary: Vocabulary | None = None
    softmax: AnySoftmax | None = None
    mixes: Sequence[ScalarMix] = ()


def save_folder(
    checkpoint: Checkpoint,
    folder: str | Path,
    *,
    dtype: torch.dtype = torch.float32,
    softmax_dtype: torch.dtype | None = None,
) -> None:
    """Write a model in our format.

    Args:
        checkpoint: What to write.
        folder: Made if it is missing. Files of an older model in it are replaced, or deleted where
            the new one has none.
        dtype: How numbers are stored: float32 keeps every bit, float16 halves the files. Reading
            gives float32 in any case.
        softmax_dtype: Of the softmax, where it is to be another one; int8 stores each word's row as
            whole numbers up to ±127 and a scale.

    Raises:
        ValueError: If a weight is no number or too large for `dtype`, or a word cannot be written:
            what could not be read again is not written. An older model in the folder stays.
    """
    values = {
        "format": "elmo",
        "version": FORMAT_VERSION,
        "model": config_to_dict(checkpoint.bilm.config),
    }
    if isinstance(checkpoint.softmax, AdaptiveSoftmax):
        values[ADAPTIVE] = config_to_dict(checkpoint.softmax.config)
    with replaced_together(Path(folder), CONFIG_FILE, ALL_FILES[1:]) as beside:
        beside(CONFIG_FILE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        _save_tensors(checkpoint.bilm.state_dict(), beside(MODEL_FILE), dtype)
        if checkpoint.vocabulary is not None:
            checkpoint.vocabulary.write(beside(VOCABULARY_FILE))
        if checkpoint.softmax is not None:
            of_words = checkpoint.softmax.state_dict()
            if softmax_dtype == torch.int8:
                of_words = _quantised(of_words)
            _save_tensors(of_words, beside(SOFTMAX_FILE), softmax_dtype or dtype)
        if checkpoint.mixes:
            learned = [mix.weights.requires_grad for mix in checkpoint.mixes]
            about = {LEARNED: json.dumps(learned)}
            save_file(_mix_tensors(checkpoint.mixes), beside(MIXES_FILE), about)
        for file in (MODEL_FILE, SOFTMAX_FILE, MIXES_FILE):
            if beside(file).exists():  # safetensors lets nobody else read them; the umask may
                shutil.copymode(beside(CONFIG_FILE), beside(file))


def recover_folder(folder: str | Path) -> None:
    """Clear away what a process left that was killed while it saved a model of the same files.

    The older model is put back, unless the new one was complete. No other process may be writing
    into the folder.
    """
    take_back(Path(folder), CONFIG_FILE, ALL_FILES[1:])


def load_folder(folder: str | Path, *, softmax: bool = True) -> Checkpoint:
    """Read a model in our format, as float32.

    Args:
        folder: Where it is.
        softmax: Whether to read the softmax too, where there is one.

    Raises:
        FileNotFoundError: If a file that belongs to the model is missing.
        ValueError: If a file is damaged, of another architecture, or holds a NaN, or the folder
            got another model meanwhile.
    """
    with not_replaced(Path(folder) / CONFIG_FILE):
        return _load_folder(Path(folder), softmax=softmax)


def _load_folder(folder: Path, *, softmax: bool) -> Checkpoint:
    where = folder / CONFIG_FILE
    values = read_json_object(where)
    if values.get("format") != "elmo" or "model" not in values:
        raise ValueError(f'{where} is not the config of a model of ours: no "format": "elmo"')
    if values.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{where} has format version {values.get('version')}, but this program reads version "
            f"{FORMAT_VERSION}: install a newer elmo-torch"
        )
    bilm = BiLM(config_from_dict(BiLMConfig, values["model"], str(where)))
    load_tensors(bilm, folder / MODEL_FILE)
    vocabulary, of_words = None, None
    if (folder / VOCABULARY_FILE).exists():
        vocabulary = Vocabulary.read(folder / VOCABULARY_FILE)
    if softmax and (folder / SOFTMAX_FILE).exists():
        if vocabulary is None:
            raise FileNotFoundError(
                f"{folder} has {SOFTMAX_FILE} but no {VOCABULARY_FILE} to say which words it knows"
            )
        of_words = _new_softmax(values, len(vocabulary), bilm.config.lstm.dim, where)
        load_tensors(of_words, folder / SOFTMAX_FILE)
    mixes = _load_mixes(folder / MIXES_FILE, bilm.config.n_layers)
    return Checkpoint(bilm.eval(), vocabulary, of_words, mixes)


def _new_softmax(values: Mapping[str, Any], n_words: int, dim: int, where: Path) -> AnySoftmax:
    if ADAPTIVE not in values:
        return Softmax(n_words, dim)
    config = config_from_dict(AdaptiveSoftmaxConfig, values[ADAPTIVE], f"{where}: [{ADAPTIVE}]")
    try:
        return AdaptiveSoftmax(n_words, dim, config)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _mix_tensors(mixes: Sequence[ScalarMix]) -> dict[str, Tensor]:
    return {
        "weights": torch.stack([mix.weights.detach().float().cpu() for mix in mixes]),
        "gamma": torch.stack([mix.gamma.detach().float().cpu() for mix in mixes]),
        "layer_norm": torch.tensor([float(mix.layer_norm) for mix in mixes]),
    }


def _load_mixes(path: Path, n_layers: int) -> list[ScalarMix]:
    if not path.exists():
        return []
    tensors = _read_tensors(path)
    n_mixes = tensors["gamma"].numel() if "gamma" in tensors else 0
    shapes = {"gamma": (n_mixes,), "weights": (n_mixes, n_layers), "layer_norm": (n_mixes,)}
    for name, shape in shapes.items():
        if name not in tensors or tensors[name].shape != shape:
            raise ValueError(
                f"{path}: {name} of shape {shape} is wanted for {n_mixes} mixes of {n_layers} "
                "layers, but is absent or of another shape"
            )
        if bool(torch.isnan(tensors[name]).any()):
            raise ValueError(f"{path}: {name} holds a NaN: the file is damaged")
    columns = [tensors[name].tolist() for name in ("weights", "gamma", "layer_norm")]
    return [
        ScalarMix(
            n_layers, weights=weights, gamma=gamma, layer_norm=bool(layer_norm), learned=learned
        )
        for weights, gamma, layer_norm, learned in zip(
            *columns, _learned(path, n_mixes), strict=True
        )
    ]


def _learned(path: Path, n_mixes: int) -> list[bool]:
    """Which mixes training changes: all of them in a file that does not say."""
    with safe_open(path, framework="pt") as file:
        said = (file.metadata() or {}).get(LEARNED)
    if said is None:
        return [True] * n_mixes
    try:
        learned = json.loads(said)
    except json.JSONDecodeError:
        learned = None
    if not isinstance(learned, list) or [type(value) for value in learned] != [bool] * n_mixes:
        raise ValueError(
            f"{path}: {LEARNED} is {said!r}, but expected a JSON list of {n_mixes} times true or "
            "false"
        )
    return learned


def _save_tensors(tensors: Mapping[str, Tensor], path: Path, dtype: torch.dtype) -> None:
    if dtype == torch.int8:
        dtype = torch.float32  # of whatever is not quantised
    stored = {
        name: value.detach().to("cpu", value.dtype if value.dtype == torch.int8 else dtype)
        for name, value in tensors.items()
    }
    for name, value in stored.items():
        if not bool(torch.isfinite(value).all()):
            if bool(torch.isfinite(tensors[name]).all()):
                raise ValueError(
                    f"{name} has numbers up to {tensors[name].abs().max():g}, but {dtype} ends at "
                    f"{torch.finfo(dtype).max:g}: save it as float32"
                )
            raise ValueError(f"{name} holds a NaN or an infinity: such a model is not saved")
    write_tensors(stored, path)


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors as they are.

    Raises:
        OSError: If they cannot be written.
    """
    stored = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        save_file(stored, path)
    except SafetensorError as error:  # what the disk said is only in its text
        raise OSError(f"{path.name} could not be written: {error}") from None


def load_tensors(module: nn.Module, path: Path) -> None:
    """Give a module the weights of a file, as float32.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, of another architecture, or holds a NaN.
    """
    tensors = _read_tensors(path)
    for name in [name for name, value in tensors.items() if value.dtype == torch.int8]:
        scale = _scale_of(name)
        _check(tensors, scale, tensors[name][:, :1], path)
        tensors[name] = tensors[name] * tensors.pop(scale)
    expected = module.state_dict()
    fixed = {name for name, value in module.named_parameters() if not value.requires_grad}
    for name, wanted in expected.items():
        _check(tensors, name, wanted, path, fixed=name in fixed)
    others = sorted(set(tensors) - set(expected))
    if others:
        raise ValueError(f"{path} has {others[0]}, of which its config knows nothing")
    module.load_state_dict({name: value.float() for name, value in tensors.items()})


def _quantised(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rows of matrices as int8, and the scale of each: their product is the row again, nearly."""
    stored = {}
    for name, value in tensors.items():
        if value.ndim == 2:
            scale = value.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
            stored[name], stored[_scale_of(name)] = torch.round(value / scale).to(torch.int8), scale
        else:
            stored[name] = value
    return stored


def _scale_of(name: str) -> str:
    return f"{name.removesuffix('weight')}scale"


def _read_tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the folder is not a whole model")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error})") from None


def _check(
    tensors: dict[str, Tensor], name: str, wanted: Tensor, path: Path, *, fixed: bool = False
) -> None:
    if name not in tensors:
        raise ValueError(
            f"{path} has no tensor {name}, but its config asks for one of shape "
            f"{tuple(wanted.shape)}"
        )
    if tensors[name].shape != wanted.shape:
        raise ValueError(
            f"{path}: tensor {name} has shape {tuple(tensors[name].shape)}, but its config asks "
            f"for {tuple(wanted.shape)}"
        )
    right = torch.isfinite(tensors[name])
    if fixed:  # as the module was made: a mix of one layer has the others at −inf
        right |= tensors[name] == wanted
    if not bool(right.all()):
        raise ValueError(f"{path}: tensor {name} holds a NaN or an infinity: the file is damaged")
