"""Vectors on disk: what is written is read, whatever happens in between."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo import store
from elmo.store import VectorWriter, check_room, parquet, read_sentences, read_vectors
from elmo.store import writer as writing
from elmo.store.formats import Sentence
from elmo.store.growing_file import GrowingFile

N_LAYERS, DIM = 2, 3
SHAPE: dict[str, Any] = {"n_layers": N_LAYERS, "dim": DIM, "settings": {"model": "small"}}
# More than ten, so that "10" could come before "2"; empty ones at the beginning and the end.
LENGTHS = [0, 2, 4, 0, 1, 3, 2, 5, 0, 1, 4, 2, 3, 0]

every_format = pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet"])


def make_sentences(lengths=LENGTHS):
    random = np.random.default_rng(0)
    return [
        (
            [f"tökén{place}" for place in range(length)],
            random.standard_normal((N_LAYERS, length, DIM), np.float32),
        )
        for length in lengths
    ]


SENTENCES = make_sentences()


@pytest.fixture(autouse=True)
def commits_are_small_and_quick(monkeypatch):
    monkeypatch.setattr(writing, "COMMIT_BYTES", 7 << 10)  # three sentences
    monkeypatch.setattr(os, "fsync", lambda number: None)  # no test here pulls the plug


def write(path, sentences=SENTENCES, **options):
    with VectorWriter(path, **SHAPE, **options) as writer:
        for tokens, vectors in sentences[writer.n_sentences :]:
            writer.append(tokens, vectors)


def leave_unfinished(path, n_sentences):
    with pytest.raises(ZeroDivisionError), VectorWriter(path, **SHAPE) as writer:
        for tokens, vectors in SENTENCES[:n_sentences]:
            writer.append(tokens, vectors)
        raise ZeroDivisionError
    assert not path.exists()


def assert_holds(path, sentences=SENTENCES):
    found = list(read_vectors(path))
    assert [vectors.shape for vectors in found] == [vectors.shape for _, vectors in sentences]
    for vectors, (_, wanted) in zip(found, sentences, strict=True):
        assert vectors.dtype == np.float32
        np.testing.assert_array_equal(vectors, wanted)
    if path.suffix == ".parquet":
        assert [tokens for tokens, _ in read_sentences(path)] == [tokens for tokens, _ in sentences]


# Formats


@pytest.mark.parametrize("suffix", [".hdf5", ".h5", ".npz", ".parquet", ".HDF5"])
def test_what_is_written_is_read_in_order_and_nothing_else_stays(tmp_path, suffix):
    write(tmp_path / f"out{suffix}")
    assert_holds(tmp_path / f"out{suffix}")
    assert os.listdir(tmp_path) == [f"out{suffix}"]


@every_format
def test_a_file_without_sentences_is_a_file(tmp_path, suffix):
    write(tmp_path / f"out{suffix}", [])
    assert_holds(tmp_path / f"out{suffix}", [])


@every_format
def test_the_same_vectors_make_the_same_bytes(tmp_path, suffix):
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    write(first)
    leave_unfinished(second, 6)
    write(second, resume=True)
    assert first.stat().st_size == second.stat().st_size or suffix == ".hdf5"
    write(second, force=True)
    assert first.read_bytes() == second.read_bytes()


def test_plain_h5py_reads_a_dataset_per_sentence(tmp_path):
    write(tmp_path / "out.hdf5")
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {str(index) for index in range(len(SENTENCES))}
        for index, (_, vectors) in enumerate(SENTENCES):
            assert file[str(index)].dtype == "<f4"
            np.testing.assert_array_equal(file[str(index)], vectors)


def test_plain_numpy_reads_an_array_per_sentence(tmp_path):
    write(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert file.files == [str(index) for index in range(len(SENTENCES))]
        for index, (_, vectors) in enumerate(SENTENCES):
            np.testing.assert_array_equal(file[str(index)], vectors)
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert archive.testzip() is None


def test_plain_pyarrow_reads_a_row_per_sentence(tmp_path):
    write(tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.equals(
        pa.schema(
            {
                "sentence": pa.int64(),
                "tokens": pa.list_(pa.string()),
                "layers": pa.int32(),
                "dim": pa.int32(),
                "vectors": pa.list_(pa.float32()),
            }
        )
    )
    assert b"(layers, tokens, dim)" in table.schema.metadata[b"layout"]
    for index, (row, (tokens, vectors)) in enumerate(
        zip(table.to_pylist(), SENTENCES, strict=True)
    ):
        assert (row["sentence"], row["tokens"]) == (index, tokens)
        shape = row["layers"], len(tokens), row["dim"]
        np.testing.assert_array_equal(np.float32(row["vectors"]).reshape(shape), vectors)


def test_a_row_group_of_parquet_ends_with_its_commit(tmp_path):
    write(tmp_path / "out.parquet")
    footer = pq.read_metadata(tmp_path / "out.parquet")
    rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    assert sum(rows) == len(SENTENCES)
    assert max(rows) == 3


@every_format
def test_a_sentence_larger_than_a_commit_is_written_at_once(tmp_path, suffix):
    sentences = make_sentences([1, 400, 2, 3])
    write(tmp_path / f"out{suffix}", sentences)
    assert_holds(tmp_path / f"out{suffix}", sentences)


@every_format
def test_vectors_may_be_a_view_and_change_after_they_were_appended(tmp_path, suffix):
    vectors = np.zeros((N_LAYERS, DIM, 4), np.float32).swapaxes(1, 2)
    with VectorWriter(tmp_path / f"out{suffix}", **SHAPE) as writer:
        for index in range(3):
            vectors[:] = index
            writer.append(["a", "b", "c", "d"], vectors)
    firsts = [found[0, 0, 0] for found in read_vectors(tmp_path / f"out{suffix}")]
    assert firsts == [0, 1, 2]


@pytest.mark.slow
def test_more_arrays_than_an_old_zip_can_count_are_read_by_numpy(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "COMMIT_BYTES", 64 << 20)
    with VectorWriter(tmp_path / "out.npz", **SHAPE) as writer:
        for index in range(70_000):
            writer.append(["a"], np.full((N_LAYERS, 1, DIM), index, np.float32))
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert len(file.files) == 70_000
        assert file["69999"][0, 0, 0] == 69_999


@pytest.mark.parametrize("offset", [1 << 32, 5 << 30])
@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_files_beyond_four_gigabytes_are_read(tmp_path, suffix, offset):
    """A hole stands for what came before. (HDF5 counts for itself.)"""
    (tmp_path / "directory").touch()
    file = GrowingFile(tmp_path / f"out{suffix}")
    file.write(b"PAR1")
    file.truncate(offset)
    directory = GrowingFile(tmp_path / "directory")
    form = writing.FORMATS[suffix](file, directory, N_LAYERS, DIM)
    form.write(0, [Sentence(tokens, vectors) for tokens, vectors in SENTENCES])
    form.finish(len(SENTENCES))
    file.check()
    file.close()
    directory.close()
    assert (tmp_path / f"out{suffix}").stat().st_size > offset
    assert_holds(tmp_path / f"out{suffix}")


# Going on


@every_format
def test_an_exception_keeps_every_sentence_before_it(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    leave_unfinished(path, 8)
    with VectorWriter(path, **SHAPE, resume=True) as writer:
        assert writer.n_sentences == 8
        assert writer.n_tokens == sum(LENGTHS[:8])
        for tokens, vectors in SENTENCES[8:]:
            writer.append(tokens, vectors)
        assert writer.n_sentences == len(SENTENCES)
        assert writer.n_tokens == sum(LENGTHS)
    assert_holds(path)
    assert os.listdir(tmp_path) == [path.name]


class Camera:
    """Copies of a folder as a kill would leave it: before, within and after every change."""

    def __init__(self, monkeypatch, folder, images):
        self.folder, self.images = folder, images
        self.n_images = 0
        images.mkdir()
        for name in ("replace", "fsync", "unlink", "rmdir", "mkdir"):
            monkeypatch.setattr(os, name, self.watch(getattr(os, name)))
        write_at = GrowingFile._write_at

        def write_in_two(file, start, data):
            half = len(data) // 2
            write_at(file, start, data[:half])
            self.shoot()
            write_at(file, start + half, data[half:])

        monkeypatch.setattr(GrowingFile, "_write_at", self.watch(write_in_two))

    def watch(self, change):
        def watched(*args, **options):
            self.shoot()
            return change(*args, **options)

        return watched

    def shoot(self):
        if self.n_images < 0:
            return  # it is taking one
        n_images, self.n_images = self.n_images, -1
        shutil.copytree(self.folder, self.images / f"{n_images:04}")
        self.n_images = n_images + 1

    def all_images(self):
        return sorted(self.images.iterdir())


def go_on(path, sentences):
    """Resume, unless the kill came after the file had got its name."""
    if path.exists():
        assert_holds(path, sentences)
        with pytest.raises(FileExistsError, match="nothing to resume"):
            write(path, sentences, resume=True)
    else:
        write(path, sentences, resume=True)
        assert_holds(path, sentences)
    assert os.listdir(path.parent) == [path.name]


@every_format
def test_a_run_killed_at_any_moment_goes_on_to_the_same_vectors(tmp_path, suffix):
    sentences = SENTENCES[:8]
    folder = tmp_path / "work"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        camera = Camera(patch, folder, tmp_path / "images")
        write(folder / f"out{suffix}", sentences)
    images = camera.all_images()
    assert len(images) > 30
    # A second kill, in the run that goes on after the first
    killed = tmp_path / "killed"
    shutil.copytree(images[len(images) // 2], killed)
    with pytest.MonkeyPatch.context() as patch:
        camera = Camera(patch, killed, tmp_path / "more")
        write(killed / f"out{suffix}", sentences, resume=True)
    for image in images + camera.all_images()[::3]:
        go_on(image / f"out{suffix}", sentences)


KILLED = """
import sys
import numpy as np
from elmo import store
from elmo.store import writer
writer.COMMIT_BYTES = 7 << 10
sentences = np.load(sys.argv[1])
writers = [
    store.VectorWriter(path, n_layers=2, dim=3, settings={"model": "small"})
    for path in sys.argv[2:]
]
for index in range(len(sentences.files)):
    for writer in writers:
        vectors = sentences[str(index)]
        writer.append([f"tökén{place}" for place in range(vectors.shape[1])], vectors)
print("written", flush=True)
sys.stdin.read()
"""


def test_a_process_killed_by_the_system_loses_its_lock_and_little_else(tmp_path):
    np.savez(tmp_path / "given.npz", **{str(i): v for i, (_, v) in enumerate(SENTENCES)})
    paths = [tmp_path / f"out{suffix}" for suffix in (".hdf5", ".npz", ".parquet")]
    source = str(Path(store.__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "given.npz", *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        with pytest.raises(BlockingIOError, match="another process is writing"):
            write(paths[0], resume=True)
        process.send_signal(signal.SIGKILL)
    for path in paths:
        with pytest.raises(ZeroDivisionError), VectorWriter(path, **SHAPE, resume=True) as writer:
            assert 9 <= writer.n_sentences <= len(SENTENCES)
            raise ZeroDivisionError
        write(path, resume=True)
        assert_holds(path)


@every_format
def test_an_interrupt_within_a_write_is_still_an_interrupt(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"out{suffix}"
    n_writes = 0

    def interrupt(file, start, data, write_at=GrowingFile._write_at):
        nonlocal n_writes
        n_writes += 1
        if n_writes == 12:
            raise KeyboardInterrupt
        write_at(file, start, data)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(GrowingFile, "_write_at", interrupt)
        write(path)
    assert n_writes >= 12
    write(path, resume=True)
    assert_holds(path)


@every_format
def test_an_interrupt_right_after_a_commit_keeps_it(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"out{suffix}"
    leave_unfinished(path, 5)

    def interrupt(file):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(GrowingFile, "settle", interrupt)
        write(path, resume=True)
    with VectorWriter(path, **SHAPE, resume=True) as writer:
        assert writer.n_sentences > 5
        for tokens, vectors in SENTENCES[writer.n_sentences :]:
            writer.append(tokens, vectors)
    assert_holds(path)


positions = st.integers(0, 10_000)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("write"), positions, st.integers(1, 2500)),
        st.tuples(st.just("truncate"), positions, st.just(0)),
        st.tuples(st.sampled_from(["commit", "kill"]), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@given(changes=changes)
def test_a_growing_file_reads_as_written_and_falls_back_to_its_last_commit(changes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors"
        file = GrowingFile(path)
        wanted, safe, pages = b"", b"", []
        for step, (change, position, n_bytes) in enumerate(changes, 1):
            start = position % (len(wanted) + 1)
            if change == "write":
                data = bytes([step]) * n_bytes
                file.seek(start)
                file.write(data)
                wanted = wanted[:start] + data + wanted[start + len(data) :]
            elif change == "truncate":
                wanted = wanted[:start]
                file.truncate(len(wanted))
            else:
                safe, pages = wanted, [(at, bytes(page)) for at, page in file.pages]
                if change == "kill":
                    break
                file.settle()
                assert path.read_bytes() == safe
            file.seek(0)
            assert file.read() == wanted
        file.check()
        file.close()
        recovered = GrowingFile(path, len(safe), pages)
        recovered.close()
        assert path.read_bytes() == safe


def disk_fills_up_at(size):
    def write_at(file, start, data, write_at=GrowingFile._write_at):
        write_at(file, start, data[: max(size - start, 0)])
        if start + len(data) > size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return write_at


@every_format
@pytest.mark.parametrize("size", [100, 2500, 3000])
def test_a_full_disk_says_how_much_is_safe_and_how_to_go_on(tmp_path, monkeypatch, suffix, size):
    path = tmp_path / f"out{suffix}"
    with monkeypatch.context() as patch:
        patch.setattr(GrowingFile, "_write_at", disk_fills_up_at(size))
        with pytest.raises(OSError, match="No space left on device") as caught:
            write(path)
    assert caught.value.errno == errno.ENOSPC
    message = str(caught.value)
    n_safe = int(re.findall(r"(\d+) sentences are safe", message)[0])
    assert "make room, then go on with resume=True (--resume)" in message
    assert "\n" not in message
    assert (n_safe > 0) == (size > 100)
    assert path.with_name(f"{path.name}.partial").exists() == (n_safe > 0)
    with VectorWriter(path, **SHAPE, resume=True) as writer:
        assert writer.n_sentences == n_safe
        for tokens, vectors in SENTENCES[n_safe:]:
            writer.append(tokens, vectors)
    assert_holds(path)


@every_format
def test_a_disk_that_fails_when_it_is_forced_to_store_loses_nothing(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"out{suffix}"
    leave_unfinished(path, 5)

    def fail(number):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match=r"5 sentences are safe .* see to the disk"):
            write(path, resume=True)
    write(path, resume=True)
    assert_holds(path)


def test_an_error_of_the_disk_that_the_caller_swallows_does_not_finish_the_file(
    tmp_path, monkeypatch
):
    path = tmp_path / "out.hdf5"
    with (
        monkeypatch.context() as patch,
        pytest.raises(OSError, match="is not finished"),
        VectorWriter(path, **SHAPE) as writer,
    ):
        patch.setattr(GrowingFile, "_write_at", disk_fills_up_at(2500))
        with pytest.raises(OSError, match="No space left"):
            for tokens, vectors in SENTENCES:
                writer.append(tokens, vectors)
        with pytest.raises(ValueError, match="is closed"):
            writer.append(*SENTENCES[0])
    assert not path.exists()


# Rules


@every_format
@pytest.mark.parametrize(
    ("name", "other", "differs"),
    [
        ("settings", {"model": "large"}, "model was 'small' then and is 'large' now"),
        ("settings", {"model": "x" * 64}, "model was another then"),
        ("n_layers", 4, "n_layers was 2 then and is 4 now"),
        ("dim", 5, "dim was 3 then and is 5 now"),
    ],
)
def test_another_run_is_not_resumed(tmp_path, suffix, name, other, differs):
    path = tmp_path / f"out{suffix}"
    leave_unfinished(path, 5)
    with pytest.raises(ValueError, match=re.escape(f"{differs}; pass force=True")):
        VectorWriter(path, **{**SHAPE, name: other}, resume=True)
    write(path, resume=True)
    assert_holds(path)


def test_an_existing_file_is_replaced_only_by_force_and_only_when_the_new_one_is_done(tmp_path):
    path = tmp_path / "out.hdf5"
    write(path, SENTENCES[:4])
    with pytest.raises(FileExistsError, match=r"out.hdf5 exists; pass force=True \(--force\)"):
        VectorWriter(path, **SHAPE)
    with pytest.raises(FileExistsError, match="exists; there is nothing to resume"):
        VectorWriter(path, **SHAPE, resume=True)
    assert os.listdir(tmp_path) == ["out.hdf5"]
    with VectorWriter(path, **SHAPE, force=True) as writer:
        for tokens, vectors in SENTENCES:
            writer.append(tokens, vectors)
        assert_holds(path, SENTENCES[:4])
    assert_holds(path)


def test_an_unfinished_run_is_resumed_or_thrown_away_only_on_request(tmp_path):
    path = tmp_path / "out.npz"
    leave_unfinished(path, 5)
    message = r"unfinished run; pass resume=True \(--resume\) .* or force=True \(--force\)"
    with pytest.raises(FileExistsError, match=message):
        VectorWriter(path, **SHAPE)
    with VectorWriter(path, **SHAPE, force=True) as writer:
        assert writer.n_sentences == 0
    assert_holds(path, [])


def test_a_replacement_that_was_killed_is_resumed_by_both_options(tmp_path):
    path = tmp_path / "out.parquet"
    write(path, SENTENCES[:4])
    with pytest.raises(ZeroDivisionError), VectorWriter(path, **SHAPE, force=True) as writer:
        for tokens, vectors in SENTENCES[:6]:
            writer.append(tokens, vectors)
        raise ZeroDivisionError
    assert_holds(path, SENTENCES[:4])
    with pytest.raises(FileExistsError, match=r"pass force=True \(--force\) too"):
        VectorWriter(path, **SHAPE, resume=True)
    with VectorWriter(path, **SHAPE, force=True, resume=True) as writer:
        assert writer.n_sentences == 6
        for tokens, vectors in SENTENCES[6:]:
            writer.append(tokens, vectors)
    assert_holds(path)


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "out.hdf5"
    with pytest.raises(FileExistsError, match="appeared"), VectorWriter(path, **SHAPE) as writer:
        for tokens, vectors in SENTENCES:
            writer.append(tokens, vectors)
        path.write_text("mine")
    assert path.read_text() == "mine"
    write(path, resume=True, force=True)
    assert_holds(path)


def test_resuming_where_nothing_is_begins(tmp_path):
    write(tmp_path / "out.hdf5", resume=True)
    assert_holds(tmp_path / "out.hdf5")


def test_a_run_that_fails_before_its_first_sentence_leaves_nothing(tmp_path):
    leave_unfinished(tmp_path / "out.hdf5", 0)
    assert os.listdir(tmp_path) == []


def test_one_file_has_one_writer_at_a_time(tmp_path):
    path = tmp_path / "out.hdf5"
    with VectorWriter(path, **SHAPE) as writer:
        for options in ({}, {"force": True}, {"resume": True}):
            with pytest.raises(BlockingIOError, match="another process is writing"):
                VectorWriter(path, **{**SHAPE, **options})
        for tokens, vectors in SENTENCES:
            writer.append(tokens, vectors)
    assert_holds(path)


def test_where_a_file_cannot_be_is_said_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"'\.txt'.*\.hdf5 \(or \.h5\), \.npz, \.parquet"):
        VectorWriter(tmp_path / "out.txt", **SHAPE)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; create it first"):
        VectorWriter(tmp_path / "nowhere" / "out.npz", **SHAPE)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        VectorWriter(tmp_path / "folder.npz", **SHAPE)
    (tmp_path / "out.npz.partial").touch()
    with pytest.raises(FileExistsError, match="is in the way"):
        VectorWriter(tmp_path / "out.npz", **SHAPE)
    with pytest.raises(ValueError, match="at least 1, but are 0 and 3"):
        VectorWriter(tmp_path / "new.npz", n_layers=0, dim=3, settings={})
    assert sorted(os.listdir(tmp_path)) == ["folder.npz", "out.npz.partial"]


def test_a_folder_that_is_in_use_by_its_owner_is_not_emptied(tmp_path):
    (tmp_path / "out.npz.partial").mkdir()
    (tmp_path / "out.npz.partial" / "notes.txt").touch()
    write(tmp_path / "out.npz")
    assert os.listdir(tmp_path / "out.npz.partial") == ["notes.txt"]


@pytest.mark.parametrize("damage", [b"", b"nothing like it", b"[1]", b'{"version": 99}'])
def test_a_damaged_commit_is_not_resumed(tmp_path, damage):
    path = tmp_path / "out.hdf5"
    leave_unfinished(path, 5)
    (tmp_path / "out.hdf5.partial" / "commit").write_bytes(damage)
    with pytest.raises(ValueError, match=r"commit cannot be read .*; pass force=True"):
        VectorWriter(path, **SHAPE, resume=True)
    write(path, force=True)
    assert_holds(path)


def test_a_partial_file_cut_short_is_not_resumed(tmp_path):
    path = tmp_path / "out.npz"
    leave_unfinished(path, 5)
    os.truncate(tmp_path / "out.npz.partial" / "vectors", 100)
    with pytest.raises(ValueError, match=r"is damaged: it has 100 bytes, but .* were safe"):
        VectorWriter(path, **SHAPE, resume=True)


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((N_LAYERS, 5, DIM), np.float32),
        np.zeros((DIM, 4, N_LAYERS), np.float32),
        np.zeros((4, N_LAYERS, DIM), np.float32),
        np.zeros((N_LAYERS, 4, DIM), np.float64),
    ],
)
def test_vectors_that_do_not_fit_are_refused_and_change_nothing(tmp_path, vectors):
    path = tmp_path / "out.hdf5"
    with VectorWriter(path, **SHAPE) as writer:
        for tokens, good in SENTENCES:
            message = (
                f"vectors of sentence {writer.n_sentences} are {vectors.dtype} of shape "
                f"{vectors.shape}, but {path} wants float32 of shape (2, 4, 3)"
            )
            with pytest.raises(ValueError, match=re.escape(message)):
                writer.append(["a", "b", "c", "d"], vectors)
            writer.append(tokens, good)
    assert_holds(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place(tmp_path, value):
    vectors = np.zeros((N_LAYERS, 4, DIM), np.float32)
    vectors[1, 2, 0] = value
    with VectorWriter(tmp_path / "out.hdf5", **SHAPE) as writer:
        writer.append(*SENTENCES[0])
        with pytest.raises(ValueError, match="sentence 1 hold NaN or infinity in layer 1"):
            writer.append(["a", "b", "c", "d"], vectors)


def test_parquet_refuses_what_it_cannot_hold(tmp_path, monkeypatch):
    with VectorWriter(tmp_path / "out.parquet", **SHAPE) as writer:
        with pytest.raises(ValueError, match=r"sentence 0 has the token 'b\\udc80' with a lone"):
            writer.append(["a", "b\udc80"], SENTENCES[1][1])
        monkeypatch.setattr(parquet, "MOST_IN_A_LIST", 11)
        with pytest.raises(ValueError, match=r"sentence 0 has 12 numbers, .* at most 11"):
            writer.append(*SENTENCES[1])
    assert_holds(tmp_path / "out.parquet", [])


def test_without_pyarrow_only_parquet_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=re.escape('pip install "elmo-torch[parquet]"')):
        VectorWriter(tmp_path / "out.parquet", **SHAPE)
    assert os.listdir(tmp_path) == []
    write(tmp_path / "out.npz")


def test_too_little_room_is_said_before_the_work(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=2_000_000_000))
    check_room(tmp_path / "out.hdf5", 2_000_000_000)
    with pytest.raises(OSError, match=r"needs about 3\.1 GB, but its disk has 2\.0 GB free; make"):
        check_room(tmp_path / "out.hdf5", 3_100_000_000)


# Reading what others wrote


@pytest.mark.parity
def test_files_of_bilm_tf_are_read_in_order(shared):
    path = shared / "golden" / "bilm-tf-fixture" / "lm_embeddings_0.hdf5"
    with h5py.File(path) as file:
        wanted = [file[str(index)][...] for index in range(len(file))]
    for found, vectors in zip(read_vectors(path), wanted, strict=True):
        np.testing.assert_array_equal(found, vectors)


def test_what_else_is_in_an_hdf5_file_does_not_disturb(tmp_path):
    write(tmp_path / "out.hdf5")
    with h5py.File(tmp_path / "out.hdf5", "a") as file:
        file["sentence_to_index"] = "{}"
    assert_holds(tmp_path / "out.hdf5")


@every_format
def test_a_file_cut_short_or_of_another_kind_is_one_clear_line(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    write(path)
    content = path.read_bytes()
    for damaged in (b"", b"no such format", content[: len(content) // 2], content[:-10]):
        path.write_bytes(damaged)
        with pytest.raises(
            ValueError, match=r"cannot be read as .*cut short, or not ours"
        ) as caught:
            list(read_vectors(path))
        assert "\n" not in str(caught.value)


def test_a_missing_sentence_is_not_the_end(tmp_path):
    write(tmp_path / "out.hdf5")
    with h5py.File(tmp_path / "out.hdf5", "a") as file:
        del file["5"]
    with pytest.raises(ValueError, match='"5" is missing, but 8 others follow'):
        list(read_vectors(tmp_path / "out.hdf5"))
    np.savez(tmp_path / "out.npz", **{"0": SENTENCES[1][1], "2": SENTENCES[2][1]})
    with pytest.raises(ValueError, match=r"1\.npy is missing among 2 arrays"):
        list(read_vectors(tmp_path / "out.npz"))
    table = pa.table({"sentence": [0, 2], "tokens": [["a"], ["b"]], "layers": [2, 2]})
    table = table.append_column("dim", [[1, 1]])
    table = table.append_column("vectors", pa.array([[1, 2], [3, 4]], pa.list_(pa.float32())))
    pq.write_table(table, tmp_path / "out.parquet")
    with pytest.raises(ValueError, match="sentence 2 stands where 1 should"):
        list(read_vectors(tmp_path / "out.parquet"))


@pytest.mark.parametrize("array", [np.zeros((2, 3), np.float32), np.zeros((2, 4, 3))])
def test_arrays_that_are_no_layers_of_vectors_are_refused(tmp_path, array):
    with h5py.File(tmp_path / "out.hdf5", "w") as file:
        file["0"] = array
    np.savez(tmp_path / "out.npz", **{"0": array})
    pq.write_table(pa.table({"vectors": [[1.0]]}), tmp_path / "out.parquet")
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match="cannot be read as"):
            list(read_vectors(path))


def test_only_parquet_has_tokens_to_read(tmp_path):
    write(tmp_path / "out.hdf5")
    with pytest.raises(ValueError, match="holds no tokens"):
        read_sentences(tmp_path / "out.hdf5")


def test_a_file_that_is_not_there_is_missed_at_once(tmp_path):
    for suffix in (".hdf5", ".npz", ".parquet"):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            read_vectors(tmp_path / f"out{suffix}")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_sentences(tmp_path / "out.parquet")
    with pytest.raises(ValueError, match="names no format"):
        read_vectors(tmp_path / "out.pkl")
