import pytest
import torch
from torch import nn

from elmo.tasks.highway_lstm import HighwayLstm, HighwayLstmLayer

DIM, HIDDEN = 3, 5


def layer(*, backward=False, dropout=0.0, dim=DIM):
    return HighwayLstmLayer(dim, HIDDEN, backward=backward, recurrent_dropout=dropout)


def mask_of(*lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def set_highway_gate(lstm, value):
    with torch.no_grad():
        lstm.bias[4 * HIDDEN :] = value


def test_with_the_highway_closed_a_layer_is_an_lstm():
    ours, theirs = layer(), nn.LSTM(DIM, HIDDEN, batch_first=True)
    set_highway_gate(ours, 1e4)
    order = [0, 2, 1, 3]  # PyTorch has i, f, g, o
    with torch.no_grad():
        for given, taken in [
            (theirs.weight_ih_l0, ours.input_weight),
            (theirs.weight_hh_l0, ours.state_weight),
            (theirs.bias_ih_l0, ours.bias),
        ]:
            given.copy_(torch.cat([taken.split(HIDDEN)[k] for k in order]))
        theirs.bias_hh_l0.zero_()
    x = torch.randn(2, 4, DIM)
    torch.testing.assert_close(ours(x, mask_of(4, 4)), theirs(x)[0])


def test_with_the_highway_open_a_layer_only_multiplies_its_input():
    lstm = layer()
    set_highway_gate(lstm, -1e4)
    x = torch.randn(2, 4, DIM)
    torch.testing.assert_close(lstm(x, mask_of(4, 4)), x @ lstm.input_weight[5 * HIDDEN :].T)


def test_a_step_is_as_the_paper_writes_it():
    lstm = layer()
    x = torch.randn(1, 2, DIM)
    h = c = torch.zeros(HIDDEN)
    for t in range(2):
        blocks = [w @ x[0, t] for w in lstm.input_weight.split(HIDDEN)]
        of_state = [w @ h for w in lstm.state_weight.split(HIDDEN)]
        i, g, f, o, r = (
            a + b + bias
            for a, b, bias in zip(blocks, of_state, lstm.bias.split(HIDDEN), strict=False)
        )
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = r.sigmoid() * o.sigmoid() * c.tanh() + (1 - r.sigmoid()) * blocks[5]
    torch.testing.assert_close(lstm(x, mask_of(2))[0, -1], h)


def test_a_backward_layer_is_a_forward_layer_on_the_reversed_sentence():
    forward, backward = layer(), layer(backward=True)
    backward.load_state_dict(forward.state_dict())
    x = torch.randn(2, 4, DIM)
    mask = mask_of(4, 4)
    torch.testing.assert_close(backward(x, mask), forward(x.flip(1), mask).flip(1))


def test_directions_alternate_from_left_to_right_first():
    lstm = HighwayLstm(DIM, HIDDEN, n_layers=3, recurrent_dropout=0.0)
    assert [each.backward for each in lstm.layers] == [False, True, False]
    one = HighwayLstm(DIM, HIDDEN, n_layers=1, recurrent_dropout=0.0)
    x, mask = torch.randn(1, 4, DIM), mask_of(4)
    changed = x.clone()
    changed[0, 3] += 1
    torch.testing.assert_close(one(x, mask)[0, :3], one(changed, mask)[0, :3])
    assert not torch.allclose(one(x, mask)[0, 3], one(changed, mask)[0, 3])
    assert not torch.allclose(lstm(x, mask)[0, 0], lstm(changed, mask)[0, 0])


@pytest.mark.parametrize("n_layers", [1, 2, 5])
def test_padding_and_neighbours_change_nothing(n_layers):
    lstm = HighwayLstm(DIM, HIDDEN, n_layers=n_layers).eval()
    lengths = (2, 4, 1)
    x, mask = torch.randn(3, 4, DIM), mask_of(*lengths)
    together = lstm(x, mask)
    for row, n in enumerate(lengths):
        torch.testing.assert_close(together[row, :n], lstm(x[row : row + 1, :n], mask_of(n))[0])
        assert not together[row, n:].any()


def test_dropout_leaves_out_the_same_numbers_at_all_tokens_in_training_alone():
    lstm = layer(dropout=0.5, dim=HIDDEN)
    x, mask = torch.randn(7, 6, HIDDEN), mask_of(*[6] * 7)
    zero = lstm(x, mask) == 0
    assert torch.equal(zero, zero[:, :1].expand_as(zero))
    assert 0.2 < zero[:, 0].float().mean() < 0.8
    assert len({tuple(row.tolist()) for row in zero[:, 0]}) > 1
    lstm.eval()
    assert (lstm(x, mask) != 0).all()


def test_what_dropout_leaves_out_is_not_read_by_the_next_step():
    lstm = layer(dropout=0.5)
    x, mask = torch.randn(1, 3, DIM), mask_of(3)
    torch.manual_seed(7)
    dropped = lstm(x, mask)
    zero = (dropped[0, 0] == 0).nonzero().flatten()
    assert 0 < len(zero) < HIDDEN
    with torch.no_grad():
        lstm.state_weight[:, zero] += 1.0
    torch.manual_seed(7)
    torch.testing.assert_close(lstm(x, mask), dropped)


def test_gates_start_orthonormal_and_remember():
    lstm = HighwayLstm(HIDDEN, HIDDEN, n_layers=2)
    for each in lstm.layers:
        for gate in (*each.input_weight.split(HIDDEN), *each.state_weight.split(HIDDEN)):
            torch.testing.assert_close(gate @ gate.T, torch.eye(HIDDEN))
        i, g, f, o, r = each.bias.split(HIDDEN)
        assert (f == 1).all() and not torch.cat([i, g, o, r]).any()


def test_gradients_are_those_of_the_outputs():
    lstm = HighwayLstm(2, 3, n_layers=2, recurrent_dropout=0.0).double()
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    mask = mask_of(3, 2)
    parameters = tuple(lstm.parameters())
    assert torch.autograd.gradcheck(lambda *_: lstm(x, mask), (x, *parameters))
    lstm(x, mask).sum().backward()
    assert not x.grad[1, 2].any() and all(p.grad.abs().sum() > 0 for p in parameters)
