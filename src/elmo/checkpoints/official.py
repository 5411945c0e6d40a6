"""The official format: `options.json` and one HDF5 file, as bilm-tf writes and AllenNLP reads them.

Names in the file are TensorFlow's; a kernel is (in, out) and holds input and state weights, one
above the other. The file has no row for character id 0 (no token): released models say 262
characters in their options and hold 261, training options say 261, and both mean the same.
"""

import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor, nn

from elmo.checkpoints.together import not_replaced, replaced_together
from elmo.config import (
    N_CHARS,
    BiLMConfig,
    config_from_options,
    config_to_options,
    read_json_object,
)
from elmo.model.bilm import BiLM
from elmo.model.lstm import Lstm

OPTIONS_FILE, WEIGHTS_FILE = "options.json", "weights.hdf5"


def is_official(folder: Path) -> bool:
    """Whether a folder looks like official weights: `options.json`, or any HDF5 file."""
    return (folder / OPTIONS_FILE).exists() or bool(_hdf5_files(folder))


def load_official(options: str | Path, weights: str | Path) -> BiLM:
    """A biLM from official files, in evaluation mode, float32.

    Args:
        options: Path of the `options.json`.
        weights: Path of the HDF5 file.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, contradicts itself or the other, or holds a NaN; or if
            the options were replaced meanwhile.
    """
    options, weights = Path(options), Path(weights)
    with not_replaced(options):
        return _load_official(options, weights).eval()


def _load_official(options: Path, weights: Path) -> BiLM:
    config = config_from_options(read_json_object(options), str(options))
    if not weights.is_file():
        raise FileNotFoundError(f"{weights} does not exist, but {options} needs its weights")
    try:
        file = h5py.File(weights, "r")
    except OSError as error:
        raise ValueError(
            f"{weights} is not a whole HDF5 file: download it again ({_one_line(error)})"
        ) from None
    with file:
        with _damage_named(weights):
            config = _with_projections(config, file)
        bilm = BiLM(config)
        expected = dict(_views(bilm))
        with _damage_named(weights):
            _refuse_other_layers(file, expected, f"{weights} and {options}")
            for name, views in expected.items():
                _load(file, name, views, weights)
    return bilm


def load_official_folder(folder: Path) -> BiLM:
    """A biLM from a folder with `options.json` and one HDF5 file.

    Of several files the one with "weights" in its name counts.

    Raises:
        FileNotFoundError: If one of the two is missing.
        ValueError: If there are several HDF5 files, or as `load_official`.
    """
    weights = _hdf5_files(folder)
    if not weights:
        has = OPTIONS_FILE if (folder / OPTIONS_FILE).exists() else "nothing"
        raise FileNotFoundError(f"{folder} has {has} but no weights (*.hdf5) beside it")
    if not (folder / OPTIONS_FILE).exists():
        raise FileNotFoundError(f"{folder} has {weights[0].name} but no {OPTIONS_FILE} beside it")
    if len(weights) > 1:  # vectors may lie beside them
        weights = [w for w in weights if "weights" in w.name] or weights
    if len(weights) > 1:
        raise ValueError(
            f"{folder} has several HDF5 files ({', '.join(w.name for w in weights)}): leave the "
            'weights alone in the folder, or with "weights" in the name of no other'
        )
    return load_official(folder / OPTIONS_FILE, weights[0])


def save_official(bilm: BiLM, folder: str | Path) -> None:
    """Write `options.json` and `weights.hdf5` that bilm-tf and AllenNLP read.

    Both are written beside and then renamed. While they are, and after a process was killed at that
    moment, the folder has no `options.json`: never those of one model with the weights of another.
    What remains: another program that had read the older options before, and opens the weights
    after, mixes them; `load_official` refuses what it read so.

    Raises:
        ValueError: If the originals have no words for this architecture.
    """
    config = bilm.config
    if config.char_cnn.projection == (config.char_cnn.dim == config.char_cnn.n_filters) or (
        config.lstm.projection == (config.lstm.dim == config.lstm.hidden_dim)
    ):
        raise ValueError(
            "the original projects exactly where sizes differ; this model does otherwise, so that "
            "its official form would be read wrongly"
        )
    with replaced_together(Path(folder), OPTIONS_FILE, (WEIGHTS_FILE,)) as beside:
        with h5py.File(beside(WEIGHTS_FILE), "w") as file:
            for name, views in _views(bilm):
                value = torch.cat([view.detach().float().cpu() for view in views])
                file.create_dataset(name, data=np.ascontiguousarray(value.numpy()))
        text = json.dumps(config_to_options(config), indent=2) + "\n"
        beside(OPTIONS_FILE).write_text(text, encoding="utf-8")


def _views(bilm: BiLM) -> Iterator[tuple[str, list[Tensor]]]:
    """Name of each dataset, and our weights in its layout: views, stacked along the first axis."""
    cnn = bilm.char_cnn
    yield "char_embed", [cnn.embedding.weight.data[1:]]
    for i, convolution in enumerate(cnn.convolutions):
        assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None
        yield f"CNN/W_cnn_{i}", [convolution.weight.data.permute(2, 1, 0).unsqueeze(0)]
        yield f"CNN/b_cnn_{i}", [convolution.bias.data]
    for i, (transform, gate) in enumerate(
        zip(cnn.highway.transforms, cnn.highway.gates, strict=True)
    ):
        # TensorFlow's "carry" is the gate of the transformation: the opposite of its name.
        for name, linear in (("transform", transform), ("carry", gate)):
            assert isinstance(linear, nn.Linear)
            yield f"CNN_high_{i}/W_{name}", [linear.weight.data.T]
            yield f"CNN_high_{i}/b_{name}", [linear.bias.data]
    if isinstance(cnn.projection, nn.Linear):
        yield "CNN_proj/W_proj", [cnn.projection.weight.data.T]
        yield "CNN_proj/b_proj", [cnn.projection.bias.data]
    for direction, lstms in enumerate((bilm.forward_lm, bilm.backward_lm)):
        for k, lstm in enumerate(lstms):
            assert isinstance(lstm, Lstm)
            cell = _cell(direction, k)
            yield f"{cell}/W_0", [lstm.input_weight.data.T, lstm.state_weight.data.T]
            yield f"{cell}/B", [lstm.bias.data]
            if lstm.projection_weight is not None:
                yield f"{cell}/W_P_0", [lstm.projection_weight.data.T]


def _cell(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _with_projections(config: BiLMConfig, file: h5py.File) -> BiLMConfig:
    """AllenNLP projects always, bilm-tf only where sizes differ: the file says who wrote it."""
    char_cnn, lstm = config.char_cnn, config.lstm
    if "CNN_proj/W_proj" in file:
        char_cnn = dataclasses.replace(char_cnn, projection=True)
    if f"{_cell(0, 0)}/W_P_0" in file:
        lstm = dataclasses.replace(lstm, projection=True)
    return dataclasses.replace(config, char_cnn=char_cnn, lstm=lstm)


def _load(file: h5py.File, name: str, views: list[Tensor], path: Path) -> None:
    wanted = (sum(len(view) for view in views), *views[0].shape[1:])
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset):
        raise ValueError(
            f"{path} has no dataset {name}, but its options ask for one of shape {wanted}"
        )
    # A file may hold a row for "no token" too.
    extra = int(name == "char_embed" and dataset.shape == (N_CHARS, *wanted[1:]))
    if dataset.shape != (wanted[0] + extra, *wanted[1:]):
        raise ValueError(
            f"{path}: dataset {name} has shape {dataset.shape}, but the options ask for {wanted}"
        )
    try:
        value = torch.from_numpy(np.asarray(dataset, dtype=np.float32))[extra:]
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: dataset {name} cannot be read ({_one_line(error)})") from None
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"{path}: dataset {name} holds a NaN or an infinity: the file is damaged")
    with torch.no_grad():
        for view, part in zip(views, value.split([len(view) for view in views]), strict=True):
            view.copy_(part)


def _refuse_other_layers(file: h5py.File, expected: dict[str, list[Tensor]], where: str) -> None:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if hasattr(item, "shape") else None)
    of_bilm = re.compile(r"char_embed$|CNN(_high_\d+|_proj)?/|RNN_\d+/")
    others = [name for name in found if of_bilm.match(name) and name not in expected]
    if others and all(name in file for name in expected):
        raise ValueError(
            f"{where} contradict each other: the weights have {others[0]}"
            f"{f' and {len(others) - 1} more' if len(others) > 1 else ''}, of which the options "
            "know nothing"
        )


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Say of which file it is that h5py cannot make sense."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is damaged: download or export it again ({_one_line(error)})"
        ) from None


def _hdf5_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix in (".hdf5", ".h5") and p.is_file())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
