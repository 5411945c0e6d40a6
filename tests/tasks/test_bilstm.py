import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from elmo.tasks.bilstm import BiLstm, read_packed, read_padded, read_sentences


@settings(max_examples=30)
@given(
    kind=st.sampled_from([nn.LSTM, nn.GRU]),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    wider=st.integers(0, 2),
    seed=st.integers(0, 9),
)
def test_states_and_gradients_are_those_of_packed_sequences(kind, lengths, wider, seed):
    torch.manual_seed(seed)
    layer = kind(3, 2, bidirectional=True, batch_first=True).double()
    n_tokens = max(lengths) + wider
    vectors = torch.randn(len(lengths), n_tokens, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(n_tokens) < torch.tensor(lengths).unsqueeze(1)
    weights = torch.randn(len(lengths), n_tokens, 4, dtype=torch.float64)
    found = []
    for read in (read_packed, read_padded):
        states = read(layer, vectors, mask)
        assert not states[~mask].any()
        loss = (states * weights).sum()
        found.append((states, *torch.autograd.grad(loss, [vectors, *layer.parameters()])))
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_each_sentence_is_read_as_if_it_were_alone():
    torch.manual_seed(0)
    bilstm = BiLstm(3, 2, n_layers=2).eval()
    vectors = torch.randn(3, 6, 3)
    mask = torch.arange(6) < torch.tensor([[6], [1], [4]])
    together = bilstm(vectors, mask)
    for i, n in enumerate((6, 1, 4)):
        alone = bilstm(vectors[i : i + 1, :n], mask[i : i + 1, :n])
        torch.testing.assert_close(together[i : i + 1, :n], alone, atol=1e-6, rtol=0)


@pytest.mark.gpu
def test_a_gpu_reads_what_a_cpu_reads():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 2, bidirectional=True, batch_first=True)
    vectors, mask = torch.randn(2, 5, 3), torch.arange(5) < torch.tensor([[5], [2]])
    expected = read_sentences(layer, vectors, mask)
    found = read_sentences(layer.cuda(), vectors.cuda(), mask.cuda())
    torch.testing.assert_close(found.cpu(), expected, atol=1e-5, rtol=0)
