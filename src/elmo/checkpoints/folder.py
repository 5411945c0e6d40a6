"""Our format: a folder with `config.json` and `model.safetensors`.

Beside them `vocabulary.txt` and `softmax.safetensors`, where the model can still predict words.
Each file is written beside and renamed; `config.json` comes last, so that a folder without it is
known to be unfinished.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from elmo.config import BiLMConfig, config_from_dict, config_to_dict, read_json
from elmo.model.bilm import BiLM
from elmo.model.softmax import Softmax
from elmo.text import Vocabulary

CONFIG_FILE, MODEL_FILE = "config.json", "model.safetensors"
SOFTMAX_FILE, VOCABULARY_FILE = "softmax.safetensors", "vocabulary.txt"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """A model as it is stored.

    Attributes:
        bilm: The network below the softmax, in evaluation mode.
        vocabulary: The words of the softmax, where it is known.
        softmax: The softmax over them, where it was kept.
    """

    bilm: BiLM
    vocabulary: Vocabulary | None = None
    softmax: Softmax | None = None


def save_folder(
    checkpoint: Checkpoint, folder: str | Path, *, dtype: torch.dtype = torch.float32
) -> None:
    """Write a model in our format.

    Args:
        checkpoint: What to write.
        folder: Made if it is missing; files of an older model in it are replaced.
        dtype: How numbers are stored: float32 keeps every bit, float16 halves the files. Reading
            gives float32 in any case.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _save_tensors(checkpoint.bilm, folder / MODEL_FILE, dtype)
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.write(folder / VOCABULARY_FILE)
    if checkpoint.softmax is not None:
        _save_tensors(checkpoint.softmax, folder / SOFTMAX_FILE, dtype)
    values = {
        "format": "elmo",
        "version": FORMAT_VERSION,
        "model": config_to_dict(checkpoint.bilm.config),
    }
    beside = folder / f"{CONFIG_FILE}.{os.getpid()}.tmp"
    beside.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    os.replace(beside, folder / CONFIG_FILE)


def load_folder(folder: str | Path) -> Checkpoint:
    """Read a model in our format, as float32.

    Raises:
        FileNotFoundError: If a file that belongs to the model is missing.
        ValueError: If a file is damaged, of another architecture, or holds a NaN.
    """
    folder = Path(folder)
    where = folder / CONFIG_FILE
    values = read_json(where)
    if values.get("format") != "elmo" or "model" not in values:
        raise ValueError(f'{where} is not the config of a model of ours: no "format": "elmo"')
    if values.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{where} has format version {values.get('version')}, but this program reads version "
            f"{FORMAT_VERSION}: install a newer elmo-torch"
        )
    bilm = BiLM(config_from_dict(BiLMConfig, values["model"], str(where)))
    _load_tensors(bilm, folder / MODEL_FILE)
    vocabulary = softmax = None
    if (folder / VOCABULARY_FILE).exists():
        vocabulary = Vocabulary.read(folder / VOCABULARY_FILE)
    if (folder / SOFTMAX_FILE).exists():
        if vocabulary is None:
            raise FileNotFoundError(
                f"{folder} has {SOFTMAX_FILE} but no {VOCABULARY_FILE} to say which words it knows"
            )
        softmax = Softmax(len(vocabulary), bilm.config.lstm.dim)
        _load_tensors(softmax, folder / SOFTMAX_FILE)
    return Checkpoint(bilm.eval(), vocabulary, softmax)


def _save_tensors(module: nn.Module, path: Path, dtype: torch.dtype) -> None:
    tensors = {
        name: value.detach().to("cpu", dtype).contiguous()
        for name, value in module.state_dict().items()
    }
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    save_file(tensors, beside)
    os.replace(beside, path)


def _load_tensors(module: nn.Module, path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the folder is not a whole model")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error})") from None
    expected = module.state_dict()
    for name, wanted in expected.items():
        _check(tensors, name, wanted, path)
    others = sorted(set(tensors) - set(expected))
    if others:
        raise ValueError(f"{path} has {others[0]}, of which its config knows nothing")
    module.load_state_dict({name: value.float() for name, value in tensors.items()})


def _check(tensors: dict[str, Tensor], name: str, wanted: Tensor, path: Path) -> None:
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
    if not bool(torch.isfinite(tensors[name]).all()):
        raise ValueError(f"{path}: tensor {name} holds a NaN or an infinity: the file is damaged")
