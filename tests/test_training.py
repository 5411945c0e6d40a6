import json
import math

import pytest
import torch
from torch import nn

from elmo.training import Budget, MetricLog, Optimiser, OptimiserConfig, clip_gradients


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
    [("constant", 1.0, 1.0), ("linear", 0.5, 0.0), ("cosine", 0.5, 0.0)],
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
        ({"name": "sgd"}, "optimiser 'sgd' is unknown"),
        ({"schedule": "steps"}, "schedule 'steps' is unknown"),
        ({"warmup": 1.0}, "warmup is 1.0"),
        ({"learning_rate": 0.0}, "must be positive"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        OptimiserConfig(**settings)


def test_a_budget_ends_at_its_first_bound(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    budget = Budget(n_steps=10, minutes=1.0)
    assert budget.progress(5) == 0.5
    now[0] += 54
    assert budget.progress(5) == pytest.approx(0.9)
    assert budget.progress(10) == 1.0
    with pytest.raises(ValueError, match="needs steps or minutes"):
        Budget()


def test_metrics_are_lines_of_json_and_tensorboard_events(tmp_path):
    with MetricLog(tmp_path) as log:
        log.write(3, {"loss": 1.5})
    with MetricLog(tmp_path, tensorboard=False) as log:  # a second run goes on below
        log.write(4, {"loss": 1.25})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 3, "loss": 1.5}, {"step": 4, "loss": 1.25}]
    assert len(list((tmp_path / "tensorboard").glob("events.*"))) == 1
