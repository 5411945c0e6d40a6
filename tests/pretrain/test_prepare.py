import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo import Vocabulary
from elmo.pretrain import dedup, sources, type_table
from elmo.pretrain import prepare as prepare_module
from elmo.pretrain.corpus import build_corpus
from elmo.pretrain.corpus_config import CorpusConfig
from elmo.pretrain.prepare import open_prepared, prepare
from elmo.text import COMPRESSED, char_ids

RNG = np.random.default_rng(0)
WORDS = [f"{'wéß本'[i % 4]}{i}" for i in range(40)]
SENTENCES = [
    [WORDS[min(39, int(x))] for x in RNG.exponential(8, RNG.integers(1, 7))] for _ in range(300)
]


@pytest.fixture
def small(monkeypatch):
    """Blocks, shards, parts, chunks and merges of a few, so that there are many of each."""
    monkeypatch.setattr(sources, "BLOCK_BYTES", 150)
    monkeypatch.setattr(sources, "BLOCK_ROWS", 7)
    monkeypatch.setattr(prepare_module, "SHARD_TOKENS", 100)
    monkeypatch.setattr(prepare_module, "MERGED_TOGETHER", 3)
    monkeypatch.setattr(dedup, "PART_SENTENCES", 60)
    monkeypatch.setattr(type_table, "CHUNK_TYPES", 4)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # many times as slow, for so many files


def write(path, sentences, end="\n"):
    opened = COMPRESSED.get(path.suffix, open)
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path, "wb") as file:
        file.write("".join(" ".join(s) + end for s in sentences).encode())
    return str(path)


def config(*train, **settings_):
    return CorpusConfig(tuple(map(str, train)), **{"min_count": 1, **settings_})


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_is_the_corpus_that_memory_would_hold(small, tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    heldout = [["new", WORDS[0]], ["<S>", "</S>", "<UNK>"]]
    write(tmp_path / "b.txt", heldout)
    prepared = prepare(
        config(tmp_path / "a.txt", heldout=(str(tmp_path / "b.txt"),), max_words=20, min_count=2),
        tmp_path / "corpus",
    )
    train, expected = prepared.train, build_corpus(SENTENCES, max_words=20, min_count=2)
    assert len(train.shards) > 3
    assert train.vocabulary.words == expected.vocabulary.words
    assert list(train.texts()) == SENTENCES
    assert list(prepared.heldout.texts()) == heldout
    assert train.types[:2] == ["<S>", "</S>"] and train.types[2:] == sorted(train.types[2:])
    assert set(train.types) == {*expected.types, "new", "<UNK>"}
    np.testing.assert_array_equal(train.char_ids, char_ids(train.types))
    assert train.words.tolist() == [train.vocabulary.id(each) for each in train.types]
    counts = prepared.counts
    assert (counts.n_sentences, counts.n_tokens) == (300, expected.n_tokens)
    assert counts.n_unknown == expected.n_unknown == train.n_unknown
    assert (counts.n_heldout_sentences, counts.n_heldout_tokens) == (2, 5)
    assert counts.n_heldout_unknown == prepared.heldout.n_unknown == 2
    assert (counts.n_types, counts.n_words) == (len(train.types), 20)
    assert not (tmp_path / "corpus.partial").exists()


texts = st.lists(
    st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=1),
    min_size=1,
    max_size=20,
)


@given(sentences=texts, max_words=st.none() | st.integers(4, 9), min_count=st.integers(1, 3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_any_text_is_what_memory_would_hold(
    small, tmp_path_factory, sentences, max_words, min_count
):
    folder = tmp_path_factory.mktemp("any")
    write(folder / "a.txt", sentences)
    built = {"max_words": max_words, "min_count": min_count}
    train = prepare(config(folder / "a.txt", **built), folder / "corpus").train
    assert list(train.texts()) == sentences
    assert train.vocabulary.words == build_corpus(sentences, **built).vocabulary.words


def test_the_number_of_processes_and_of_blocks_changes_no_byte_of_any_array(tmp_path, monkeypatch):
    write(tmp_path / "a.txt", SENTENCES[:200])
    write(tmp_path / "b.txt.xz", SENTENCES[150:])
    given = config(tmp_path / "*.*", heldout_share=0.2, deduplicate=True)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 500)
    folders = []
    for n_processes in (1, 2):
        prepare(given, tmp_path / str(n_processes) / "c", n_processes=n_processes)
        folders.append(contents(tmp_path / str(n_processes) / "c"))
    assert folders[0] == folders[1]
    monkeypatch.setattr(sources, "BLOCK_BYTES", 90)
    prepare(given, tmp_path / "other")
    assert folders[0] == contents(tmp_path / "other")


def test_files_folders_patterns_and_every_packing_are_read(small, tmp_path, caplog):
    pytest.importorskip("pyarrow")
    expected = []
    for i, name in enumerate(["a.txt", "b.txt.gz", "sub/c.txt.xz", "sub/d.zst"]):
        write(tmp_path / "text" / name, SENTENCES[10 * i : 10 * i + 10])
        expected += SENTENCES[10 * i : 10 * i + 10]
    (tmp_path / "text" / "README.md").write_text("no text")
    (tmp_path / "text" / ".hidden.txt").write_text("no text")
    train = prepare(config(tmp_path / "text"), tmp_path / "corpus").train
    assert list(train.texts()) == expected
    assert "1 files that are none of text are left out (README.md)" in caplog.text
    train = prepare(config(tmp_path / "text/*.txt*"), tmp_path / "other").train
    assert list(train.texts()) == expected[:20]


def test_windows_line_ends_a_byte_order_mark_and_no_last_newline_are_no_tokens(small, tmp_path):
    text = "one two\r\n\r\nthree\r\nfour"
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    train = prepare(config(tmp_path / "a.txt"), tmp_path / "corpus").train
    assert list(train.texts()) == [["one", "two"], ["three"], ["four"]]


def test_tables_are_read(small, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    lines = [" ".join(s) for s in SENTENCES[:30]]
    plain = pa.table({"id": range(30), "sentence": lines})
    pq.write_table(plain, tmp_path / "a.parquet", row_group_size=11)
    both = pa.table({"title": ["no"] * 31, "text": [*lines, None]})
    pq.write_table(both, tmp_path / "b.parquet")
    tokens = pa.table({"tokens": SENTENCES[:30], "ner_tags": [["O"]] * 30})
    saved = tmp_path / "saved" / "train"  # as `Dataset.save_to_disk` does
    saved.mkdir(parents=True)
    for name, rows in (("data-00001.arrow", slice(20, None)), ("data-00000.arrow", slice(20))):
        part = tokens.slice(rows.start or 0, 20 if rows.start is None else 10)
        with pa.ipc.new_stream(saved / name, tokens.schema) as writer:
            writer.write_table(part, max_chunksize=6)
    (saved / "dataset_info.json").write_text("{}")
    files = [{"filename": f"data-0000{i}.arrow"} for i in range(2)]
    (saved / "state.json").write_text(json.dumps({"_data_files": files}))
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for path, column in (
        (tmp_path / "a.parquet", None),
        (tmp_path / "b.parquet", None),
        (saved, "tokens"),
    ):
        train = prepare(config(path, column=column), tmp_path / f"{path.stem}.corpus").train
        assert list(train.texts()) == SENTENCES[:30]
    with pytest.raises(
        ValueError, match="has 0 columns of strings, so that column has to be given"
    ):
        prepare(config(saved), tmp_path / "c")
    with pytest.raises(ValueError, match=r"holds the splits train, test: name one, as .*saved/tr"):
        prepare(config(tmp_path / "saved"), tmp_path / "c")
    with pytest.raises(ValueError, match=r"no column of text 'body'; its columns are id \(int64\)"):
        prepare(config(tmp_path / "a.parquet", column="body"), tmp_path / "c")
    pq.write_table(pa.table({"n": [1]}), tmp_path / "n.parquet")
    with pytest.raises(ValueError, match=r"n\.parquet has 0 columns of strings.* n \(int64\)"):
        prepare(config(tmp_path / "n.parquet"), tmp_path / "c")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("paragraphs", "He left. Don't wait!\nWhy not?"),
        ("wrapped", "He\nleft. Don't\n  wait!\n \nWhy\nnot?\n\n\n"),
    ],
)
def test_raw_running_text_is_split_into_sentences_and_tokens(small, tmp_path, lines, text):
    (tmp_path / "a.txt").write_text(text + "\n\n" + text)
    given = config(tmp_path / "a.txt", language="en", lines=lines)
    train = prepare(given, tmp_path / "corpus").train
    expected = [["He", "left", "."], ["Do", "n't", "wait", "!"], ["Why", "not", "?"]]
    assert list(train.texts()) == expected * 2
    # Tokenized already: only sentences are looked for.
    given = config(tmp_path / "a.txt", lines=lines)
    (tmp_path / "a.txt").write_text("he left . do n't wait !")
    train = prepare(given, tmp_path / "corpus").train
    assert list(train.texts()) == [["he", "left", "."], ["do", "n't", "wait", "!"]]


def test_raw_sentences_are_split_into_tokens(tmp_path):
    (tmp_path / "a.txt").write_text("He left. Don't wait!\n")
    train = prepare(config(tmp_path / "a.txt", language="en"), tmp_path / "corpus").train
    assert list(train.texts()) == [["He", "left", ".", "Do", "n't", "wait", "!"]]


def test_of_equal_sentences_the_first_is_kept(small, tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    write(tmp_path / "b.txt", SENTENCES[:50])
    prepared = prepare(config(tmp_path / "*.txt", deduplicate=True), tmp_path / "corpus")
    expected = [list(s) for s in dict.fromkeys(map(tuple, SENTENCES))]
    assert list(prepared.train.texts()) == expected
    assert prepared.counts.n_duplicates == 350 - len(expected)
    assert prepared.train.vocabulary.words == build_corpus(expected).vocabulary.words


def test_a_share_is_held_out_by_what_sentences_say(small, tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    write(tmp_path / "b.txt", SENTENCES[::-1])
    sides = []
    for name in ("a", "b"):
        given = config(tmp_path / f"{name}.txt", heldout_share=0.3)
        prepared = prepare(given, tmp_path / f"{name}.corpus")
        both = [Counter(map(tuple, c.texts())) for c in (prepared.train, prepared.heldout)]
        assert not set(both[0]) & set(both[1])
        assert both[0] + both[1] == Counter(map(tuple, SENTENCES))
        sides.append(both)
        assert 50 < prepared.counts.n_heldout_sentences < 130
        assert (
            prepared.train.vocabulary.words
            == build_corpus(list(prepared.train.texts())).vocabulary.words
        )
    assert sides[0] == sides[1]
    other = config(tmp_path / "a.txt", heldout_share=0.3, heldout_seed=2)
    heldout = prepare(other, tmp_path / "a.corpus").heldout
    assert Counter(map(tuple, heldout.texts())) != sides[0][1]


@pytest.mark.parametrize("exclude", [False, True])
def test_held_out_text_in_the_training_text_is_counted(small, tmp_path, caplog, exclude):
    write(tmp_path / "a.txt", [*SENTENCES, ["only", "here"], ["only", "here"]])
    write(tmp_path / "b.txt", [["only", "here"], ["nowhere", "else"]])
    given = config(tmp_path / "a.txt", heldout=(str(tmp_path / "b.txt"),), exclude_heldout=exclude)
    prepared = prepare(given, tmp_path / "corpus")
    assert "1 of 2 held-out sentences also stand in the training text, 2 times" in caplog.text
    assert ("set exclude_heldout" in caplog.text) is not exclude
    assert prepared.counts.n_heldout_in_training == 1
    assert prepared.counts.n_excluded == (2 if exclude else 0)
    assert (["only", "here"] in prepared.train.texts()) is not exclude
    assert list(prepared.heldout.texts()) == [["only", "here"], ["nowhere", "else"]]


def test_what_is_prepared_is_opened_again_until_something_changes(tmp_path, caplog, monkeypatch):
    write(tmp_path / "a.txt", SENTENCES)
    given = config(tmp_path / "a.txt", max_words=20)
    first = prepare(given, tmp_path / "corpus")
    made = (tmp_path / "corpus" / "corpus.json").stat().st_ino
    os.utime(tmp_path / "a.txt")  # touched, but the same
    again = prepare(given, tmp_path / "corpus")
    assert (tmp_path / "corpus" / "corpus.json").stat().st_ino == made
    assert again.counts == first.counts and not caplog.text
    prepare(config(tmp_path / "a.txt", max_words=10), tmp_path / "corpus")
    assert "is prepared again: max_words was 20 and is 10" in caplog.text
    write(tmp_path / "a.txt", [*SENTENCES, ["more"]])
    caplog.clear()
    assert open_prepared(tmp_path / "corpus").counts.n_sentences == 300
    assert f"{tmp_path / 'a.txt'} has changed since" in caplog.text
    changed = prepare(config(tmp_path / "a.txt", max_words=10), tmp_path / "corpus")
    assert changed.counts.n_sentences == 301
    assert "a.txt has changed" in caplog.text
    write(tmp_path / "b.txt", SENTENCES[:1])
    more = config(tmp_path / "a.txt", tmp_path / "b.txt", max_words=10)
    assert prepare(more, tmp_path / "corpus").counts.n_sentences == 302
    assert "it was made of other files" in caplog.text
    prepare(more, tmp_path / "corpus", max_chars=20)
    assert "max_chars was 50 and is 20" in caplog.text
    assert open_prepared(tmp_path / "corpus").train.char_ids.shape[1] == 20


def test_a_given_vocabulary_is_used_and_a_change_of_it_noticed(tmp_path, caplog):
    write(tmp_path / "a.txt", SENTENCES)
    words = ["<UNK>", WORDS[3], "</S>", "<S>", "never"]
    Vocabulary(words).write(tmp_path / "words.txt")
    given = config(tmp_path / "a.txt", vocabulary=str(tmp_path / "words.txt"))
    assert prepare(given, tmp_path / "corpus").train.vocabulary.words == words
    Vocabulary([*words, "more"]).write(tmp_path / "words.txt")
    assert prepare(given, tmp_path / "corpus").counts.n_words == 6
    assert "it had another vocabulary" in caplog.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "<S>", "<UNK>"], "words.txt: the vocabulary has no </S>"),
        (["a", "<S>", "</S>", "<UNK>", "a"], "words.txt: the word 'a' stands there more than once"),
    ],
)
def test_a_vocabulary_without_specials_or_with_a_word_twice_is_refused(tmp_path, words, message):
    write(tmp_path / "a.txt", SENTENCES)
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in words))
    given = config(tmp_path / "a.txt", vocabulary=str(tmp_path / "words.txt"))
    with pytest.raises(ValueError, match=re.escape(message)):
        prepare(given, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"fine\n\xff\xfe\n", r"a\.txt, line 4: is not valid UTF-8"),
        (b"fine\nnul\0\n", r"a\.txt, line 4: holds a NUL"),
    ],
)
@pytest.mark.parametrize("size", [5, 10**6])
def test_what_is_no_text_names_its_line_or_is_replaced(tmp_path, monkeypatch, bad, message, size):
    monkeypatch.setattr(sources, "BLOCK_BYTES", size)
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n" + bad)
    with pytest.raises(ValueError, match=message):
        prepare(config(tmp_path / "a.txt"), tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()
    train = prepare(config(tmp_path / "a.txt", errors="replace"), tmp_path / "corpus").train
    *_, before, (last,) = train.texts()
    assert before == ["fine"] and last.strip("nul") in ("\ufffd", "\ufffd\ufffd")


def test_lines_and_tokens_of_a_megabyte_are_read_and_longer_lines_refused(tmp_path, monkeypatch):
    sentences = [["a" * 10**6], ["b" * 9, "c" * 9] * 50_000, ["d"]]
    write(tmp_path / "a.txt", sentences)
    train = prepare(config(tmp_path / "a.txt"), tmp_path / "corpus").train
    assert list(train.texts()) == sentences
    np.testing.assert_array_equal(train.char_ids, char_ids(train.types))
    monkeypatch.setattr(sources, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 1 << 18)
    write(tmp_path / "a.txt", [["d"], ["a" * 2 * 10**6]])
    with pytest.raises(ValueError, match=r"a\.txt, line 2: a line of more than 1 MiB; break it up"):
        prepare(config(tmp_path / "a.txt"), tmp_path / "corpus")


def test_text_without_a_sentence_to_train_on_is_refused_and_one_is_enough(tmp_path):
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="the corpus has no sentence: give files with text"):
        prepare(config(tmp_path / "a.txt"), tmp_path / "corpus")
    (tmp_path / "b.txt").write_text("")
    with pytest.raises(ValueError, match="the corpus has no sentence"):
        prepare(config(tmp_path / "b.txt"), tmp_path / "corpus")
    (tmp_path / "a.txt").write_text("one sentence")
    with pytest.raises(ValueError, match="the held-out files have no sentence"):
        given = config(tmp_path / "a.txt", heldout=(str(tmp_path / "b.txt"),))
        prepare(given, tmp_path / "corpus")
    (tmp_path / "b.txt").write_text("one sentence")
    given = config(tmp_path / "a.txt", heldout=(str(tmp_path / "b.txt"),), exclude_heldout=True)
    with pytest.raises(ValueError, match="no sentence is left to train on: 1 are held out and 1 l"):
        prepare(given, tmp_path / "corpus")
    prepared = prepare(config(tmp_path / "a.txt"), tmp_path / "corpus")
    assert list(prepared.train.texts()) == [["one", "sentence"]] and prepared.heldout is None


def test_a_share_that_holds_out_nothing_is_told(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("one sentence")
    prepared = prepare(config(tmp_path / "a.txt", heldout_share=0.001), tmp_path / "corpus")
    assert prepared.heldout is None
    assert "of 1 sentences a share of 0.001 holds out none" in caplog.text


def test_files_that_are_not_there_or_none_of_text_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file matches"):
        prepare(config(tmp_path / "no*.txt"), tmp_path / "corpus")
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(ValueError, match=r"a\.pdf: the suffix '\.pdf' is none of text: expected"):
        prepare(config(tmp_path / "a.pdf"), tmp_path / "corpus")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty has no file of text"):
        prepare(config(tmp_path / "empty"), tmp_path / "corpus")
    write(tmp_path / "a.txt", SENTENCES)
    (tmp_path / "b.txt").symlink_to(tmp_path / "a.txt")
    given = config(tmp_path / "a.txt", heldout=(str(tmp_path / "b.txt"),))
    with pytest.raises(ValueError, match=re.escape("both in corpus.train and in corpus.heldout")):
        prepare(given, tmp_path / "corpus")


@pytest.mark.parametrize("name", ["a.gz", "a.xz", "a.zst", "a.parquet", "a.arrow"])
def test_damaged_files_are_named(tmp_path, name):
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=rf"{name}: damaged or not of the kind its name says"):
        prepare(config(tmp_path / name), tmp_path / "corpus")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.parquet", r"a\.parquet needs pyarrow.*: pip install elmo-torch\[parquet\]"),
        ("a.zst", r"a\.zst: \.zst needs pyarrow.*: pip install elmo-torch\[parquet\]"),
    ],
)
def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch, name, message):
    (tmp_path / name).write_bytes(b"x")
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        prepare(config(tmp_path / name), tmp_path / "corpus")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    with pytest.raises(ValueError, match="holds something else than a prepared corpus"):
        prepare(config(tmp_path / "a.txt"), tmp_path)
    (tmp_path / "empty").mkdir()
    prepare(config(tmp_path / "a.txt"), tmp_path / "empty")


def test_a_damaged_corpus_and_one_of_another_version_are_refused(tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    prepare(config(tmp_path / "a.txt"), tmp_path / "corpus")
    with open(tmp_path / "corpus" / "words", "ab") as file:
        file.write(b"1")
    with pytest.raises(ValueError, match=r"words has \d+ bytes, but had \d+ when it was made"):
        open_prepared(tmp_path / "corpus")
    record = tmp_path / "corpus" / "corpus.json"
    record.write_text(record.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(ValueError, match="format 99, but this version reads 1"):
        open_prepared(tmp_path / "corpus")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_prepared(tmp_path / "nothing")


def test_two_at_a_time_do_not_prepare_one_folder(tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    given = config(tmp_path / "a.txt")

    def meanwhile(share, text):
        with pytest.raises(OSError, match="corpus is being prepared by another process"):
            prepare(given, tmp_path / "corpus")

    prepare(given, tmp_path / "corpus", progress=meanwhile)


def test_progress_goes_from_nothing_to_all(small, tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    seen = []
    prepare(config(tmp_path / "a.txt"), tmp_path / "corpus", progress=lambda *now: seen.append(now))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares) and shares[0] < 0.1 and shares[-1] == 1.0
    assert seen[0][1] == "reading a.txt"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"train": ()}, "train is empty"),
        ({"heldout_share": 1.0}, "heldout_share is 1.0"),
        ({"heldout_share": 0.1, "heldout": ("b.txt",)}, "heldout_share is 0.1, but heldout names"),
        ({"heldout_seed": -1}, "heldout_seed is -1"),
        ({"lines": "words"}, "lines is 'words', but expected one of sentences, paragraphs, wr"),
        ({"errors": "ignore"}, "errors is 'ignore'"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        CorpusConfig(**{"train": ("a.txt",), **setting})


KILLED = textwrap.dedent("""
    import sys, time
    from elmo.pretrain import prepare as module, sources
    from elmo.pretrain.corpus_config import CorpusConfig
    def slowly(block, config, folder):
        time.sleep(0.01)
        module.number_block(block, config, folder)
    if __name__ == "__main__":
        sources.BLOCK_BYTES, sources.BLOCK_ROWS = 150, 7
        module._number_if_new = slowly
        module.prepare(CorpusConfig((sys.argv[1],), min_count=1), sys.argv[2])
""")


def test_a_killed_preparation_goes_on_and_is_none_before(small, tmp_path, monkeypatch):
    write(tmp_path / "a.txt", SENTENCES)
    given = config(tmp_path / "a.txt")
    numbered = []

    def counting(block, config, folder):
        numbered.append(folder)
        number_block(block, config, folder)

    number_block = prepare_module.number_block
    monkeypatch.setattr(prepare_module, "number_block", counting)
    prepare(given, tmp_path / "whole")
    n_blocks = len(numbered)
    (tmp_path / "run.py").write_text(KILLED)
    arguments = [sys.executable, tmp_path / "run.py", tmp_path / "a.txt", tmp_path / "corpus"]
    process = subprocess.Popen(arguments)
    blocks = tmp_path / "corpus.partial" / "blocks"
    deadline = time.monotonic() + 60
    while len(list(blocks.glob("[0-9]*"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    n_done = len([path for path in blocks.iterdir() if path.suffix != ".tmp"])
    assert 2 < n_done < n_blocks
    assert not (tmp_path / "corpus").exists()
    with pytest.raises(FileNotFoundError):
        open_prepared(tmp_path / "corpus")
    numbered.clear()
    prepare(given, tmp_path / "corpus")
    assert len(numbered) == n_blocks - n_done
    assert contents(tmp_path / "corpus") == contents(tmp_path / "whole")
    assert not (tmp_path / "corpus.partial").exists()


def test_what_an_interrupted_preparation_of_other_text_left_is_not_used(small, tmp_path):
    write(tmp_path / "a.txt", SENTENCES)

    def interrupt(share, text):
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(config(tmp_path / "a.txt"), tmp_path / "corpus", progress=interrupt)
    assert any((tmp_path / "corpus.partial" / "blocks").iterdir())
    write(tmp_path / "a.txt", SENTENCES[::-1])
    train = prepare(config(tmp_path / "a.txt"), tmp_path / "corpus").train
    assert list(train.texts()) == SENTENCES[::-1]


def test_processes_end_with_the_one_that_started_them(tmp_path):
    write(tmp_path / "a.txt", SENTENCES)
    script = (
        "import sys, time\n"
        "from elmo.pretrain.prepare import _workers\n"
        "if __name__ == '__main__':\n"
        "    with _workers(2) as each:\n"
        "        list(each(time.sleep, [(0,), (0,), (0,)]))\n"
        "        print('started', flush=True)\n"
        "        time.sleep(60)\n"
    )
    (tmp_path / "run.py").write_text(script)
    process = subprocess.Popen([sys.executable, tmp_path / "run.py"], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"started\n"
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    assert children
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(3000)])
    lines = [" ".join(rng.choice(words, 20)) + "\n" for _ in range(50_000)]
    peaks = []
    for times in (4, 16):
        with open(tmp_path / f"{times}.txt", "w") as file:
            for _ in range(times):
                rng.shuffle(lines)
                file.writelines(lines)
        script = (
            "import resource, sys\n"
            "from elmo.pretrain.prepare import prepare, CorpusConfig\n"
            "prepare(CorpusConfig((sys.argv[1],), deduplicate=True), sys.argv[2])\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        )
        arguments = ["-c", script, tmp_path / f"{times}.txt", tmp_path / f"{times}.corpus"]
        peaks.append(int(subprocess.check_output([sys.executable, *arguments])) / 1024)
    # MiB: 30 and 120 of text; what little there is to grow is a byte per sentence.
    assert peaks[1] < peaks[0] * 1.1 + 20


def test_files_are_read_as_often_as_repeat_says(small, tmp_path):
    parts = SENTENCES[:20], SENTENCES[20:30]
    one, two = (write(tmp_path / f"{i}.txt", part) for i, part in enumerate(parts))
    made = prepare(config(one, two, repeat=(("*.txt", 5), ("*/1.txt", 3))), tmp_path / "out").train
    assert list(made.texts()) == [*parts[0] * 5, *parts[1] * 3]
    again = prepare(config(one, two, repeat=(("*/1.txt", 2),)), tmp_path / "out").train
    assert list(again.texts()) == [*parts[0], *parts[1] * 2]
    for repeat, said in (
        ((("*.gz", 2),), r"repeat names \*\.gz, but no file of train matches"),
        ((("*.txt", 0),), r"repeat reads \*\.txt 0 times"),
    ):
        with pytest.raises(ValueError, match=said):
            prepare(config(one, repeat=repeat), tmp_path / "other")
    with pytest.raises(ValueError, match="repeat or deduplicate"):
        config(one, repeat=(("*.txt", 2),), deduplicate=True)
