import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.lstms import DIM, lstm_shapes, random_lstm, random_state

from elmo.config import LstmConfig
from elmo.model import lstm_packed
from elmo.model.lstm_fused import FusedLstm
from elmo.model.lstm_packed import PackedLstm, packed_order
from elmo.model.product import PlainProduct

STEPS = 6
lengths_of_rows = st.lists(st.integers(0, STEPS), min_size=1, max_size=5).map(
    lambda lengths: sorted(lengths, reverse=True)
)


def mask_of(lengths):
    return torch.arange(STEPS) < torch.tensor(lengths).unsqueeze(1)


@given(lengths=lengths_of_rows)
def test_tokens_are_packed_in_the_order_of_time(lengths):
    order, mirrored, batch_sizes = packed_order(mask_of(lengths))
    places = [(t, row) for t in range(max(lengths)) for row, n in enumerate(lengths) if t < n]
    assert order.tolist() == [row * STEPS + t for t, row in places]
    assert batch_sizes == [sum(n > t for n in lengths) for t in range(max(lengths))]
    for (t, row), mirror in zip(places, mirrored.tolist(), strict=True):
        assert places[mirror] == (lengths[row] - 1 - t, row)


@pytest.mark.parametrize("form", [PackedLstm, FusedLstm])
@given(
    shape=lstm_shapes(),
    lengths=lengths_of_rows,
    seed=st.integers(0, 99),
    stretch=st.sampled_from([1, 7, 10**6]),
)
def test_outputs_and_state_are_those_of_the_definition(form, shape, lengths, seed, stretch):
    config = LstmConfig(**shape)
    lstm = random_lstm(config, seed).requires_grad_(False)
    state, mask = random_state(config, len(lengths)), mask_of(lengths)
    x = torch.randn(*mask.shape, DIM).double()
    plain, plain_last = lstm(x, mask, state)
    order, _, batch_sizes = packed_order(mask)
    packed = x.flatten(0, 1)[order]
    given_before = [part.clone() for part in (packed, *state)]
    with pytest.MonkeyPatch.context() as patch:
        # As many tokens in a stretch of time.
        patch.setattr(lstm_packed, "GATE_BYTES", stretch * 4 * config.hidden_dim * 8)
        outputs, last = form(lstm, PlainProduct).read(packed, batch_sizes, state)
    torch.testing.assert_close(outputs, plain.flatten(0, 1)[order], atol=1e-13, rtol=0)
    torch.testing.assert_close(last.h, plain_last.h, atol=1e-13, rtol=0)
    torch.testing.assert_close(last.c, plain_last.c, atol=1e-13, rtol=0)
    # In place, but not in what was handed in.
    for before, after in zip(given_before, (packed, *state), strict=True):
        assert torch.equal(before, after)
