import pytest
import torch
from tests.lstms import random_lstm, random_state

from elmo.config import LstmConfig
from elmo.model import lstm_window_cuda
from elmo.model.lstm_window import read_window
from elmo.model.lstm_window_cuda import WindowGraphs

PROJECTS = LstmConfig(1, 7, 5, cell_clip=0.3, projection_clip=0.2)
PLAIN = LstmConfig(1, 5, 5, cell_clip=None, projection_clip=None, projection=False)
STEPS, ROWS = 4, 3
configs = pytest.mark.parametrize("config", [PROJECTS, PLAIN], ids=["projects", "plain"])


@pytest.fixture
def replayed(monkeypatch):
    """Graphs as they work, on any device: a function is run again, on the memory it was given."""
    recorded = []

    def capture(*functions, pool):
        for function in functions:
            function()
        recorded.append(functions)
        return list(functions)

    monkeypatch.setattr(lstm_window_cuda, "capture", capture)
    monkeypatch.setattr(lstm_window_cuda, "new_pool", lambda: None)
    monkeypatch.setattr(WindowGraphs, "_records", lambda self, x: True)
    return recorded


def random_window(config, resets, steps=STEPS):
    x = torch.randn(2, steps, ROWS, config.dim, dtype=torch.float64)
    keep = (torch.rand(2, steps, ROWS) > 0.3).double() if resets else None
    return x, random_state(config, 2, ROWS), keep


def step(read, lstms, window, dtype=torch.float64):
    """Outputs, state and gradients of a window, and of what is done with its outputs."""
    x, state, keep = window
    x = x.clone().requires_grad_()
    out, last = read(lstms, x, state, keep, dtype)
    assert not last.h.requires_grad and not last.c.requires_grad
    parameters = [x, *(p for lstm in lstms for p in lstm.parameters())]
    gradients = torch.autograd.grad((out * out.detach().cos()).sum(), parameters)
    return [out, *last, *gradients]


def same(ours, theirs, atol=0.0, rtol=0.0):
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=atol, rtol=rtol)


@configs
@pytest.mark.parametrize("resets", [False, True])
def test_replayed_windows_give_the_same_numbers_and_gradients(replayed, config, resets):
    lstms, read = (random_lstm(config, 1), random_lstm(config, 2)), WindowGraphs()
    kept = []
    for _ in range(3):
        window = random_window(config, resets)
        ours = step(read, lstms, window)
        same(ours, step(read_window, lstms, window))
        kept.append([(part, part.clone()) for part in ours])
        with torch.no_grad():  # as an optimiser does: seen by the next window
            for lstm in lstms:
                for parameter in lstm.parameters():
                    parameter.mul_(0.9)
    assert len(replayed) == 1
    assert all(torch.equal(now, was) for parts in kept for now, was in parts)


@configs
def test_what_was_given_out_lies_where_no_graph_writes(replayed, config):
    lstms, read = (random_lstm(config, 1), random_lstm(config, 2)), WindowGraphs()
    given = step(read, lstms, random_window(config, True))
    before = [part.clone() for part in given]
    ((_, recorded),) = read._recorded.values()
    for place in (*recorded.after, *recorded.gradients):
        if place is not None:
            place.fill_(torch.nan)
    same(given, before)


def test_each_layer_has_its_graph_and_another_shape_a_new_one(replayed):
    read = WindowGraphs()
    layers = [(random_lstm(PROJECTS, k), random_lstm(PROJECTS, k + 9)) for k in range(2)]
    for steps, n_recorded in ((4, 2), (4, 2), (5, 4), (4, 6)):
        windows = [random_window(PROJECTS, True, steps) for _ in layers]
        for lstms, window in zip(layers, windows, strict=True):
            same(step(read, lstms, window), step(read_window, lstms, window))
        assert len(replayed) == n_recorded and len(read._recorded) == 2


def test_layers_stacked_on_each_other_go_back_through_each_other(replayed):
    layers = [(random_lstm(PROJECTS, k), random_lstm(PROJECTS, k + 9)) for k in range(2)]
    x, state, _ = random_window(PROJECTS, False)
    parameters = [p for pair in layers for lstm in pair for p in lstm.parameters()]
    results = []
    for read in (WindowGraphs(), read_window):
        for _ in range(2):
            out = x
            for lstms in layers:
                out = out + read(lstms, out, state, None, torch.float64)[0]
            gradients = torch.autograd.grad(out.square().sum(), parameters)
        results.append(gradients)
    same(*results, atol=1e-12)


def test_going_back_through_a_window_that_is_no_more_is_refused(replayed):
    lstms, read = (random_lstm(PROJECTS, 1), random_lstm(PROJECTS, 2)), WindowGraphs()
    x, state, _ = random_window(PROJECTS, False)
    first, _ = read(lstms, x, state, None, torch.float64)
    read(lstms, x, state, None, torch.float64)
    with pytest.raises(RuntimeError, match="call backward once on each window, before the next"):
        first.sum().backward()
    again, _ = read(lstms, x, state, None, torch.float64)
    again.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="gone back through"):
        again.sum().backward()


def test_where_nothing_can_be_recorded_it_says_so_and_goes_on(replayed, monkeypatch, caplog):
    def refuse(*functions, pool):
        raise RuntimeError("no graphs here")

    monkeypatch.setattr(lstm_window_cuda, "capture", refuse)
    lstms, read = (random_lstm(PROJECTS, 1), random_lstm(PROJECTS, 2)), WindowGraphs()
    for _ in range(2):
        window = random_window(PROJECTS, True)
        same(step(read, lstms, window), step(read_window, lstms, window))
    assert caplog.messages == ["training without CUDA graphs, which is slower: no graphs here"]


def test_without_a_gpu_it_is_the_ordinary_reading():
    lstms, read = (random_lstm(PROJECTS, 1), random_lstm(PROJECTS, 2)), WindowGraphs()
    window = random_window(PROJECTS, True)
    same(step(read, lstms, window), step(read_window, lstms, window))
    assert not read._recorded


# On a GPU.


def moved(lstms, window):
    x, state, keep = window
    of_gpu = [None if part is None else part.float().cuda() for part in (x, *state, keep)]
    return tuple(lstm.float().cuda() for lstm in lstms), (
        of_gpu[0],
        type(state)(*of_gpu[1:3]),
        of_gpu[3],
    )


@pytest.mark.gpu
@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("graphs", [False, True])
def test_windows_on_a_gpu_have_the_gradients_of_the_cpu(projection, resets, graphs):
    sizes = (1, 1100, 48) if projection else (1, 48, 48)
    config = LstmConfig(
        *sizes, cell_clip=0.5, projection_clip=0.5 if projection else None, projection=projection
    )
    lstms = tuple(random_lstm(config, seed) for seed in (1, 2))
    for lstm in lstms:
        lstm.reset_parameters()
    read = WindowGraphs() if graphs else read_window
    for _ in range(3):
        window = random_window(config, resets)
        wanted = step(read_window, tuple(lstm.cpu().double() for lstm in lstms), window)
        ours = step(read, *moved(lstms, window), torch.float32)
        same([part.cpu().double() for part in ours], wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.gpu
def test_a_graph_gives_what_its_launches_give():
    config = LstmConfig(1, 256, 48, cell_clip=0.5, projection_clip=0.5)
    lstms, read = tuple(random_lstm(config, seed) for seed in (1, 2)), WindowGraphs()
    for lstm in lstms:
        lstm.reset_parameters()
    for dtype, atol in ((torch.float32, 1e-5), (torch.bfloat16, 0.05)):
        for _ in range(3):
            on_gpu, window = moved(lstms, random_window(config, True))
            same(
                step(read, on_gpu, window, dtype),
                step(read_window, on_gpu, window, dtype),
                atol=atol,
                rtol=1e-2,
            )
    assert read._works and len(read._recorded) == 1
