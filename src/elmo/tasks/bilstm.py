"""Layers of a biLSTM over sentences of any lengths.

Axes: batch, tokens, dim.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BiLstm(nn.Module):
    """Read each sentence in both directions; padding is not read, and gets zeros.

    Args:
        dim: Size of an input.
        hidden_dim: Size of the output of one direction.
        n_layers: Layers, each reading both directions of the one below.
        dropout: Of each layer's input but the first's, the same for all tokens of a sentence.

    Attributes:
        output_dim: Size of an output: both directions.

    Source:
        Variational dropout: Gal and Ghahramani (2016). Forget gates start at a bias of 1:
        Jozefowicz et al. (2015).
    """

    def __init__(
        self, dim: int, hidden_dim: int, *, n_layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout = SentenceDropout(dropout)
        self.layers = nn.ModuleList(
            nn.LSTM(
                dim if k == 0 else 2 * hidden_dim, hidden_dim, bidirectional=True, batch_first=True
            )
            for k in range(n_layers)
        )
        self.output_dim = 2 * hidden_dim
        for layer in self.layers:
            _initialise(layer)

    def forward(
        self, vectors: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens output_dim"]:
        """Outputs of the last layer.

        Args:
            vectors: Inputs.
            mask: True where a token is; every sentence has one, and they come first.
        """
        for k, layer in enumerate(self.layers):
            assert isinstance(layer, nn.LSTM)
            vectors = read_sentences(layer, self.dropout(vectors) if k else vectors, mask)
        return vectors


class SentenceDropout(nn.Module):
    """Zero numbers of vectors in training mode: the same places for all tokens of a sentence."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(
        self, vectors: Float[Tensor, "batch tokens dim"]
    ) -> Float[Tensor, "batch tokens dim"]:
        """The vectors, scaled so that their mean stays."""
        if not self.training or not self.p:
            return vectors
        kept = torch.rand(len(vectors), 1, vectors.shape[-1], device=vectors.device) >= self.p
        return vectors * kept / (1 - self.p)


def read_sentences(
    layer: nn.LSTM | nn.GRU,
    vectors: Float[Tensor, "batch tokens dim"],
    mask: Bool[Tensor, "batch tokens"],
) -> Float[Tensor, "batch tokens states_dim"]:
    """What a recurrent layer of PyTorch's gives for each token, and zeros for padding.

    Args:
        layer: One layer that reads in both directions, batches first.
        vectors: Inputs.
        mask: True where a token is; every sentence has one, and they come first.
    """
    return (read_packed if vectors.is_cuda else read_padded)(layer, vectors, mask)


def read_packed(
    layer: nn.LSTM | nn.GRU,
    vectors: Float[Tensor, "batch tokens dim"],
    mask: Bool[Tensor, "batch tokens"],
) -> Float[Tensor, "batch tokens states_dim"]:
    """`read_sentences` by PyTorch's packed sequences: the definition, and fast on a GPU."""
    packed = pack_padded_sequence(
        vectors, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False
    )
    states, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=mask.shape[1])
    return states


def read_padded(
    layer: nn.LSTM | nn.GRU,
    vectors: Float[Tensor, "batch tokens dim"],
    mask: Bool[Tensor, "batch tokens"],
) -> Float[Tensor, "batch tokens states_dim"]:
    """`read_sentences` with padding read after each sentence's end, where it changes nothing.

    For the other direction sentences are turned around. On a CPU, gradients of packed sequences
    take one and a half to three times as long.
    """
    lengths, places = mask.sum(dim=1, keepdim=True), torch.arange(mask.shape[1])
    turned = torch.where(mask, lengths - 1 - places, places).unsqueeze(2)
    zero = vectors.new_zeros(1, len(vectors), layer.hidden_size)
    states = []
    for d, of_direction in enumerate(layer.all_weights):
        weights: list[Tensor] = [*of_direction]
        x = vectors.take_along_dim(turned, dim=1) if d else vectors
        last = (True, 1, 0.0, layer.training, False, True)
        if isinstance(layer, nn.LSTM):
            read = torch.lstm(x, (zero, zero), weights, *last)[0]
        else:
            read = torch.gru(x, zero, weights, *last)[0]
        states.append(read.take_along_dim(turned, dim=1) if d else read)
    return torch.cat(states, dim=2) * mask.unsqueeze(2)


def initialise_recurrent(layer: nn.Module, n_gates: int) -> None:
    """Draw input weights by Xavier's rule and recurrent ones orthogonal by gate; biases are 0."""
    for name, parameter in layer.named_parameters():
        if "weight_ih" in name:
            nn.init.xavier_uniform_(parameter)
        elif "weight_hh" in name:
            for gate in parameter.data.chunk(n_gates):
                nn.init.orthogonal_(gate)
        else:
            nn.init.zeros_(parameter)


def _initialise(layer: nn.Module) -> None:
    initialise_recurrent(layer, n_gates=4)
    for name, parameter in layer.named_parameters():
        if "bias_ih" in name:
            n = len(parameter) // 4
            parameter.data[n : 2 * n] = 1.0
