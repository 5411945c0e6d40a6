"""The biLM written straight from its equations: float64, NumPy, one token and one step at a time.

Independent of the package: weights come by name, from a model (`weights_of`) or from an official
HDF5 file (`read_official`), and no line of arithmetic is shared. Equations: Kim et al. (2016), 1
to 5, and Jozefowicz et al. (2016), section 3.1 (characters, convolutions, highway); Sak et al.
(2014) (projected LSTM); Peters et al. (2018), section 3 (two directions, layers, skip connection).

Names of weights are those of `BiLM.state_dict()`; gates of an LSTM stand in the order i, g, f, o.
A config is anything with the attributes of `BiLMConfig`.
"""

import json
from types import SimpleNamespace

import h5py
import numpy as np

DIRECTIONS = ("forward_lm", "backward_lm")


def weights_of(bilm):
    """The weights of a model, as float64 arrays by name."""
    return {name: value.detach().double().numpy() for name, value in bilm.state_dict().items()}


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def convolve(kernel, bias, activate, embedded):
    """max over windows of activate(kernel · window + bias); kernel (filters, char_dim, width)."""
    width = kernel.shape[2]
    responses = []
    for start in range(len(embedded) - width + 1):
        window = embedded[start : start + width].T  # (char_dim, width)
        responses.append(activate(np.tensordot(kernel, window, axes=2) + bias))
    return np.max(responses, axis=0)


def highway(gate_weight, gate_bias, transform_weight, transform_bias, x):
    """t ∘ relu(W_H x + b_H) + (1 − t) ∘ x with t = σ(W_T x + b_T)."""
    t = sigmoid(gate_weight @ x + gate_bias)
    return t * np.maximum(transform_weight @ x + transform_bias, 0) + (1 - t) * x


def token_vector(weights, config, ids):
    """One token's character ids → its vector."""
    cnn = config.char_cnn
    embedded = weights["char_cnn.embedding.weight"][ids]  # (chars, char_dim)
    activate = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[cnn.activation]
    features = []
    for k in range(len(cnn.filters)):
        kernel, bias = (weights[f"char_cnn.convolutions.{k}.{name}"] for name in ("weight", "bias"))
        features.append(convolve(kernel, bias, activate, embedded))
    x = np.concatenate(features)
    for k in range(cnn.n_highway):
        parts = (
            weights[f"char_cnn.highway.{kind}.{k}.{name}"]
            for kind in ("gates", "transforms")
            for name in ("weight", "bias")
        )
        x = highway(*parts, x)
    if "char_cnn.projection.weight" in weights:
        x = weights["char_cnn.projection.weight"] @ x + weights["char_cnn.projection.bias"]
    return x


def lstm_step(weights, prefix, config, x, h, c):
    """One token through one LSTM layer."""
    z = weights[f"{prefix}.input_weight"] @ x + weights[f"{prefix}.state_weight"] @ h
    i, g, f, o = np.split(z + weights[f"{prefix}.bias"], 4)
    # TensorFlow's cell adds 1 to the forget gate when it computes, not in the weights.
    c = sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(g)
    if config.cell_clip is not None:
        c = np.clip(c, -config.cell_clip, config.cell_clip)
    h = sigmoid(o) * np.tanh(c)
    if f"{prefix}.projection_weight" in weights:
        h = weights[f"{prefix}.projection_weight"] @ h
        if config.projection_clip is not None:
            h = np.clip(h, -config.projection_clip, config.projection_clip)
    return h, c


def read(weights, config, vectors, h, c, dropped=None):
    """Token vectors of one sentence, boundaries included → all layers, and the state after it.

    h is (directions, lstm layers, dim), c likewise with the cells. `dropped[d][k]` says what
    dropout makes of the input of layer k of direction d: factors, (tokens, dim); None for none.
    """
    lstm = config.lstm
    h, c = h.copy(), c.copy()
    n = len(vectors)
    layers = np.zeros((1 + lstm.n_layers, n, 2 * lstm.dim))
    for d, name in enumerate(DIRECTIONS):
        half = slice(d * lstm.dim, (d + 1) * lstm.dim)
        layers[0, :, half] = vectors
        inputs = list(vectors)
        for k in range(lstm.n_layers):
            if dropped is not None:
                inputs = [x * factors for x, factors in zip(inputs, dropped[d][k], strict=True)]
            outputs = [None] * n
            for t in range(n) if d == 0 else range(n - 1, -1, -1):
                h[d, k], c[d, k] = lstm_step(
                    weights, f"{name}.{k}", lstm, inputs[t], h[d, k], c[d, k]
                )
                outputs[t] = h[d, k].copy()
            if lstm.skip_connections and k > 0:
                outputs = [out + x for out, x in zip(outputs, inputs, strict=True)]
            layers[k + 1, :, half] = outputs
            inputs = outputs
    return layers, h, c


def encode_ids(weights, config, char_ids, h=None, c=None):
    """One sentence's character ids (tokens, chars), boundaries included → layers and state."""
    shape = (2, config.lstm.n_layers)
    h = np.zeros((*shape, config.lstm.dim)) if h is None else h
    c = np.zeros((*shape, config.lstm.hidden_dim)) if c is None else c
    known = {}
    for ids in char_ids:
        if ids.tobytes() not in known:
            known[ids.tobytes()] = token_vector(weights, config, ids)
    vectors = np.array([known[ids.tobytes()] for ids in char_ids])
    return read(weights, config, vectors, h, c)


def encode(bilm, char_ids, h=None, c=None):
    """As `encode_ids`, with the weights of a model."""
    return encode_ids(weights_of(bilm), bilm.config, char_ids, h, c)


def scalar_mix(layers, weights, gamma, mask=None):
    """γ Σ softmax(w)_j layer_j; with a mask, each layer is normalised over its real tokens first.

    One mean and one variance per layer, over all numbers of all tokens inside the mask.
    """
    share = np.exp(weights - np.max(weights))
    share /= share.sum()
    mixed = np.zeros(layers.shape[1:])
    for j, layer in enumerate(layers):
        if mask is not None:
            numbers = layer[mask]
            layer = (layer - numbers.mean()) / np.sqrt(numbers.var() + 1e-13)
        mixed += share[j] * layer
    return gamma * mixed


def read_official(options_path, weights_path):
    """Weights and config of official files, by the names that bilm-tf gives them.

    Kernels are (in, out), input weights above state weights. Row i of `char_embed` belongs to
    character id i + 1: id 0, "no token", is not in the file. TensorFlow's "carry" is the gate of
    the transformation.
    """
    options = json.loads(options_path.read_text(encoding="utf-8"))
    lstm, cnn = options["lstm"], options["char_cnn"]
    config = SimpleNamespace(
        char_cnn=SimpleNamespace(
            filters=cnn["filters"],
            n_highway=cnn.get("n_highway") or 0,
            activation=cnn["activation"],
        ),
        lstm=SimpleNamespace(
            n_layers=lstm["n_layers"],
            hidden_dim=lstm["dim"],
            dim=lstm["projection_dim"],
            cell_clip=lstm.get("cell_clip"),
            projection_clip=lstm.get("proj_clip"),
            skip_connections=lstm.get("use_skip_connections", False),
        ),
    )
    weights = {}

    def take(ours, theirs):
        """A matrix (in, out) and its bias, as we name them and as they do."""
        weights[f"{ours}.weight"] = array(theirs[0]).T
        weights[f"{ours}.bias"] = array(theirs[1])

    with h5py.File(weights_path) as file:

        def array(name):
            return file[name][...].astype(np.float64)

        characters = array("char_embed")
        weights["char_cnn.embedding.weight"] = np.vstack([0 * characters[:1], characters])
        for k in range(len(config.char_cnn.filters)):
            kernel = array(f"CNN/W_cnn_{k}")  # (1, width, char_dim, filters)
            weights[f"char_cnn.convolutions.{k}.weight"] = kernel[0].transpose(2, 1, 0)
            weights[f"char_cnn.convolutions.{k}.bias"] = array(f"CNN/b_cnn_{k}")
        for k in range(config.char_cnn.n_highway):
            for ours, theirs in (("gates", "carry"), ("transforms", "transform")):
                names = [f"CNN_high_{k}/{letter}_{theirs}" for letter in "Wb"]
                take(f"char_cnn.highway.{ours}.{k}", names)
        if sum(n for _, n in config.char_cnn.filters) != config.lstm.dim:
            take("char_cnn.projection", ["CNN_proj/W_proj", "CNN_proj/b_proj"])
        for d, name in enumerate(DIRECTIONS):
            for k in range(config.lstm.n_layers):
                cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
                kernel = array(f"{cell}/W_0").T
                weights[f"{name}.{k}.input_weight"] = kernel[:, : config.lstm.dim]
                weights[f"{name}.{k}.state_weight"] = kernel[:, config.lstm.dim :]
                weights[f"{name}.{k}.bias"] = array(f"{cell}/B")
                if config.lstm.dim != config.lstm.hidden_dim:
                    weights[f"{name}.{k}.projection_weight"] = array(f"{cell}/W_P_0").T
    return weights, config
