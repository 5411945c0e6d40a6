import copy
import gzip
import json
import lzma
import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import random_bilm
from torch import nn

from elmo import Elmo, ScalarMix, batch_char_ids
from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.store import read_sentences, read_vectors

SENTENCES = [["The", "naïve", "—"], [], ["a"], ["word"] * 7, ["a"]]
WORDS = ["a", "The", "naïve", "—", "supercalifragilistic", "x" * 60, "3.5"]
sentence_lists = st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=6)
N_LAYERS, DIM = 3, 12


@pytest.fixture(scope="module")
def elmo():
    return Elmo(random_bilm())


def by_hand(elmo, sentence, state=None):
    """One sentence through the biLM alone, without its boundaries; and the state after it."""
    output = elmo.bilm(torch.from_numpy(batch_char_ids([sentence])), state)
    return output.layers[:, 0, 1:-1].detach().numpy(), output.state


def close(ours, expected):
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        assert a.dtype == np.float32 and a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=0)


# ---- vectors ------------------------------------------------------------------------------------


def test_every_layer_of_every_token_is_that_of_the_bilm(elmo):
    close(elmo.encode_layers(SENTENCES), [by_hand(elmo, s)[0] for s in SENTENCES])
    assert elmo.encode_layers(SENTENCES)[1].shape == (N_LAYERS, 0, DIM)


@given(sentences=sentence_lists, order=st.randoms(use_true_random=False), budget=st.integers(1, 60))
def test_neighbours_order_batches_and_cache_change_no_vector(elmo, sentences, order, budget):
    shuffled = list(range(len(sentences)))
    order.shuffle(shuffled)
    together = elmo.encode_layers([sentences[i] for i in shuffled], batch_tokens=budget)
    uncached = Elmo(elmo.bilm, cache_tokens=0)
    close(together, [uncached.encode_layers([sentences[i]])[0] for i in shuffled])


@pytest.mark.parametrize("state", ["zero", "carry", "settled"])
def test_two_runs_are_bit_identical(state):
    runs = [Elmo(random_bilm()).encode_layers(SENTENCES, state=state) for _ in range(2)]
    assert all(np.array_equal(a, b) for a, b in zip(*runs, strict=True))


def test_layer_zero_is_the_character_cnn_twice(elmo):
    for tokens, of_sentence in zip(SENTENCES, elmo.encode_layers(SENTENCES), strict=True):
        ids = torch.from_numpy(batch_char_ids([tokens], boundaries=False))[0]
        cnn = elmo.bilm.char_cnn(ids).detach().numpy()
        np.testing.assert_allclose(of_sentence[0], np.concatenate([cnn, cnn], -1), atol=1e-5)


@given(sentences=sentence_lists, order=st.randoms(use_true_random=False), budget=st.integers(1, 60))
@settings(max_examples=25)
def test_no_neighbour_is_seen_by_a_mix_with_layer_norm(elmo, sentences, order, budget):
    normalising = Elmo(elmo.bilm, layer_norm=True)
    shuffled = list(range(len(sentences)))
    order.shuffle(shuffled)
    together = normalising.encode([sentences[i] for i in shuffled], batch_tokens=budget)
    alone = [normalising.encode([sentences[i]])[0] for i in shuffled]
    close(together, alone)


def test_the_mean_of_a_very_long_sentence_is_as_exact_as_that_of_a_short_one(elmo):
    short = ["The", "naïve", "word"] * 5
    layer_0 = elmo.encode([short], layers=0)[0]  # the same three vectors, however often
    close([elmo.encode([short * 500], layers=0)[0]], [layer_0])


def test_two_calls_and_two_files_are_bit_identical(elmo, text, tmp_path):
    first, second = elmo.encode(SENTENCES), elmo.encode(SENTENCES)
    assert np.array_equal(first, second)
    for name in ("a.npz", "b.npz"):
        elmo.encode_file(text, tmp_path / name, tokenized=True)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_raw_text_is_split_by_rules_and_both_kinds_give_the_same(elmo):
    texts = ["Don't stop.", "", "Why?"]
    tokens = [elmo.tokenize(text) for text in texts]
    assert tokens == [["Do", "n't", "stop", "."], [], ["Why", "?"]]
    close(elmo.encode_tokens(texts), elmo.encode_tokens(tokens))


def test_the_mix_and_single_layers_are_taken_from_all_layers(elmo):
    layers = elmo.encode_layers(SENTENCES)
    close(elmo.encode_tokens(SENTENCES), [of.mean(axis=0) for of in layers])
    for layer in (0, 1, 2, -1):
        close(elmo.encode_tokens(SENTENCES, layers=layer), [of[layer] for of in layers])
    weighted = Elmo(elmo.bilm, mixes=[ScalarMix(3, weights=[0.5, 0.1, -1.0], gamma=2.0)])
    share = np.exp([0.5, 0.1, -1.0]) / np.exp([0.5, 0.1, -1.0]).sum()
    close(
        weighted.encode_tokens(SENTENCES),
        [2 * np.einsum("l,ltd->td", share, of).astype("f4") for of in layers],
    )


def test_a_sentence_vector_is_the_mean_of_its_real_tokens(elmo, caplog):
    vectors = elmo.encode(SENTENCES)
    assert vectors.shape == (5, DIM) and vectors.dtype == np.float32
    tokens = elmo.encode_tokens(SENTENCES)
    for i in (0, 2, 3, 4):
        np.testing.assert_allclose(vectors[i], tokens[i].mean(axis=0), atol=1e-6)
    assert not vectors[1].any()
    assert "1 of 5 sentences have no token" in caplog.text


def test_boundaries_are_kept_on_request(elmo):
    with_boundaries = elmo.encode_layers(SENTENCES, boundaries=True)
    assert [v.shape[1] for v in with_boundaries] == [len(s) + 2 for s in SENTENCES]
    close([v[:, 1:-1] for v in with_boundaries], elmo.encode_layers(SENTENCES))


def test_normalised_vectors_have_length_one_and_nothing_stays_nothing(elmo):
    for of_sentence in elmo.encode_layers(SENTENCES, normalise=True):
        np.testing.assert_allclose(np.linalg.norm(of_sentence, axis=-1), 1, atol=1e-5)
    lengths = np.linalg.norm(elmo.encode(SENTENCES, normalise=True), axis=1)
    np.testing.assert_allclose(lengths, [1, 0, 1, 1, 1], atol=1e-5)


def test_a_carried_state_is_that_of_reading_one_after_the_other(elmo):
    expected, state = [], None
    for sentence in SENTENCES:
        vectors, state = by_hand(elmo, sentence, state)
        expected.append(vectors)
    carried = elmo.encode_layers(SENTENCES, state="carry")
    close(carried, expected)
    assert np.abs(carried[4] - carried[2]).max() > 1e-3  # the same sentence, another vector
    close(elmo.encode_layers(SENTENCES, state="carry"), expected)  # each call begins anew


def test_a_settled_state_is_that_after_many_empty_sentences():
    elmo, state = Elmo(random_bilm(scale=0.7)), None
    for _ in range(300):
        _, state = by_hand(elmo, [], state)
    settled = elmo.encode_layers(SENTENCES, state="settled")
    close(settled, [by_hand(elmo, s, state)[0] for s in SENTENCES])
    close(elmo.encode_layers(SENTENCES[::-1], state="settled")[::-1], settled)
    assert np.abs(settled[0] - elmo.encode_layers(SENTENCES)[0]).max() > 1e-3


def test_a_mix_with_layer_norm_sees_one_sentence_and_its_boundaries(elmo):
    mix = ScalarMix(3, weights=[0.1, 0.2, -0.4], layer_norm=True)
    normalising = Elmo(elmo.bilm, mixes=[mix])
    expected = []
    for sentence in SENTENCES:
        layers = elmo.bilm(torch.from_numpy(batch_char_ids([sentence]))).layers
        expected.append(mix(layers)[0, 1:-1].detach().numpy())
    close(normalising.encode_tokens(SENTENCES), expected)


@pytest.mark.parametrize(
    ("dtype", "far"),
    [(torch.bfloat16, 0.5), (torch.int8, 0.5), (torch.float64, 1e-5), (torch.float32, 1e-6)],
)
def test_vectors_are_float32_whatever_the_model_computes_with(tmp_path, elmo, dtype, far):
    save_folder(Checkpoint(elmo.bilm), tmp_path)
    other = Elmo.from_pretrained(tmp_path, dtype=dtype)
    for ours, exact in zip(
        other.encode_tokens(SENTENCES), elmo.encode_tokens(SENTENCES), strict=True
    ):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, exact, atol=far)
    assert other.encode_layers(SENTENCES)[0].dtype == np.float32


@pytest.mark.parametrize("batched", [True, False])
def test_8_bits_are_a_rounding_that_no_neighbour_changes(tmp_path, elmo, batched):
    save_folder(Checkpoint(elmo.bilm), tmp_path)
    short = Elmo.from_pretrained(tmp_path, dtype=torch.int8)
    together = short.encode_layers(SENTENCES, batch_tokens=8192 if batched else 1)
    close(together, [short.encode_layers([sentence])[0] for sentence in SENTENCES])
    exact = elmo.encode_layers(SENTENCES)
    close([v[0] for v in together], [v[0] for v in exact])  # the CNN is left in float32
    far = [np.abs(a - b).max() for a, b in zip(together, exact, strict=True) if a.size]
    assert 1e-4 < max(far) < 0.5


@pytest.mark.parametrize("n_rows", [1, 4, 70])
@pytest.mark.parametrize("warm", [False, True])
def test_a_callers_autocast_changes_nothing(n_rows, warm):
    elmo, sentences = Elmo(random_bilm(scale=1.0)), [["a", "The", "naïve"]] * n_rows
    expected = Elmo(elmo.bilm)(sentences).mixes[0].detach()
    if warm:
        elmo.encode_tokens(sentences)
    with torch.autocast("cpu", torch.bfloat16):
        tokens = elmo.encode_layers(sentences)
    close(tokens, Elmo(elmo.bilm).encode_layers(sentences))
    with torch.autocast("cpu", torch.bfloat16):
        found = elmo(sentences).mixes[0]
    torch.testing.assert_close(found.float(), expected, atol=0.05, rtol=0.05)


def test_threads_at_once_get_what_each_gets_alone():
    elmo = Elmo(random_bilm(scale=1.0), cache_tokens=3)
    texts = [[[f"w{i}", "and", f"x{j}"] * (j + 1) for j in range(4)] for i in range(6)]
    alone = [elmo.encode_layers(text) for text in texts]
    elmo = Elmo(random_bilm(scale=1.0), cache_tokens=3)  # whoever comes first makes it ready
    with ThreadPoolExecutor(len(texts)) as pool:
        for _ in range(3):
            for ours, expected in zip(pool.map(elmo.encode_layers, texts), alone, strict=True):
                close(ours, expected)


def test_after_a_warm_up_nothing_is_made_ready_any_more():
    elmo = Elmo(random_bilm())
    elmo.warm_up()
    packed = elmo._reader._packed
    made = {id(reader) for readers in packed._readers.values() for reader in readers}
    elmo.encode_tokens(["One sentence."])
    elmo.encode_tokens([["many", "sentences"]] * 70)
    assert {id(reader) for readers in packed._readers.values() for reader in readers} == made


def test_a_token_of_ten_thousand_characters_is_one_vector(elmo):
    assert elmo.encode_tokens([["a" * 10_000, "b"]])[0].shape == (2, DIM)


def test_nothing_in_nothing_out(elmo):
    assert elmo.encode([]).shape == (0, DIM)
    assert elmo.encode_tokens([]) == elmo.encode_layers([]) == []


def test_encoding_leaves_training_as_it_was():
    elmo = Elmo(random_bilm(), fine_tune=True).train()
    quiet = elmo.encode_layers(SENTENCES)
    assert elmo.training and elmo.bilm.training and elmo.bilm.forward_lm[0].training
    close(quiet, elmo.encode_layers(SENTENCES))
    assert all(p.grad is None for p in elmo.parameters())


def test_a_failure_while_encoding_leaves_training_as_it_was():
    elmo = Elmo(random_bilm(), fine_tune=True).train()
    with pytest.raises(ValueError, match="NUL"):
        elmo.encode([["fine"], ["a\0b"]])
    assert elmo.training and elmo.bilm.training


def test_encoding_works_within_inference_mode_and_leaves_nothing_of_it(elmo, tmp_path):
    save_folder(Checkpoint(elmo.bilm), tmp_path)
    expected = elmo.encode_layers(SENTENCES)
    with torch.inference_mode():
        made_within = Elmo.from_pretrained(tmp_path)
        close(made_within.encode_layers(SENTENCES), expected)
    close(made_within.encode_layers(SENTENCES), expected)
    learning = Elmo(elmo.bilm).train()
    with torch.inference_mode():
        learning.encode(SENTENCES)
    learning(SENTENCES).mixes[0].sum().backward()  # with vectors that were remembered there
    assert learning.mixes[0].gamma.grad is not None


def test_a_bar_is_drawn_on_stderr_only_where_one_is_wanted(elmo, capsys):
    elmo.encode_tokens([["a"]] * 1500)
    assert capsys.readouterr() == ("", "")
    elmo.encode_tokens([["a"]] * 3, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "Encoding" in err and "3/3" in err


@pytest.mark.parametrize(
    ("sentences", "error", "said"),
    [
        ("one text", TypeError, "for one text, pass [text]"),
        ([["fine"], "not tokenized"], TypeError, "pass sentences[1].split()"),
        (["fine", ["tokens"]], TypeError, "sentences[1] is list, but sentences[0] is a text"),
        ([["a", 3]], TypeError, "a token is 3 (int), but expected a string"),
        ([3], TypeError, "sentences[0] is int"),
        (["fine", "a\ud800b"], ValueError, "sentences[1] holds a lone surrogate at character 1"),
        (["a\0b"], ValueError, "sentences[0] holds a NUL"),
        ([["a\0b"]], ValueError, "holds a NUL"),
        ([["\ud800"]], ValueError, "holds a lone surrogate"),
    ],
)
def test_what_are_no_sentences_is_refused_with_what_to_do(elmo, sentences, error, said):
    for encode in (elmo.encode, elmo.encode_tokens, elmo.encode_layers):
        with pytest.raises(error, match=re.escape(said)) as raised:
            encode(sentences)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layers": 3}, "layers is 3, but the model has layers 0 to 2"),
        ({"layers": "all"}, "layers is 'all', but expected"),
        ({"state": "warm"}, "state is 'warm', but expected one of zero, carry, settled"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"batch_tokens": 0, "state": "carry"}, "batch_tokens is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(elmo, settings, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        elmo.encode_tokens(SENTENCES, **settings)


def test_a_device_that_is_not_there_is_refused():
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="PyTorch sees no CUDA device here"):
            Elmo.from_pretrained(device="cuda")
    with pytest.raises(ValueError, match="device is 'abacus', but expected auto, cpu or cuda"):
        Elmo.from_pretrained(device="abacus")


def test_a_dtype_that_cannot_be_is_refused():
    with pytest.raises(TypeError, match=r"dtype is torch.int16, but expected one of torch.float32"):
        Elmo.from_pretrained(dtype=torch.int16)
    with pytest.raises(
        ValueError, match='is for the CPU, but the device is meta: pass device="cpu"'
    ):
        Elmo.from_pretrained(dtype=torch.int8, device="meta")


# ---- files --------------------------------------------------------------------------------------


@pytest.fixture
def text(tmp_path):
    lines = [" ".join(sentence) for sentence in SENTENCES]
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet"])
def test_a_file_holds_what_encode_layers_gives(elmo, text, tmp_path, suffix):
    done = []
    output = tmp_path / f"out{suffix}"
    written = elmo.encode_file(text, output, tokenized=True, progress=done.append)
    assert written == (5, 12, 1) and sum(done) == 5
    close(list(read_vectors(output)), elmo.encode_layers(SENTENCES))
    assert not list(tmp_path.glob("*.partial"))


def test_hdf5_is_as_bilm_tf_writes_it(elmo, text, tmp_path):
    elmo.encode_file(text, tmp_path / "out.hdf5", tokenized=True)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert sorted(file) == ["0", "1", "2", "3", "4"]
        assert file["3"].shape == (N_LAYERS, 7, DIM) and file["3"].dtype == np.float32


@pytest.mark.parametrize("layers", ["mix", 0, -1])
def test_one_layer_is_written_as_the_only_one(elmo, text, tmp_path, layers):
    elmo.encode_file(text, tmp_path / "out.npz", tokenized=True, layers=layers)
    expected = [v[None] for v in elmo.encode_tokens(SENTENCES, layers=layers)]
    close(list(read_vectors(tmp_path / "out.npz")), expected)


@pytest.mark.parametrize("state", ["carry", "settled"])
def test_states_boundaries_and_lengths_reach_the_file(elmo, text, tmp_path, state):
    out = tmp_path / "out.parquet"
    settings = {"state": state, "boundaries": True, "normalise": True}
    elmo.encode_file(text, out, tokenized=True, **settings)
    tokens, vectors = zip(*read_sentences(out), strict=True)
    close(vectors, elmo.encode_layers(SENTENCES, **settings))
    assert list(tokens) == [["<S>", *s, "</S>"] for s in SENTENCES]


def test_raw_and_compressed_text_is_read(elmo, tmp_path):
    with gzip.open(tmp_path / "in.gz", "wt") as file:
        file.write("Don't stop.\nWhy?")
    with lzma.open(tmp_path / "in.xz", "wt") as file:
        file.write("Don't stop.\r\nWhy?\r\n")
    for name in ("in.gz", "in.xz"):
        elmo.encode_file(tmp_path / name, tmp_path / "out.npz", force=True)
        close(list(read_vectors(tmp_path / "out.npz")), elmo.encode_layers(["Don't stop.", "Why?"]))


def test_an_empty_file_makes_an_empty_file(elmo, tmp_path):
    (tmp_path / "in.txt").touch()
    for suffix in (".hdf5", ".npz", ".parquet"):
        written = elmo.encode_file(tmp_path / "in.txt", tmp_path / f"out{suffix}")
        assert written == (0, 0, 0)
        assert list(read_vectors(tmp_path / f"out{suffix}")) == []


@pytest.mark.parametrize("state", ["zero", "carry", "settled"])
@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet"])
def test_an_interrupted_run_goes_on_where_it_was(elmo, tmp_path, state, suffix):
    lines = [" ".join(WORDS[: i % 7]) for i in range(40)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    settings = {"tokenized": True, "state": state, "batch_tokens": 10}
    done = 0

    def stop(n):
        nonlocal done
        done += n
        if done >= 20:
            raise KeyboardInterrupt

    out = tmp_path / f"out{suffix}"
    with pytest.raises(KeyboardInterrupt):
        elmo.encode_file(tmp_path / "in.txt", out, **settings, progress=stop)
    assert not out.exists()
    with pytest.raises(FileExistsError, match="--resume"):
        elmo.encode_file(tmp_path / "in.txt", out, **settings)
    with pytest.raises(ValueError, match="cannot resume"):
        elmo.encode_file(tmp_path / "in.txt", out, **{**settings, "normalise": True}, resume=True)
    with pytest.raises(ValueError, match="cannot resume"):
        Elmo(random_bilm(seed=1)).encode_file(tmp_path / "in.txt", out, **settings, resume=True)
    written = elmo.encode_file(tmp_path / "in.txt", out, **settings, resume=True)
    sentences = [line.split() for line in lines]
    assert written == (40, sum(map(len, sentences)), sum(not s for s in sentences))
    close(list(read_vectors(out)), elmo.encode_layers(sentences, state=state))


def test_an_unfinished_output_does_not_go_on_with_another_text(elmo, text, tmp_path):
    def stop(_):
        raise KeyboardInterrupt

    out = tmp_path / "out.npz"
    with pytest.raises(KeyboardInterrupt):
        elmo.encode_file(text, out, tokenized=True, progress=stop)
    before = text.read_text("utf-8")
    text.write_text(before.replace("naïve", "native"), encoding="utf-8")
    with pytest.raises(ValueError, match="cannot resume"):
        elmo.encode_file(text, out, tokenized=True, resume=True)
    text.write_text(before, encoding="utf-8")
    with pytest.raises(ValueError, match="cannot resume"):
        Elmo(elmo.bilm, int8=True).encode_file(text, out, tokenized=True, resume=True)
    # Another budget is no other setting: it changes no vector.
    elmo.encode_file(text, out, tokenized=True, resume=True, batch_tokens=3)
    close(list(read_vectors(out)), elmo.encode_layers(SENTENCES))


def test_what_is_refused_before_the_first_line_leaves_nothing_behind(elmo, text, tmp_path):
    for wrong in ({"errors": "ignore"}, {"batch_tokens": 0}, {"state": "warm"}, {"layers": "al"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
            elmo.encode_file(text, tmp_path / "out.npz", **wrong)
        assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_an_existing_output_is_kept_unless_forced(elmo, text, tmp_path):
    out = tmp_path / "out.npz"
    elmo.encode_file(text, out, tokenized=True, layers=0)
    before = out.read_bytes()
    with pytest.raises(FileExistsError, match="--force"):
        elmo.encode_file(text, out, tokenized=True)
    assert out.read_bytes() == before
    elmo.encode_file(text, out, tokenized=True, force=True)
    assert next(iter(read_vectors(out))).shape[0] == N_LAYERS


def test_bad_bytes_name_their_line_and_lose_nothing(elmo, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"fine\nb\xe4d\n")
    out = tmp_path / "out.npz"
    with pytest.raises(ValueError, match="line 2: is not valid UTF-8"):
        elmo.encode_file(tmp_path / "in.txt", out, tokenized=True)
    assert not out.exists()
    elmo.encode_file(tmp_path / "in.txt", out, tokenized=True, errors="replace", force=True)
    close(list(read_vectors(out)), elmo.encode_layers([["fine"], ["b\ufffdd"]]))


@pytest.mark.parametrize(
    ("input", "output", "error", "said"),
    [
        ("no.txt", "out.npz", FileNotFoundError, "no.txt does not exist"),
        (".", "out.npz", IsADirectoryError, "is a folder, but a text file"),
        ("in.txt", "out.txt", ValueError, "names no format"),
        ("in.txt", "no/out.npz", FileNotFoundError, "does not exist; create it first"),
    ],
)
def test_files_that_cannot_be_are_refused(elmo, text, tmp_path, input, output, error, said):
    with pytest.raises(error, match=re.escape(said)):
        elmo.encode_file(tmp_path / input, tmp_path / output)


def test_a_disk_that_is_too_small_is_noticed_first(elmo, text, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(OSError, match="make room"):
        elmo.encode_file(text, tmp_path / "out.npz")


# ---- inside another model -----------------------------------------------------------------------


def test_a_batch_is_padded_masked_and_without_boundaries(elmo):
    output = elmo(SENTENCES)
    assert output.mask.tolist() == [[j < len(s) for j in range(7)] for s in SENTENCES]
    for i, vectors in enumerate(elmo.encode_tokens(SENTENCES)):
        mixed = output.mixes[0][i].detach().numpy()
        np.testing.assert_allclose(mixed[: len(vectors)], vectors, atol=1e-5)
        assert not mixed[len(vectors) :].any()
    from_ids = elmo(torch.from_numpy(batch_char_ids(SENTENCES)))
    torch.testing.assert_close(from_ids.mixes[0], output.mixes[0], atol=1e-5, rtol=0)
    kept = Elmo(elmo.bilm, boundaries=True)(SENTENCES)
    assert kept.mixes[0].shape == (5, 9, DIM) and kept.mask[1].sum() == 2


def test_mixes_learn_and_a_frozen_bilm_does_not():
    elmo = Elmo(random_bilm(), n_mixes=2, dropout=0.0, l2=0.5).train()
    output = elmo(SENTENCES)
    loss = output.mixes[0].sum() + output.mixes[1].square().sum() + elmo.penalty()
    loss.backward()
    for mix in elmo.mixes:
        assert mix.gamma.grad.abs() > 0 and mix.weights.grad.abs().sum() > 0
    assert all(p.grad is None for p in elmo.bilm.parameters())
    assert not elmo.bilm.training
    assert elmo.penalty().item() == pytest.approx(0.0)  # w starts at zero


def test_fine_tuning_reaches_every_weight_and_drops_out():
    elmo = Elmo(random_bilm(scale=1.0), fine_tune=True, dropout=0.0).train()
    assert elmo.bilm.training
    elmo(SENTENCES).mixes[0].square().sum().backward()
    for name, parameter in elmo.bilm.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    first, second = (elmo(SENTENCES).mixes[0] for _ in range(2))
    assert not torch.equal(first, second)
    elmo.eval()
    first, second = (elmo(SENTENCES).mixes[0] for _ in range(2))
    assert torch.equal(first, second)


def test_a_frozen_bilm_computes_each_token_once_within_a_model_that_learns(monkeypatch):
    elmo = Elmo(random_bilm(), dropout=0.0).train()
    first = elmo(SENTENCES).mixes[0]
    monkeypatch.setattr(elmo._reader.token_vectors, "_compute", lambda tokens: pytest.fail("again"))
    torch.testing.assert_close(elmo(SENTENCES).mixes[0], first)


@pytest.mark.parametrize("fused", [False, True])
def test_vectors_follow_the_weights_that_a_step_changed(fused):
    elmo = Elmo(random_bilm(), fine_tune=True, dropout=0.0).train()
    before = elmo.encode_layers(SENTENCES)
    optimiser = torch.optim.AdamW(elmo.parameters(), 0.01, fused=fused)
    elmo(SENTENCES).mixes[0].square().sum().backward()
    optimiser.step()
    after = elmo.encode_layers(SENTENCES)
    assert np.abs(after[0] - before[0]).max() > 1e-3
    with torch.no_grad():
        elmo.eval()
        close(after, [by_hand(elmo, s)[0] for s in SENTENCES])


@pytest.mark.parametrize("fine_tune", [False, True])
def test_a_state_is_passed_in_and_given_back(elmo, fine_tune):
    module = Elmo(random_bilm(), fine_tune=fine_tune)
    state, mixed = None, []
    for sentence in SENTENCES:
        output = module([sentence], state)
        state = output.state
        mixed.append(output.mixes[0][0].detach().numpy())
    close(mixed, elmo.encode_tokens(SENTENCES, state="carry"))


@pytest.mark.parametrize("fine_tune", [False, True])
def test_a_model_in_double_precision_computes_in_it(elmo, fine_tune):
    double = Elmo(random_bilm(), fine_tune=fine_tune, n_mixes=2).double()
    output = double(SENTENCES)
    assert {mix.dtype for mix in output.mixes} == {torch.float64}
    sum(mix.sum() for mix in output.mixes).backward()
    assert double.mixes[1].weights.grad.dtype == torch.float64
    torch.testing.assert_close(output.mixes[0].float(), elmo(SENTENCES).mixes[0], atol=1e-5, rtol=0)
    close(double.encode_tokens(SENTENCES), elmo.encode_tokens(SENTENCES))


@pytest.mark.parametrize("sentences", [[], [[]], [[], []]], ids=["none", "one", "two"])
@pytest.mark.parametrize("fine_tune", [False, True])
def test_a_batch_without_tokens_has_a_shape(sentences, fine_tune):
    output = Elmo(random_bilm(), fine_tune=fine_tune).train()(sentences)
    assert output.mixes[0].shape == (len(sentences), 0, DIM)
    assert output.mask.shape == (len(sentences), 0)


def test_several_mixes_come_back_bit_for_bit_with_what_else_belongs_to_them(tmp_path):
    mixes = [
        ScalarMix(3, weights=[0.1, -2.0, 0.7], gamma=1.7, layer_norm=True, l2=0.5),
        ScalarMix(3, weights=[1e-8, 3.0, -0.3], gamma=-0.1, l2=0.5),
    ]
    elmo = Elmo(random_bilm(), mixes=mixes)
    elmo.save_pretrained(tmp_path)
    again = Elmo.from_pretrained(tmp_path, l2=0.5)
    for ours, stored in zip(again(SENTENCES).mixes, elmo(SENTENCES).mixes, strict=True):
        assert torch.equal(ours, stored)
    assert [mix.layer_norm for mix in again.mixes] == [True, False]
    # λ is a setting of the training that asks for it, whoever made the mixes.
    assert torch.equal(again.penalty(), elmo.penalty())


def test_a_setting_that_stored_mixes_contradict_is_not_skipped_in_silence(tmp_path):
    Elmo(random_bilm()).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="layer_norm"):
        Elmo.from_pretrained(tmp_path, layer_norm=True)
    assert Elmo.from_pretrained(tmp_path, layer_norm=True, n_mixes=1).mixes[0].layer_norm


def test_dropout_of_the_mixes_acts_in_training_alone(elmo):
    dropping = Elmo(elmo.bilm, dropout=0.5)
    assert torch.equal(dropping(SENTENCES).mixes[0], dropping(SENTENCES).mixes[0])
    dropping.train()
    mixed, kept = dropping(SENTENCES).mixes[0], elmo(SENTENCES).mixes[0]
    survived = mixed != 0
    assert 0.2 < survived[kept != 0].float().mean() < 0.8
    torch.testing.assert_close(mixed[survived], 2 * kept[survived], atol=1e-5, rtol=0)


def test_layer_norm_is_over_the_batch_with_its_boundaries(elmo):
    mix = ScalarMix(3, layer_norm=True)
    layers = elmo.bilm(torch.from_numpy(batch_char_ids(SENTENCES)))
    expected = mix(layers.layers, layers.mask)[:, 1:-1]
    output = Elmo(elmo.bilm, mixes=[mix])(SENTENCES)
    torch.testing.assert_close(
        output.mixes[0][output.mask], expected[output.mask], atol=1e-5, rtol=0
    )


def test_a_model_around_it_learns_and_can_be_copied_and_stored(tmp_path):
    torch.manual_seed(0)

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.elmo = Elmo(random_bilm(), dropout=0.1)
            self.out = nn.Linear(DIM, 2)

        def forward(self, sentences):
            output = self.elmo(sentences)
            return self.out(output.mixes[0])[output.mask]

    tagger = Tagger().train()
    sentences = [["a", "The", "a"], ["The"], ["3.5", "a"]]
    labels = torch.tensor([0, 1, 0, 1, 1, 0])
    optimiser = torch.optim.Adam([p for p in tagger.parameters() if p.requires_grad], 0.05)
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(tagger(sentences), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
    tagger.eval()
    other = Tagger().eval()
    other.load_state_dict(tagger.state_dict())
    assert torch.equal(other(sentences), tagger(sentences))
    assert torch.equal(copy.deepcopy(tagger)(sentences), tagger(sentences))
    tagger.elmo.save_pretrained(tmp_path)
    again = Elmo.from_pretrained(tmp_path)
    assert torch.equal(again.mixes[0].weights, tagger.elmo.mixes[0].weights)
    close(again.encode_tokens(sentences), tagger.elmo.encode_tokens(sentences))
    assert len(Elmo.from_pretrained(tmp_path, n_mixes=3).mixes) == 3


def test_a_string_instead_of_tokens_is_refused_in_a_batch_too(elmo):
    with pytest.raises(TypeError, match=re.escape("pass sentences[0].split()")):
        elmo(["not tokenized"])


def test_settings_of_the_module_are_checked():
    with pytest.raises(ValueError, match="n_mixes is 0"):
        Elmo(random_bilm(), n_mixes=0)
    with pytest.raises(ValueError, match=r"dropout is 1.0"):
        Elmo(random_bilm(), dropout=1.0)


# ---- memory -------------------------------------------------------------------------------------

PEAK = """
import json, resource, sys, torch
torch.set_num_threads(1)
from elmo import Elmo
elmo = Elmo.from_pretrained(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
elmo.encode_file(sys.argv[2], sys.argv[3], tokenized=True)
print(json.dumps([before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def peak_mib(tmp_path, name, line, n_lines, suffix):
    import subprocess
    import sys

    save_folder(Checkpoint(random_bilm()), tmp_path / "model")
    text = tmp_path / f"{name}.txt"
    text.write_text(f"{line}\n" * n_lines)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "model"), str(text)]
    done = subprocess.run(
        [*command, str(tmp_path / f"{name}{suffix}")], capture_output=True, text=True, check=True
    )
    before, peak = json.loads(done.stdout)
    return (peak - before) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".hdf5"])
def test_memory_does_not_grow_with_the_number_of_lines(tmp_path, suffix):
    few, many = (peak_mib(tmp_path, f"n{n}", "a few words", n, suffix) for n in (20_000, 200_000))
    assert many < few + 60


@pytest.mark.slow
def test_a_line_of_a_hundred_thousand_tokens_takes_a_few_times_its_vectors(tmp_path):
    # 100,000 tokens × 3 layers × 12 numbers × 4 bytes: 14 MiB. The gates of a stretch take 64 MiB.
    assert peak_mib(tmp_path, "long", "word " * 100_000, 1, ".hdf5") < 400
