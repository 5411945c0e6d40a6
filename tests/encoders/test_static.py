import gzip
import logging
import lzma
import pickle
import re
import struct
import sys

import numpy as np
import pytest

from elmo.encoders.ngrams import Ngrams
from elmo.encoders.static import StaticEncoder
from elmo.encoders.static_training import StaticTrainingConfig, train_static

WORDS = ["the", "cat", "Ein", ". . .", "straße"]
VECTORS = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
TEXT = [f"{w} {' '.join(map(repr, v.tolist()))}" for w, v in zip(WORDS, VECTORS, strict=True)]
CORPUS = [["the", "cat", "sat", "on", "the", "mat"], ["a", "dog", "sat", "on", "cats"]] * 30


def write(path, lines, end="\n"):
    path.write_text("".join(f"{line}{end}" for line in lines), encoding="utf-8", newline="")
    return path


# ---- looking up ---------------------------------------------------------------------------------


def test_a_word_is_looked_up_as_it_is_then_in_lower_case_then_it_is_zero():
    encoder = StaticEncoder(WORDS, VECTORS)
    sentence = ["The", "cat", "Ein", "ein", "STRASSE", "Straße"]
    (layers,) = encoder.encode_layers([sentence])
    assert layers.shape == (1, 6, 3) and layers.dtype == np.float32
    zero = np.zeros(3)
    expected = [VECTORS[0], VECTORS[1], VECTORS[2], zero, zero, VECTORS[4]]
    np.testing.assert_array_equal(layers[0], expected)
    assert encoder.coverage([sentence, []]) == pytest.approx(4 / 6)
    assert encoder.encode_layers([[]])[0].shape == (1, 0, 3)
    assert (encoder.n_layers, encoder.dim) == (1, 3)


def test_of_equal_words_the_first_counts():
    encoder = StaticEncoder(["a", "a"], VECTORS[:2])
    np.testing.assert_array_equal(encoder.encode_layers([["a"]])[0][0, 0], VECTORS[0])


def test_the_identity_is_of_words_and_vectors():
    identity = StaticEncoder(WORDS, VECTORS, name="x").identity
    assert StaticEncoder(WORDS, VECTORS.copy(), name="y").identity == identity
    assert StaticEncoder(WORDS[::-1], VECTORS).identity != identity
    assert StaticEncoder(WORDS, VECTORS + 1).identity != identity
    ngrams = Ngrams(VECTORS, 2, 3)
    assert StaticEncoder(WORDS, VECTORS, ngrams).identity != identity


def test_static_vectors_do_not_learn():
    with pytest.raises(ValueError, match="static cannot be fine-tuned"):
        StaticEncoder(WORDS, VECTORS).trainable()


# ---- text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [[], ["5 3"]], ids=["GloVe", "word2vec"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_text_is_read_as_glove_and_word2vec_write_it(tmp_path, header, end):
    encoder = StaticEncoder.open(write(tmp_path / "v.txt", [*header, *TEXT], end))
    assert encoder.words == WORDS and encoder.name == f"static:{tmp_path / 'v.txt'}"
    np.testing.assert_array_equal(encoder.vectors, VECTORS)


def test_text_may_be_compressed_or_divided_by_tabs(tmp_path):
    with gzip.open(tmp_path / "v.txt.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in TEXT)
    assert StaticEncoder.open(tmp_path / "v.txt.gz").words == WORDS
    tabs = [line.replace(" ", "\t") for line in TEXT[:3]]
    np.testing.assert_array_equal(
        StaticEncoder.open(write(tmp_path / "t", tabs)).vectors, VECTORS[:3]
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([TEXT[0], "cat 0.5 x 0.5"], "line 2: 1 numbers behind 'cat', but 3 were expected"),
        ([TEXT[0], "cat 0.5 0.5"], "line 2: 2 numbers behind 'cat', but 3 were expected"),
        ([TEXT[0], "cat 1 2 3 4"], "line 2: 4 numbers behind 'cat', but 3 were expected"),
        (["2 3", TEXT[0], "cat 1 2"], "line 3: 2 numbers behind 'cat', but 3 were expected"),
        ([TEXT[0], "", TEXT[1]], "line 2: is empty"),
        ([TEXT[0], "cat 1 2 nan"], "line 2: the vector of 'cat' is not finite"),
        (["word"], "line 1: 'word' is no word with numbers behind it"),
        (["6 3", *TEXT], "says that it has 6 words, but has 5: it may have been cut short"),
        (["0 3"], "has no word vectors"),
    ],
)  # fmt: skip
def test_broken_text_is_refused_with_its_line(tmp_path, lines, said):
    path = write(tmp_path / "v.txt", lines)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}.*{re.escape(said)}") as caught:
        StaticEncoder.open(path)
    assert "\n" not in str(caught.value)


def test_bad_bytes_name_their_line(tmp_path):
    (tmp_path / "v.txt").write_bytes(TEXT[0].encode() + b"\nb\xe4d 1 2 3\n")
    with pytest.raises(ValueError, match="line 2: is not valid UTF-8"):
        StaticEncoder.open(tmp_path / "v.txt")


def test_words_that_stand_there_again_are_told(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "elmo"):
        encoder = StaticEncoder.open(write(tmp_path / "v", [*TEXT, "cat 0 0 0"]))
    assert encoder.words == WORDS and "1 words stand there again" in caplog.text


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.txt does not exist"):
        StaticEncoder.open(tmp_path / "no.txt")
    with pytest.raises(IsADirectoryError, match="is a folder, but a file of word vectors"):
        StaticEncoder.open(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="is empty"):
        StaticEncoder.open(tmp_path / "empty")
    (tmp_path / "x.gz").write_bytes(b"not gzip")
    with pytest.raises(ValueError, match="damaged or not of the kind its name says"):
        StaticEncoder.open(tmp_path / "x.gz")


# ---- gensim's and FastText's forms --------------------------------------------------------------


@pytest.fixture(scope="module")
def word2vec():
    from gensim.models import Word2Vec

    return Word2Vec(CORPUS, vector_size=4, min_count=1, workers=1, epochs=2)


@pytest.fixture(scope="module")
def fasttext():
    from gensim.models import FastText

    return FastText(CORPUS, vector_size=4, min_count=1, workers=1, epochs=2, bucket=50)


@pytest.mark.parametrize("suffix", [".bin", ".bin.gz", ".txt"])
def test_word2vec_reads_as_gensim_wrote_it(tmp_path, word2vec, suffix):
    path = tmp_path / f"v{suffix}"
    word2vec.wv.save_word2vec_format(str(path), binary=".bin" in suffix)
    encoder = StaticEncoder.open(path)
    assert encoder.words == word2vec.wv.index_to_key
    np.testing.assert_allclose(encoder.vectors, word2vec.wv.vectors, atol=1e-6)


def test_fasttext_gives_unknown_words_the_vectors_that_gensim_does(tmp_path, fasttext):
    from gensim.models.fasttext import save_facebook_model

    save_facebook_model(fasttext, str(tmp_path / "v.bin"))
    fasttext.wv.save(str(tmp_path / "v.kv"))
    fasttext.save(str(tmp_path / "v.model"))
    sentence = ["cat", "catsat", "Ünbekannt", "the"]
    for file in ("v.bin", "v.kv", "v.model"):
        encoder = StaticEncoder.open(tmp_path / file)
        (layers,) = encoder.encode_layers([sentence])
        expected = [fasttext.wv.get_vector(word) for word in sentence]
        np.testing.assert_allclose(layers[0], expected, atol=1e-6, err_msg=file)


@pytest.mark.parametrize("limit", [10**9, 1], ids=["in one file", "arrays beside"])
def test_what_gensim_saved_is_read_without_gensim(tmp_path, word2vec, monkeypatch, limit):
    word2vec.wv.save(str(tmp_path / "v.kv"), sep_limit=limit)
    word2vec.save(str(tmp_path / "v.model"), sep_limit=limit)
    for name in [name for name in sys.modules if name.partition(".")[0] == "gensim"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gensim", None)
    for file in ("v.kv", "v.model"):
        encoder = StaticEncoder.open(tmp_path / file)
        assert encoder.words == word2vec.wv.index_to_key
        np.testing.assert_array_equal(encoder.vectors, word2vec.wv.vectors)
    if limit == 1:
        (tmp_path / "v.kv.vectors.npy").unlink()
        with pytest.raises(FileNotFoundError, match=r"v\.kv\.vectors\.npy, which does not exist"):
            StaticEncoder.open(tmp_path / "v.kv")


class Evil:
    def __reduce__(self):
        return (print, ("run",))


def test_no_code_in_a_pickle_is_run(tmp_path, capsys):
    for stored in (Evil(), {"x": [Evil()]}, ["nothing evil"]):
        (tmp_path / "v.kv").write_bytes(pickle.dumps(stored, protocol=4))
        with pytest.raises(ValueError, match=r"v\.kv.*save_word2vec_format"):
            StaticEncoder.open(tmp_path / "v.kv")
    (tmp_path / "v.kv").write_bytes(b"\x80\x04cut")
    with pytest.raises(ValueError, match="cannot be read as a file of gensim"):
        StaticEncoder.open(tmp_path / "v.kv")
    assert capsys.readouterr().out == ""


def test_what_has_to_be_decompressed_first_says_so(tmp_path, word2vec, fasttext):
    from gensim.models.fasttext import save_facebook_model

    word2vec.wv.save_word2vec_format(str(tmp_path / "w.bin"), binary=True)
    save_facebook_model(fasttext, str(tmp_path / "f.bin"))
    for name, suffix, opened in (("w.bin", ".xz", lzma.open), ("f.bin", ".gz", gzip.open)):
        path = tmp_path / (name + suffix)
        with opened(path, "wb") as file:
            file.write((tmp_path / name).read_bytes())
        with pytest.raises(ValueError, match="decompress it first"):
            StaticEncoder.open(path)


@pytest.mark.parametrize("keep", [9, 60, 0.2, 0.5, 0.95])
def test_files_that_were_cut_short_are_refused(tmp_path, word2vec, fasttext, keep):
    from gensim.models.fasttext import save_facebook_model

    word2vec.wv.save_word2vec_format(str(tmp_path / "w.bin"), binary=True)
    save_facebook_model(fasttext, str(tmp_path / "f.bin"))
    for name in ("w.bin", "f.bin"):
        path = tmp_path / name
        whole = path.read_bytes()
        path.write_bytes(whole[: keep if keep > 1 else int(keep * len(whole))])
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            StaticEncoder.open(path)
        assert "\n" not in str(caught.value)


def test_a_classifier_of_fasttext_is_refused(tmp_path, fasttext):
    from gensim.models.fasttext import save_facebook_model

    path = tmp_path / "f.bin"
    save_facebook_model(fasttext, str(path))
    whole = bytearray(path.read_bytes())
    struct.pack_into("<i", whole, 4 * 9, 3)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="is a classifier of FastText"):
        StaticEncoder.open(path)


def test_a_missing_gensim_names_the_extra(tmp_path, word2vec, fasttext, monkeypatch):
    from gensim.models.fasttext import save_facebook_model

    word2vec.wv.save_word2vec_format(str(tmp_path / "w.bin"), binary=True)
    save_facebook_model(fasttext, str(tmp_path / "f.bin"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "gensim"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gensim", None)
    for file in ("w.bin", "f.bin"):
        with pytest.raises(ImportError, match=r"needs gensim.*pip install 'elmo-torch\[compare\]'"):
            StaticEncoder.open(tmp_path / file)
    with pytest.raises(ImportError, match="training of static vectors needs gensim"):
        train_static(CORPUS, tmp_path / "v.bin")


# ---- training -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "file"),
    [("skip-gram", "v.bin"), ("cbow", "v.txt"), ("fasttext", "v.bin")],
)
def test_vectors_of_ones_own_text_are_written_and_read(tmp_path, method, file):
    config = StaticTrainingConfig(method=method, dim=6, min_count=2, n_epochs=2, n_buckets=40)
    shares = []
    made = train_static(
        CORPUS, tmp_path / file, config, progress=lambda share, text: shares.append((share, text))
    )
    assert (made.n_sentences, made.n_tokens, made.n_words) == (60, 330, 8)
    assert made.n_covered == 330
    assert shares[-1] == (1.0, "pass 2 of 2") and "counting words" in shares[0][1]
    encoder = StaticEncoder.open(tmp_path / file)
    assert sorted(encoder.words) == sorted({w for s in CORPUS for w in s}) and encoder.dim == 6
    (layers,) = encoder.encode_layers([["cat", "unseen"]])
    assert layers[0, 0].any() and layers[0, 1].any() == (method == "fasttext")
    assert sorted(p.name for p in tmp_path.iterdir()) == [file, f"{file}.json"]


@pytest.mark.parametrize("method", ["skip-gram", "fasttext"])
def test_the_same_text_and_seed_give_the_same_vectors(tmp_path, method):
    config = StaticTrainingConfig(method=method, dim=5, min_count=1, n_epochs=2, n_buckets=30)
    for name in ("a.bin", "b.bin"):
        train_static(CORPUS, tmp_path / name, config)
    a, b = (StaticEncoder.open(tmp_path / name) for name in ("a.bin", "b.bin"))
    assert a.identity == b.identity


def test_words_of_one_kind_come_close(tmp_path):
    days = ["monday", "friday"]
    corpus = [["on", day, "we", "work", "late"] for day in days] * 200
    corpus += [["the", animal, "eats", "green", "grass"] for animal in ("cow", "sheep")] * 200
    train_static(
        corpus, tmp_path / "v.bin", StaticTrainingConfig(dim=12, n_epochs=10, subsample=0.0)
    )
    monday, friday, cow = StaticEncoder.open(tmp_path / "v.bin").encode_layers(
        [["monday", "friday", "cow"]]
    )[0][0]

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(monday, friday) > cosine(monday, cow) + 0.2


def test_sentences_longer_than_gensim_reads_are_cut_not_lost(tmp_path):
    corpus = [["a"] * 9_999 + ["end", "end"], ["end"]]
    made = train_static(
        corpus, tmp_path / "v.txt", StaticTrainingConfig(dim=2, min_count=1, n_epochs=1)
    )
    assert (made.n_sentences, made.n_tokens, made.n_covered) == (2, 10_002, 10_002)


@pytest.mark.parametrize(
    ("error", "said", "corpus", "file", "settings"),
    [
        (TypeError, "can be read but once", iter(CORPUS), "v.bin", {}),
        (TypeError, "pass sentences[0].split()", ["not tokenized"], "v.bin", {}),
        (ValueError, "ends in '.npz', but expected .bin or .txt", CORPUS, "v.npz", {}),
        (ValueError, "would lose FastText's n-grams", CORPUS, "v.txt", {"method": "fasttext"}),
        (FileNotFoundError, "no does not exist", CORPUS, "no/v.bin", {}),
        (ValueError, "no word occurs min_count = 99 times in 330", CORPUS, "v.bin",
         {"min_count": 99}),
        (ValueError, "the text has no token", [[]], "v.bin", {}),
    ],
)  # fmt: skip
def test_training_refuses_in_one_line(tmp_path, error, said, corpus, file, settings):
    with pytest.raises(error, match=re.escape(said)) as caught:
        train_static(corpus, tmp_path / file, StaticTrainingConfig(**settings))
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_text_that_breaks_off_while_it_is_trained_on_is_told(tmp_path):
    class Vanishing:
        n_read = 0

        def __iter__(self):
            self.n_read += 1
            yield from CORPUS[:20]
            if self.n_read == 3:
                raise FileNotFoundError("text.txt does not exist")
            yield from CORPUS[20:]

    with pytest.raises(FileNotFoundError, match=r"text\.txt does not exist"):
        train_static(Vanishing(), tmp_path / "v.bin", StaticTrainingConfig(dim=2, n_epochs=3))
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    config = StaticTrainingConfig(dim=2, min_count=1, n_epochs=1)
    (tmp_path / "v.bin").write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="--force"):
        train_static(CORPUS, tmp_path / "v.bin", config)
    train_static(CORPUS, tmp_path / "v.bin", config, force=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "glove"}, {"dim": 0}, {"max_words": 0}, {"min_n": 4, "max_n": 3},
        {"subsample": 1.0}, {"learning_rate": 0.0}, {"n_threads": 0},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} is|max_n is 3"):
        StaticTrainingConfig(**settings)
