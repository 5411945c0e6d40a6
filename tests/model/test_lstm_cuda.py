import copy

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models import TINY, config_of, random_bilm, shapes

from elmo import BiLM, BiLMState, Elmo
from elmo.model import lstm_cuda
from elmo.model.lstm_cuda import CudaReader

batches = st.lists(
    st.tuples(
        st.integers(1, 6),  # steps of the batch
        st.lists(st.integers(0, 6), min_size=1, max_size=5),  # lengths of its rows
    ),
    min_size=1,
    max_size=4,
)


def random_state(config, n_rows, dtype=torch.float64):
    lstm = config.lstm
    return BiLMState(
        torch.randn(2, lstm.n_layers, n_rows, lstm.dim).to(dtype),
        torch.randn(2, lstm.n_layers, n_rows, lstm.hidden_dim).to(dtype),
    )


def random_batch(config, n_steps, lengths, dtype=torch.float64):
    mask = torch.arange(n_steps) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randn(*mask.shape, config.lstm.dim).to(dtype) * mask.unsqueeze(-1)
    return tokens, mask, random_state(config, len(lengths), dtype)


@pytest.fixture
def replayed(monkeypatch):
    """Graphs as they work, on any device: a function is run again, on the memory it was given."""
    recorded = []

    def capture(*functions, pool):
        for function in functions:
            function()
        recorded.append(functions)
        return list(functions)

    monkeypatch.setattr(lstm_cuda, "capture", capture)
    monkeypatch.setattr(lstm_cuda, "new_pool", lambda: None)
    monkeypatch.setattr(CudaReader, "_records", lambda self, tokens: True)
    return recorded


def check(reader, batch, atol=1e-11):
    """A batch read in both ways; nothing that was handed in has changed."""
    before = [part.clone() for part in (*batch[:2], *batch[2])]
    layers, mask, state = reader.read(*batch)
    assert torch.equal(mask, batch[1])
    plain, _, plain_state = reader.bilm.read(*batch)
    torch.testing.assert_close(layers, plain, atol=atol, rtol=0)
    torch.testing.assert_close(state.h, plain_state.h, atol=atol, rtol=0)
    torch.testing.assert_close(state.c, plain_state.c, atol=atol, rtol=0)
    for was, now in zip(before, (*batch[:2], *batch[2]), strict=True):
        assert torch.equal(was, now)
    return layers, state


@settings(max_examples=60)
@given(shape=shapes(), of_batches=batches, stretch=st.sampled_from([1, 2, 99]))
def test_layers_and_state_are_those_of_the_definition(shape, of_batches, stretch):
    config = config_of(shape)
    bilm = random_bilm(config).double().requires_grad_(False)
    reader = CudaReader(bilm)
    for n_steps, lengths in of_batches:
        with pytest.MonkeyPatch.context() as patch:
            # As many steps in a stretch of time.
            n_bytes = stretch * 2 * len(lengths) * 4 * config.lstm.hidden_dim * 8
            patch.setattr(lstm_cuda, "GATE_BYTES", n_bytes)
            check(reader, random_batch(config, n_steps, lengths))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=shapes(), of_batches=batches)
def test_batches_that_share_memory_do_not_share_numbers(replayed, shape, of_batches):
    config = config_of(shape)
    reader = CudaReader(random_bilm(config).double().requires_grad_(False))
    kept = []
    for n_steps, lengths in of_batches * 3:  # seen, recorded, replayed
        layers, state = check(reader, random_batch(config, n_steps, lengths))
        kept.append([(part, part.clone()) for part in (layers, *state)])
    assert all(torch.equal(now, was) for parts in kept for now, was in parts)


def test_a_shape_is_recorded_when_it_comes_again_and_then_only_replayed(replayed):
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    for lengths, n_recorded in (([4, 2], 0), ([4, 1], 1), ([3, 3], 1), ([4, 4, 4], 1)):
        check(reader, random_batch(TINY, 4, lengths))
        assert len(replayed) == n_recorded


def test_large_batches_share_the_graphs_of_batches_of_nearly_their_size(replayed):
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    for n_rows, n_steps in ((36, 18), (35, 18), (33, 17)):
        check(reader, random_batch(TINY, n_steps, [n_steps] * n_rows))
    assert len(replayed) == 1


def test_shapes_that_are_remembered_are_bounded(replayed, monkeypatch):
    monkeypatch.setattr(lstm_cuda, "MAX_SHAPES", 2)
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    for n_steps in (6, 5, 6, 4, 5, 5, 6):
        check(reader, random_batch(TINY, n_steps, [n_steps, 2]))
        assert len(reader._shapes) <= 2
    assert list(reader._shapes) == [(2, 5), (2, 6)]
    assert len(replayed) == 2


@pytest.mark.parametrize("unseen", [False, True])
def test_weights_that_change_are_read_anew_and_graphs_stay(replayed, unseen):
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    batch = random_batch(TINY, 4, [4, 2])
    before = [reader.read(*batch).layers for _ in range(2)][1]
    with torch.no_grad():
        for parameter in reader.bilm.parameters():
            # An optimiser of PyTorch's may change weights unseen by autograd.
            (parameter.data if unseen else parameter).mul_(0.5)
    after, _ = check(reader, batch)
    assert (after != before).any() and len(replayed) == 1
    reader.bilm.float()
    check(reader, random_batch(TINY, 4, [4, 2], torch.float32), atol=1e-5)


def test_where_nothing_can_be_recorded_it_says_so_and_reads_on(replayed, monkeypatch, caplog):
    def refuse(*functions, pool):
        functions[0]()
        raise RuntimeError("not permitted when stream is capturing")

    monkeypatch.setattr(lstm_cuda, "capture", refuse)
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    for _ in range(3):
        check(reader, random_batch(TINY, 4, [4, 2]))
    assert caplog.messages == [
        "going on without CUDA graphs, which is slower: not permitted when stream is capturing"
    ]


def test_what_is_read_in_inference_mode_can_be_read_again_outside_it(replayed):
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    batch = random_batch(TINY, 4, [4, 2])
    for inference in (True, True, False, True, False):
        with torch.inference_mode(inference):
            layers, state = check(reader, batch)
        assert not any(part.is_inference() for part in (layers, *state))


@pytest.mark.parametrize(("n_rows", "n_steps"), [(2, 3), (2, 0), (0, 3), (0, 0)])
def test_a_batch_without_rows_or_tokens_gives_none(replayed, n_rows, n_steps):
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    state = random_state(TINY, n_rows)
    empty = torch.zeros(n_rows, n_steps, dtype=torch.bool)
    layers, _, after = reader.read(torch.zeros(n_rows, n_steps, 6).double(), empty, state)
    assert layers.shape == (3, n_rows, n_steps, 12) and not layers.any()
    assert torch.equal(after.h, state.h) and torch.equal(after.c, state.c)


def test_what_stands_outside_the_mask_does_not_count_and_no_state_is_zero():
    reader = CudaReader(random_bilm().double().requires_grad_(False))
    tokens, mask, _ = random_batch(TINY, 4, [4, 2])
    noisy = torch.where(mask.unsqueeze(-1), tokens, 100.0)
    ours, wanted = reader.read(noisy, mask), reader.bilm.read(tokens, mask)
    torch.testing.assert_close(ours.layers, wanted.layers, atol=1e-12, rtol=0)
    torch.testing.assert_close(ours.state.c, wanted.state.c, atol=1e-12, rtol=0)
    with pytest.raises(ValueError, match="the mask has a gap"):
        reader.read(tokens, ~mask)


def test_a_copy_reads_with_its_own_weights():
    reader = CudaReader(random_bilm().double().requires_grad_(False), graphs=False)
    other = copy.deepcopy(reader)
    assert other.bilm is not reader.bilm and not other.graphs
    check(other, random_batch(TINY, 4, [4, 2]))


def test_bfloat16_stays_near_float32_and_cells_do_not_lose_more():
    bilm = random_bilm(scale=1.0).requires_grad_(False)
    tokens, mask, state = random_batch(TINY, 6, [6, 3], torch.float32)
    exact = CudaReader(bilm).read(tokens, mask, state).layers
    short, _, last = CudaReader(copy.deepcopy(bilm).bfloat16()).read(
        tokens.bfloat16(), mask, BiLMState(*(part.bfloat16() for part in state))
    )
    assert short.dtype == last.h.dtype == last.c.dtype == torch.bfloat16
    cosine = torch.cosine_similarity(short.float(), exact, dim=-1)
    assert (cosine[:, mask] > 0.995).all()


# On a GPU.


def wide(projection):
    """A config large enough that a kernel has several programs to a row."""
    lstm = {"hidden_dim": 1100, "dim": 48} if projection else {"hidden_dim": 48, "dim": 48}
    config = type(TINY.lstm)(2, **lstm, projection=projection, cell_clip=0.5, projection_clip=0.5)
    cnn = type(TINY.char_cnn)(char_dim=4, filters=((1, 3), (2, 5)), n_highway=1, dim=48)
    return type(TINY)(cnn, config)


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("projection", [True, False])
def test_a_gpu_gives_the_numbers_of_the_cpu(no_tf32, projection, graphs):
    config = wide(projection)
    bilm = random_bilm(config, scale=1.0).requires_grad_(False)
    on_gpu = CudaReader(copy.deepcopy(bilm).cuda(), graphs=graphs)
    for lengths in ([9, 4, 0], [7, 7, 1], [9, 9, 9], [1, 1, 1], [9]):  # graphs: replayed in the end
        tokens, mask, state = random_batch(config, 9, lengths, torch.float32)
        plain, _, plain_state = bilm.read(tokens, mask, state)
        layers, _, after = on_gpu.read(
            tokens.cuda(), mask.cuda(), BiLMState(*(part.cuda() for part in state))
        )
        torch.testing.assert_close(layers.cpu(), plain, atol=2e-5, rtol=0)
        torch.testing.assert_close(after.h.cpu(), plain_state.h, atol=2e-5, rtol=0)
        torch.testing.assert_close(after.c.cpu(), plain_state.c, atol=2e-5, rtol=0)
    assert on_gpu.graphs == graphs  # nothing was refused
    assert any(on_gpu._shapes.values()) == graphs


@pytest.mark.gpu
def test_a_graph_gives_what_its_launches_give():
    bilm = random_bilm(wide(True), scale=1.0).requires_grad_(False).cuda()
    with_graphs, without = CudaReader(bilm), CudaReader(bilm, graphs=False)
    for seed in range(4):
        torch.manual_seed(seed)
        tokens, mask, state = random_batch(bilm.config, 8, [8, 5, 2, 8], torch.float32)
        batch = tokens.cuda(), mask.cuda(), BiLMState(*(part.cuda() for part in state))
        one, other = with_graphs.read(*batch), without.read(*batch)
        for ours, theirs in zip(
            (one.layers, *one.state), (other.layers, *other.state), strict=True
        ):
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


@pytest.mark.gpu
def test_streams_take_turns():
    bilm = random_bilm(wide(True), scale=1.0).requires_grad_(False).cuda()
    reader = CudaReader(bilm)
    of_cpu = [random_batch(bilm.config, 8, [8, 5, 2, 8], torch.float32) for _ in range(6)]
    given = [(t.cuda(), m.cuda(), BiLMState(*(p.cuda() for p in s))) for t, m, s in of_cpu]
    wanted = [CudaReader(bilm, graphs=False).read(*batch).layers for batch in given]
    torch.cuda.synchronize()
    streams, results = [torch.cuda.Stream() for _ in range(2)], []
    for i, batch in enumerate(given):
        with torch.cuda.stream(streams[i % 2]):
            results.append(reader.read(*batch).layers)
    torch.cuda.synchronize()
    for ours, theirs in zip(results, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


SENTENCES = [
    ["We", "sat", "down", "on", "the", "bank", "of", "the", "river", "."],
    ["The", "bank", "raised", "its", "interest", "rates", "again", "."],
    ["Why", "?"],
    ["Supercalifragilistic", "naïveté", "—", "3.5", "%", "—", "counts", "."],
]


def of_default_model(dtype, device):
    """Layers of some sentences by the default model, read as `CudaReader` reads."""
    elmo = Elmo.from_pretrained(device=device, dtype=dtype)
    bilm: BiLM = elmo.bilm
    with torch.inference_mode():
        tokens, mask = elmo._reader.batch(SENTENCES)
        if device == "cpu":
            layers = bilm.read(tokens, mask).layers
        else:
            reader = CudaReader(bilm)
            for _ in range(3):
                layers = reader.read(tokens, mask).layers
    return layers[:, mask].float().cpu()


@pytest.mark.gpu
def test_the_default_model_says_the_same_on_a_gpu(no_tf32):
    exact = of_default_model(torch.float32, "cpu")
    ours = of_default_model(torch.float32, "cuda")
    torch.testing.assert_close(ours, exact, atol=2e-5, rtol=0)


@pytest.mark.gpu
def test_the_default_model_in_bfloat16_points_where_float32_does():
    exact = of_default_model(torch.float32, "cpu")
    short = of_default_model(torch.bfloat16, "cuda")
    assert (torch.cosine_similarity(short, exact, dim=-1) >= 0.999).all()


@pytest.mark.gpu
def test_elmo_on_a_gpu_gives_the_vectors_of_the_cpu(no_tf32):
    ours, wanted = (
        Elmo.from_pretrained(device=device).encode_layers(SENTENCES) for device in ("cuda", "cpu")
    )
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(
            torch.from_numpy(one), torch.from_numpy(other), atol=2e-5, rtol=0
        )
