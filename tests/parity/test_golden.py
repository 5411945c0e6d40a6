"""Our numbers against the originals', for every array in the golden files (see their README).

`relu-2highway-clipping` is chaotic: random weights so large that rounding errors grow from step to
step, until float32 and float64 runs of one program differ by 6.0. There the tolerance is 1e-5 plus
what one unit in the last place of the token vectors does to our own numbers in float64, see
`docs/decisions/0001-agreement-with-the-originals.md`.
"""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo import Elmo, ScalarMix, Vocabulary, batch_char_ids
from elmo.checkpoints.official import _views, load_official, load_official_folder
from elmo.model.softmax import Softmax
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import perplexity
from elmo.pretrain.windows import Window

pytestmark = pytest.mark.parity
TOLERANCE = 1e-5


@pytest.fixture(scope="session")
def golden(shared) -> Path:
    return shared / "golden"


def sentences_of(folder):
    return json.loads((folder / "sentences.json").read_text(encoding="utf-8"))


def two_passes(bilm, char_ids):
    first = bilm(char_ids)
    return first, bilm(char_ids, first.state)


@pytest.mark.parametrize("learning", [False, True], ids=["packed", "definition"])
def test_both_passes_mixes_and_masks_are_those_of_allennlp(golden, learning):
    folder = golden / "relu-1highway"
    bilm = load_official_folder(folder).requires_grad_(learning)
    sentences, expected = sentences_of(folder), np.load(folder / "expected.npz")
    without = batch_char_ids(sentences, boundaries=False)
    np.testing.assert_array_equal(without, expected["character_ids"])
    mask = expected["mask"].astype(bool)
    passes = two_passes(bilm, torch.from_numpy(batch_char_ids(sentences)))
    for output, name in zip(passes, ("first", "second"), strict=True):
        np.testing.assert_array_equal(output.mask, mask)
        assert len(output.layers) == sum(key.startswith(f"{name}_layer") for key in expected)
        for k, layer in enumerate(output.layers.detach().numpy()):
            difference = np.abs(layer - expected[f"{name}_layer{k}"])[mask].max()
            assert difference <= TOLERANCE, (name, k, difference)
    check_mixes(passes[0], expected, 0.0)


def check_mixes(output, expected, sensitivity):
    layers, mask = output.layers.detach().float(), output.mask
    real = expected["mix_mask"].astype(bool)
    np.testing.assert_array_equal(mask[:, 2:], real)
    mixes = {"mix_plain": ScalarMix(3, weights=[0.5 * j - 0.4 for j in range(3)], gamma=0.7)}
    for k in (0, 1):
        mixes[f"mix_layernorm_{k}"] = ScalarMix(
            3, weights=[0.3 * j - 0.2 * k for j in range(3)], gamma=1.5 - k, layer_norm=True
        )
    for name, mix in mixes.items():
        mixed = mix(layers, mask)[:, 1:-1].detach().numpy()
        difference = np.abs(mixed - expected[name])[real].max()
        assert difference <= TOLERANCE + sensitivity, (name, difference)


def test_the_mixes_inside_elmo_are_those_of_allennlp(golden):
    folder = golden / "relu-1highway"
    expected = np.load(folder / "expected.npz")
    mixes = [
        ScalarMix(3, weights=[0.3 * j - 0.2 * k for j in range(3)], gamma=1.5 - k, layer_norm=True)
        for k in (0, 1)
    ]
    elmo = Elmo(load_official_folder(folder), mixes=mixes)
    output = elmo(sentences_of(folder))
    mask = expected["mix_mask"].astype(bool)
    np.testing.assert_array_equal(output.mask, mask)
    for k, mixed in enumerate(output.mixes):
        np.testing.assert_allclose(
            mixed.detach()[mask], expected[f"mix_layernorm_{k}"][mask], atol=TOLERANCE, rtol=0
        )


def test_where_rounding_grows_we_are_as_near_as_rounding_lets_us(golden):
    folder = golden / "relu-2highway-clipping"
    bilm = load_official_folder(folder).requires_grad_(False)
    expected = np.load(folder / "expected.npz")
    char_ids = torch.from_numpy(batch_char_ids(sentences_of(folder)))
    mask = expected["mask"].astype(bool)
    passes = two_passes(bilm, char_ids)
    sensitive = sensitivity_of(bilm, char_ids)
    n_plain = n_all = 0
    for output, name, moved in zip(passes, ("first", "second"), sensitive, strict=True):
        np.testing.assert_array_equal(output.mask, mask)
        for k, layer in enumerate(output.layers.numpy()):
            difference = np.abs(layer - expected[f"{name}_layer{k}"]).max(axis=-1)
            # Once two runs of ours have nothing in common any more, no number is left to compare.
            lost = moved[k] > 0.1
            allowed = np.where(lost, np.inf, TOLERANCE + 5 * moved[k])
            assert (difference <= allowed)[mask].all(), (name, k)
            n_plain += (difference <= TOLERANCE)[mask].sum()
            n_all += mask.sum()
            assert k == 2 or not lost[mask].any()
    assert np.abs(passes[0].layers[1].numpy()).max() <= 3.0  # the projection's clip is at work
    # All of layer 0, half of layer 1 in the first pass, less later.
    assert n_plain / n_all > 0.4


def sensitivity_of(bilm, char_ids):
    """How far each token's layers move, in float64, when token vectors move by a rounding."""
    exact = [output.layers for output in two_passes_of(bilm, char_ids, None)]
    moved = [torch.zeros(layers.shape[:-1]) for layers in exact]
    for seed in range(4):
        noisy = two_passes_of(bilm, char_ids, torch.Generator().manual_seed(seed))
        for i, output in enumerate(noisy):
            moved[i] = torch.maximum(moved[i], (output.layers - exact[i]).abs().amax(-1))
    bilm.float()
    return [part.numpy() for part in moved]


def two_passes_of(bilm, char_ids, generator):
    bilm.double()
    mask = (char_ids > 0).any(-1)
    tokens = bilm.char_cnn(char_ids.flatten(0, 1)).unflatten(0, mask.shape)
    state = None
    for _ in range(2):
        # Every value that a layer reads is rounded once or more: here to within one unit.
        moved = tokens
        if generator is not None:
            noise = torch.rand(tokens.shape, generator=generator, dtype=torch.float64) * 2 - 1
            moved = tokens * (1 + noise * torch.finfo(torch.float32).eps)
        output = bilm.read(moved, mask, state)
        state = output.state
        yield output


def test_batches_with_carried_state_are_those_of_bilm_tf(golden):
    folder = golden / "bilm-tf-fixture"
    bilm = load_official(folder / "options.json", folder / "lm_weights.hdf5").requires_grad_(False)
    lists = json.loads((folder / "lm_embeddings_sentences.json").read_text(encoding="utf-8"))
    state = None
    n_compared = 0
    for i, together in enumerate(zip(*lists, strict=True)):
        sentences = [text.split() for text in together]
        output = bilm(torch.from_numpy(batch_char_ids(sentences)), state)
        state = output.state
        for k, sentence in enumerate(sentences):
            with h5py.File(folder / f"lm_embeddings_{k}.hdf5") as file:
                # The fixture holds the top layer: forward, then backward.
                expected = np.concatenate(list(file[str(i)][...]), axis=-1)
            ours = output.layers[-1, k, 1 : len(sentence) + 1].numpy()
            np.testing.assert_allclose(ours, expected, atol=TOLERANCE, rtol=0)
            n_compared += 1
    assert n_compared == sum(map(len, lists))


def test_trained_weights_give_the_vectors_of_bilm_tf(golden):
    folder = golden / "trained-by-bilm-tf"
    bilm = load_official_folder(folder).requires_grad_(False)
    sentences, expected = sentences_of(folder), np.load(folder / "inference.npz")
    char_ids = torch.from_numpy(batch_char_ids(sentences))
    mask = expected["mask"].astype(bool)
    for output, name in zip(two_passes(bilm, char_ids), ("first", "second"), strict=True):
        ours = output.layers[:, :, 1:-1].numpy().transpose(1, 0, 2, 3)
        wanted = expected[name]
        for i in range(len(sentences)):
            np.testing.assert_allclose(
                ours[i][:, mask[i]], wanted[i][:, mask[i]], atol=TOLERANCE, rtol=0
            )


@pytest.fixture
def language_model(golden):
    folder = golden / "trained-by-bilm-tf"
    bilm = load_official_folder(folder)
    bilm.config = type(bilm.config)(bilm.config.char_cnn, bilm.config.lstm, dropout=0.0)
    stored = np.load(folder / "softmax.npz")
    softmax = Softmax(*stored["W"].shape)
    softmax.load_state_dict(
        {"weight": torch.from_numpy(stored["W"]), "bias": torch.from_numpy(stored["b"])}
    )
    return LanguageModel(bilm, softmax)


def test_losses_and_all_gradients_are_those_of_bilm_tf(golden, language_model, monkeypatch):
    model, bilm = language_model.train(), language_model.bilm
    batch = np.load(golden / "trained-by-bilm-tf" / "batch.npz")
    # Training ids are 0 to 260, without an id for "no token"; ours are one more.
    ids = np.stack([batch["tokens_characters"], batch["tokens_characters_reverse"]]) + 1
    distinct, where = np.unique(ids.reshape(-1, ids.shape[-1]), axis=0, return_inverse=True)

    def token_vectors(inputs, types, dtype):
        vectors = bilm.char_cnn(torch.from_numpy(distinct.astype(np.int64)))
        return torch.nn.functional.embedding(torch.from_numpy(inputs), vectors)

    monkeypatch.setattr(model, "token_vectors", token_vectors)
    by_steps = (0, 2, 1)
    targets = np.stack([batch["next_token_id"], batch["next_token_id_reverse"]])
    window = Window(
        np.ascontiguousarray(where.reshape(ids.shape[:3]).transpose(by_steps)),
        targets.transpose(by_steps).astype(np.int64),
        np.zeros((2, targets.shape[2], targets.shape[1]), dtype=bool),
    )
    losses = model(window, [], model.zero_state(targets.shape[1]))
    assert losses.forward_lm.item() == pytest.approx(batch["loss_forward"].item(), abs=TOLERANCE)
    assert losses.backward_lm.item() == pytest.approx(batch["loss_backward"].item(), abs=TOLERANCE)
    assert losses.total.item() == pytest.approx(batch["loss_total"].item(), abs=TOLERANCE)
    losses.total.backward()
    gradients = {
        "softmax/W": model.softmax.weight.grad.numpy(),
        "softmax/b": model.softmax.bias.grad.numpy(),
    }
    for parameter in bilm.parameters():
        parameter.data = parameter.grad  # the export's names and layout, for gradients
    for name, parts in _views(bilm):
        gradients[name_in_training(name)] = torch.cat(parts).numpy()
    expected = {key[len("grad/") :] for key in batch if key.startswith("grad/")}
    assert set(gradients) == expected
    for name, ours in gradients.items():
        theirs = batch[f"grad/{name}"]
        relative = np.abs(ours - theirs).max() / np.abs(theirs).max()
        assert relative <= TOLERANCE, (name, relative)


def name_in_training(name):
    """A weight's name in the released file → TensorFlow's while training."""
    name = re.sub(
        r"^(RNN_\d)/RNN/MultiRNNCell/Cell(\d)/LSTMCell/",
        r"\1/rnn/multi_rnn_cell/cell_\2/lstm_cell/",
        name,
    )
    for old, new in (("W_P_0", "projection/kernel"), ("W_0", "kernel"), ("/B", "/bias")):
        if name.endswith(old) and "lstm_cell" in name:
            return name[: -len(old)] + new
    return name


def test_perplexity_with_carried_state_is_that_of_bilm_tf(golden, language_model):
    folder = golden / "trained-by-bilm-tf"
    wanted = json.loads((folder / "expected.json").read_text())[
        "average_perplexity_batch1_stateful"
    ]
    lines = (folder / "heldout.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = Vocabulary.read(folder / "vocab.txt")
    sentences = [line.split() for line in lines]
    measured = perplexity(language_model.eval(), vocabulary, sentences, state="carry")
    assert measured.average == pytest.approx(wanted, rel=1e-3)
    assert perplexity(language_model, vocabulary, sentences).average != pytest.approx(
        wanted, rel=1e-3
    )
