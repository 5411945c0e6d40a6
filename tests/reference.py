"""The biLM written straight from its equations: float64, NumPy, one token and one step at a time.

Independent of the package: it takes weights by name and shares no line of arithmetic with it.
Equations: Kim et al. (2016), 1 to 5 (convolutions, highway); Sak et al. (2014) (projected LSTM);
Peters et al. (2018), section 3.2 (layers). Gates stand in the order i, g, f, o.
"""

import numpy as np


def sigmoid(x):
    return np.where(
        x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))
    )


def weights_of(bilm):
    return {name: value.detach().double().numpy() for name, value in bilm.state_dict().items()}


def token_vector(weights, config, ids):
    """One token's character ids → its vector."""
    cnn = config.char_cnn
    embedded = weights["char_cnn.embedding.weight"][ids]  # (chars, char_dim)
    activate = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[cnn.activation]
    features = []
    for k, (width, n_filters) in enumerate(cnn.filters):
        kernel = weights[f"char_cnn.convolutions.{k}.weight"]  # (filters, char_dim, width)
        bias = weights[f"char_cnn.convolutions.{k}.bias"]
        for f in range(n_filters):
            responses = [
                activate(np.sum(kernel[f].T * embedded[start : start + width]) + bias[f])
                for start in range(len(ids) - width + 1)
            ]
            features.append(max(responses))
    x = np.array(features)
    for k in range(cnn.n_highway):
        gate = sigmoid(
            weights[f"char_cnn.highway.gates.{k}.weight"] @ x
            + weights[f"char_cnn.highway.gates.{k}.bias"]
        )
        transform = np.maximum(
            weights[f"char_cnn.highway.transforms.{k}.weight"] @ x
            + weights[f"char_cnn.highway.transforms.{k}.bias"],
            0,
        )
        x = gate * transform + (1 - gate) * x
    if "char_cnn.projection.weight" in weights:
        x = weights["char_cnn.projection.weight"] @ x + weights["char_cnn.projection.bias"]
    return x


def lstm_step(weights, prefix, config, x, h, c):
    """One token through one LSTM layer."""
    z = weights[f"{prefix}.input_weight"] @ x + weights[f"{prefix}.state_weight"] @ h
    i, g, f, o = np.split(z + weights[f"{prefix}.bias"], 4)
    c = sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(g)
    if config.cell_clip is not None:
        c = np.clip(c, -config.cell_clip, config.cell_clip)
    h = sigmoid(o) * np.tanh(c)
    if f"{prefix}.projection_weight" in weights:
        h = weights[f"{prefix}.projection_weight"] @ h
        if config.projection_clip is not None:
            h = np.clip(h, -config.projection_clip, config.projection_clip)
    return h, c


def read(weights, config, vectors, h, c):
    """Token vectors of one sentence, boundaries included → all layers, and the state after it.

    h is (directions, lstm layers, dim), c likewise with the cells.
    """
    lstm = config.lstm
    h, c = h.copy(), c.copy()
    layers = np.zeros((1 + lstm.n_layers, len(vectors), 2 * lstm.dim))
    for d, name in enumerate(("forward_lm", "backward_lm")):
        half = slice(d * lstm.dim, (d + 1) * lstm.dim)
        inputs = list(vectors)
        layers[0, :, half] = vectors
        order = range(len(vectors)) if d == 0 else reversed(range(len(vectors)))
        order = list(order)
        for k in range(lstm.n_layers):
            outputs = [None] * len(vectors)
            for t in order:
                h[d, k], c[d, k] = lstm_step(
                    weights, f"{name}.{k}", lstm, inputs[t], h[d, k], c[d, k]
                )
                outputs[t] = h[d, k].copy()
            if lstm.skip_connections and k > 0:
                outputs = [out + x for out, x in zip(outputs, inputs, strict=True)]
            layers[k + 1, :, half] = outputs
            inputs = outputs
    return layers, h, c


def encode(bilm, char_ids, h=None, c=None):
    """One sentence's character ids (tokens, chars), boundaries included → layers and state."""
    weights, config = weights_of(bilm), bilm.config
    shape = (2, config.lstm.n_layers)
    h = np.zeros((*shape, config.lstm.dim)) if h is None else h
    c = np.zeros((*shape, config.lstm.hidden_dim)) if c is None else c
    vectors = np.array([token_vector(weights, config, ids) for ids in char_ids])
    return read(weights, config, vectors, h, c)
