import gc
import json
import math
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from elmo.training import (
    Budget,
    MetricLog,
    Optimiser,
    OptimiserConfig,
    Patience,
    clip_gradients,
)


def test_gradients_dense_and_sparse_are_scaled_to_one_common_norm():
    dense, sparse = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(5, 2))
    dense.grad = torch.tensor([3.0, 0.0])
    sparse.grad = torch.sparse_coo_tensor(
        [[4]], [[0.0, 4.0]], (5, 2), check_invariants=True
    ).coalesce()
    assert clip_gradients([dense, sparse], 1.0) == pytest.approx(5.0)
    torch.testing.assert_close(dense.grad, torch.tensor([0.6, 0.0]))
    torch.testing.assert_close(sparse.grad.to_dense()[4], torch.tensor([0.0, 0.8]))
    assert clip_gradients([dense, sparse], 2.0) == pytest.approx(1.0)  # short enough
    torch.testing.assert_close(dense.grad, torch.tensor([0.6, 0.0]))


def test_adagrad_is_that_of_the_original():
    parameter = nn.Parameter(torch.tensor([1.0]))
    optimiser = Optimiser(
        OptimiserConfig(name="adagrad", learning_rate=0.2, schedule="constant", warmup=0.0),
        [parameter],
        [],
    )
    accumulated, value = 1.0, 1.0  # accumulators start at 1
    for gradient in (0.5, -0.3):
        parameter.grad = torch.tensor([gradient])
        optimiser.step(0.5)
        accumulated += gradient**2
        value -= 0.2 * gradient / math.sqrt(accumulated)
    assert parameter.item() == pytest.approx(value, rel=1e-6)


def test_adam_takes_dense_and_sparse_parameters():
    dense, sparse = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(5, 2))
    optimiser = Optimiser(OptimiserConfig(warmup=0.0), [dense], [sparse])
    dense.grad = torch.ones(3, 2)
    sparse.grad = torch.sparse_coo_tensor(
        [[4]], [[1.0, 1.0]], (5, 2), check_invariants=True
    ).coalesce()
    optimiser.step(0.1)
    assert (dense < 1).all()
    assert (sparse[:4] == 1).all() and (sparse[4] < 1).all()
    assert dense.grad is None and sparse.grad is None


@pytest.mark.parametrize(
    ("schedule", "half", "end"),
    [
        ("constant", 1.0, 1.0),
        ("linear", 0.5, 0.0),
        ("cosine", 0.5, 0.0),
        ("trapezoid", 1.0, 0.0),
    ],
)
def test_the_rate_rises_then_follows_its_schedule(schedule, half, end):
    config = OptimiserConfig(learning_rate=2.0, warmup=0.2, schedule=schedule)
    rate = Optimiser(config, [nn.Parameter(torch.zeros(1))], []).rate
    assert rate(0.0) == 0.0
    assert rate(0.1) == pytest.approx(1.0)
    assert rate(0.2) == pytest.approx(2.0)
    assert rate(0.6) == pytest.approx(2.0 * half)
    assert rate(1.0) == pytest.approx(2.0 * end)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": "lion"}, "optimiser 'lion' is unknown"),
        ({"schedule": "steps"}, "schedule 'steps' is unknown"),
        ({"warmup": 1.0}, "warmup is 1.0"),
        ({"decay": 0.0}, "decay is 0.0"),
        ({"warmup": 0.3, "decay": 0.8}, r"decay is 0.8, .* with warmup \(0.3\) at most 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, but must be positive"),
        ({"clip_norm": math.nan}, "clip_norm is nan, but must be positive"),
        ({"betas": (-0.1, 0.9)}, "betas is"),
        ({"weight_decay": math.inf}, "weight_decay is inf"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        OptimiserConfig(**settings)


def test_a_budget_ends_at_its_first_bound(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    budget = Budget(n_tokens=10, minutes=1.0)
    assert budget.progress(5) == 0.5
    now[0] += 54
    assert budget.progress(5) == pytest.approx(0.9)
    assert budget.progress(10) == 1.0
    with pytest.raises(ValueError, match="needs tokens or minutes"):
        Budget()


def test_metrics_are_lines_of_json_and_tensorboard_events(tmp_path):
    with MetricLog(tmp_path) as log:
        log.write(3, {"loss": 1.5})
    with MetricLog(tmp_path, after=3, tensorboard=False) as log:  # the run goes on below
        log.write(4, {"loss": 1.25})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 3, "loss": 1.5}, {"step": 4, "loss": 1.25}]
    assert len(list((tmp_path / "tensorboard").glob("events.*"))) == 1


def test_gradients_that_are_not_finite_are_left_as_they_are():
    parameters = [nn.Parameter(torch.zeros(2)) for _ in range(3)]
    parameters[0].grad, parameters[1].grad = torch.tensor([1.0, math.inf]), torch.tensor([3.0, 4.0])
    assert clip_gradients(parameters, 1.0) == math.inf  # the third has no gradient at all
    assert parameters[1].grad.tolist() == [3.0, 4.0]


@given(values=st.lists(st.floats(-99, 99, width=32), min_size=2, max_size=9))
def test_clipping_keeps_the_direction_and_bounds_the_norm(values):
    first, rest = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(len(values) - 1))
    first.grad, rest.grad = torch.tensor(values[:1]), torch.tensor(values[1:])
    before = torch.tensor(values)
    norm = clip_gradients([first, rest], 2.5)
    after = torch.cat([first.grad, rest.grad])
    assert norm == pytest.approx(before.norm().item(), rel=1e-5)
    torch.testing.assert_close(after, before * min(1.0, 2.5 / max(norm, 1e-30)))


def test_a_step_says_the_norm_before_clipping():
    parameter = nn.Parameter(torch.zeros(2))
    optimiser = Optimiser(OptimiserConfig(clip_norm=0.5), [parameter], [])
    parameter.grad = torch.tensor([3.0, 4.0])
    assert optimiser.step(0.5) == pytest.approx(5.0)


def test_adagrad_changes_sparse_rows_as_it_changes_dense_ones():
    config = OptimiserConfig(name="adagrad", warmup=0.0, clip_norm=99.0)
    dense, sparse = nn.Parameter(torch.ones(5, 2)), nn.Parameter(torch.ones(5, 2))
    with_dense, with_sparse = Optimiser(config, [dense], []), Optimiser(config, [], [sparse])
    for row, gradient in ((4, [0.5, -2.0]), (1, [1.0, 1.0]), (4, [-3.0, 0.1])):
        dense.grad = torch.zeros(5, 2)
        dense.grad[row] = torch.tensor(gradient)
        sparse.grad = torch.sparse_coo_tensor(
            [[row]], [gradient], (5, 2), check_invariants=True
        ).coalesce()
        with_dense.step(0.3)
        with_sparse.step(0.3)
    torch.testing.assert_close(sparse, dense)
    assert (sparse[0] == 1).all() and (sparse[4] != 1).all()


def test_weights_decay_in_matrices_alone():
    matrix, bias = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(3))
    config = OptimiserConfig(learning_rate=0.1, warmup=0.0, schedule="constant", weight_decay=0.5)
    optimiser = Optimiser(config, [matrix, bias], [])
    matrix.grad, bias.grad = torch.zeros(3, 2), torch.zeros(3)
    optimiser.step(0.5)
    torch.testing.assert_close(matrix.detach(), torch.full((3, 2), 1 - 0.1 * 0.5))
    assert (bias == 1).all()


def test_a_schedule_without_warmup_begins_at_its_highest_and_ends_beyond_the_budget():
    rate = Optimiser(
        OptimiserConfig(learning_rate=2.0, warmup=0.0), [nn.Parameter(torch.zeros(1))], []
    ).rate
    assert rate(0.0) == 2.0
    assert rate(1.5) == rate(1.0) == pytest.approx(0.0)


def test_a_budget_of_tokens_or_of_minutes_needs_no_other(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    of_tokens, of_minutes = Budget(n_tokens=4), Budget(minutes=2.0)
    now[0] = 30.0
    assert (of_tokens.progress(3), of_minutes.progress(3)) == (0.75, 0.25)
    now[0] = 9999.0
    assert (of_tokens.progress(3), of_minutes.progress(3)) == (0.75, 1.0)


@pytest.mark.parametrize("minutes", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_without_time_or_tokens_is_refused(minutes):
    with pytest.raises(ValueError, match=f"minutes is {minutes}, but must be positive"):
        Budget(n_tokens=3, minutes=minutes)
    with pytest.raises(ValueError, match="n_tokens is 0, but must be positive"):
        Budget(n_tokens=0)


def test_tensorboard_gets_the_numbers_of_the_lines(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with MetricLog(tmp_path) as log:
        for step in (3, 5):
            log.write(step, {"loss": step / 2, "rate": 0.125})
    board = events.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in board.Scalars("loss")] == [(3, 1.5), (5, 2.5)]
    assert [(e.step, e.value) for e in board.Scalars("rate")] == [(3, 0.125), (5, 0.125)]


def test_a_line_is_on_disk_before_the_run_ends(tmp_path):
    with MetricLog(tmp_path / "new" / "folder", tensorboard=False) as log:
        log.write(1, {"loss": 2.0})
        assert (tmp_path / "new" / "folder" / "metrics.jsonl").read_text().endswith("}\n")


def test_without_tensorboard_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"pip install 'elmo-torch\[train\]'") as error:
        MetricLog(tmp_path)
    del error
    gc.collect()  # what is open is noticed here, not in another test


def test_a_trapezoid_falls_over_the_last_share_of_the_budget():
    config = OptimiserConfig(learning_rate=2.0, warmup=0.1, schedule="trapezoid", decay=0.25)
    rate = Optimiser(config, [nn.Parameter(torch.zeros(1))], []).rate
    assert rate(0.05) == pytest.approx(1.0)
    assert rate(0.1) == rate(0.5) == rate(0.75) == 2.0
    assert rate(0.875) == pytest.approx(1.0)
    assert rate(1.0) == 0.0


def gradients(seed, dense, sparse):
    numbers = torch.Generator().manual_seed(seed)
    dense.grad = torch.randn(3, 2, generator=numbers)
    rows = torch.randperm(5, generator=numbers)[:2].sort().values
    sparse.grad = torch.sparse_coo_tensor(
        rows.unsqueeze(0), torch.randn(2, 2, generator=numbers), (5, 2), check_invariants=True
    ).coalesce()


@pytest.mark.parametrize("name", ["adamw", "adagrad"])
def test_an_optimiser_goes_on_from_its_state_to_the_last_bit(name):
    config = OptimiserConfig(name=name, weight_decay=0.1, warmup=0.0)
    pairs = [[nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(5, 2))] for _ in range(2)]
    one, other = (Optimiser(config, [dense], [sparse]) for dense, sparse in pairs)
    for i in range(3):
        gradients(i, *pairs[0])
        one.step(0.1 * i)
    for mine, theirs in zip(*pairs, strict=True):
        theirs.data.copy_(mine.data)
    other.load_state_dict(one.state_dict())
    for i in range(3, 6):
        for optimiser, pair in zip((one, other), pairs, strict=True):
            gradients(i, *pair)
            optimiser.step(0.1 * i)
    for mine, theirs in zip(*pairs, strict=True):
        assert torch.equal(mine, theirs)


def test_the_state_of_another_models_optimiser_is_refused():
    small, large = (
        Optimiser(OptimiserConfig(), [nn.Parameter(torch.ones(n, 2))], []) for n in (2, 3)
    )
    small.dense[0].grad = torch.ones(2, 2)
    small.step(0.5)
    with pytest.raises(ValueError, match=r"has shape \(2, 2\), but its parameter \(3, 2\)"):
        large.load_state_dict(small.state_dict())


@pytest.mark.parametrize("name", ["adamw", "adagrad"])
def test_a_gradient_that_is_not_finite_changes_nothing(name):
    parameter = nn.Parameter(torch.ones(2))
    optimiser = Optimiser(OptimiserConfig(name=name, warmup=0.0), [parameter], [])
    parameter.grad = torch.tensor([1.0, math.nan])
    assert not math.isfinite(optimiser.step(0.5))
    assert (parameter == 1).all()


def test_what_is_done_in_a_pause_takes_no_time_of_the_budget(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    budget = Budget(minutes=1.0, seconds=6.0)
    now[0] = 12.0
    with budget.paused():
        now[0] = 500.0
        with budget.paused():
            assert budget.seconds == 18.0
        now[0] = 1000.0
        assert budget.seconds == 18.0
    now[0] = 1006.0
    assert budget.seconds == 24.0
    assert budget.progress(0) == pytest.approx(0.4)


def test_patience_ends_after_measurements_that_were_no_better():
    patience = Patience(2)
    found = [patience.improved(loss) for loss in (5.0, 4.0, 4.0)]
    assert found == [True, True, False] and not patience.exhausted
    patience.improved(4.5)
    assert patience.exhausted and patience.best == 4.0
    patience.improved(3.0)
    assert not patience.exhausted
    for _ in range(5):
        assert not patience.improved(9.0, counted=False)
    assert not patience.exhausted and patience.improved(2.0, counted=False)
    endless = Patience(0)
    for _ in range(99):
        endless.improved(1.0)
    assert not endless.exhausted


def test_a_log_that_goes_on_drops_what_will_be_written_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 5, "loss": 1.0}\n{"step": 10, "loss": 2.0}\n{"step": 15, "lo')
    with MetricLog(tmp_path, after=5, tensorboard=False) as log:
        log.write(10, {"loss": 3.0})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"step": 5, "loss": 1.0}, {"step": 10, "loss": 3.0}]


def test_a_log_that_goes_on_has_one_end(tmp_path):
    for n_steps in (5, 5, 10):
        with MetricLog(tmp_path, after=5, tensorboard=False) as log:
            log.write(n_steps, {"final/loss": n_steps / 2})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 10, "final/loss": 5.0}]
