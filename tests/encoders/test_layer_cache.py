import errno
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.encoders.counting import CountingEncoder
from tests.models import random_bilm

from elmo import Elmo
from elmo.encoders import cached_layers, layer_cache
from elmo.encoders.cache_segments import RECORD_BYTES, key_of
from elmo.encoders.elmo import ElmoEncoder

MUCH = 10**9
TOKEN = 4 * 2 * 3
SENTENCES = [["a", "b", "c"], ["d"], [], ["a", "b", "c"], ["a", "bc"], ["ab", "c"]]


def check(cached, encoder, sentences):
    """Bit-identical to what the encoder gives, and without calling the one that is counted."""
    fresh = CountingEncoder(encoder.seed)
    for sentence in sentences:
        layers = cached.layers(sentence)
        assert layers.dtype == np.float32
        np.testing.assert_array_equal(layers, fresh._layers(sentence))


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in (".layers", ".index"))


def held(folder: Path) -> int:
    return sum(p.stat().st_size for p in files(folder))


def test_layers_come_back_bit_for_bit_and_are_computed_once(tmp_path):
    encoder = CountingEncoder()
    first = cached_layers(encoder, SENTENCES, tmp_path, max_bytes=MUCH)
    assert sorted(encoder.encoded) == sorted([["a", "b", "c"], ["d"], ["a", "bc"], ["ab", "c"]])
    assert len(first) == 4
    check(first, encoder, SENTENCES)
    encoder.encoded.clear()
    again = cached_layers(encoder, SENTENCES[::-1], tmp_path, max_bytes=MUCH)
    more = cached_layers(encoder, [*SENTENCES, ["new", "one"]], tmp_path, max_bytes=MUCH)
    assert encoder.encoded == [["new", "one"]]
    check(again, encoder, SENTENCES)
    check(more, encoder, [*SENTENCES, ["new", "one"]])


def test_layers_of_a_real_encoder_come_back_bit_for_bit(tmp_path):
    encoder = ElmoEncoder(Elmo(random_bilm()))
    sentences = [["The", "cat", "."], ["naïve"], ["The", "dog", "ran", "off"]]
    cached = cached_layers(encoder, sentences, tmp_path, max_bytes=MUCH)
    by_length = sorted(sentences, key=len, reverse=True)
    for sentence, layers in zip(by_length, encoder.encode_layers(by_length), strict=True):
        np.testing.assert_array_equal(cached.layers(sentence), layers)


def test_what_is_mapped_cannot_be_changed_by_chance(tmp_path):
    cached = cached_layers(CountingEncoder(), SENTENCES, tmp_path, max_bytes=MUCH)
    with pytest.raises(ValueError, match="read-only"):
        cached.layers(["d"])[0, 0, 0] = 1
    with pytest.raises(KeyError, match="the sentence 'x y' is none of those"):
        cached.layers(["x", "y"])


def test_it_goes_to_another_process_without_its_numbers(tmp_path):
    cached = cached_layers(CountingEncoder(), [["w"] * 5000], tmp_path, max_bytes=MUCH)
    sent = pickle.dumps(cached)
    assert len(sent) < 2000
    check(pickle.loads(sent), CountingEncoder(), [["w"] * 5000])


@given(st.lists(st.lists(st.text(max_size=3), max_size=3), min_size=2, max_size=2, unique_by=tuple))
def test_other_tokens_have_other_keys(pair):
    assert key_of(pair[0]) != key_of(pair[1])
    assert key_of(pair[0]) == key_of(tuple(pair[0]))


def test_progress_counts_the_tokens_that_are_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache, "GROUP_BYTES", 3 * TOKEN)
    told = []
    sentences = [["w", str(i)] for i in range(5)]
    cached_layers(
        CountingEncoder(),
        sentences,
        tmp_path,
        max_bytes=MUCH,
        progress=lambda *now: told.append(now),
    )
    assert told == [(4, 10), (8, 10), (10, 10)]
    cached_layers(
        CountingEncoder(),
        sentences,
        tmp_path,
        max_bytes=MUCH,
        progress=lambda *now: told.append(now),
    )
    assert len(told) == 3


# ---- the bound ----------------------------------------------------------------------------------


def size(*lengths):
    return sum(n * TOKEN + RECORD_BYTES for n in lengths)


def test_what_does_not_fit_is_refused_with_both_sizes(tmp_path):
    said = (
        f"layers of 2 sentences by counting:0 take {size(3, 1)} bytes, but the cache {tmp_path} "
        f"may hold {size(3, 1) - 1} bytes: raise max_bytes (cache_gb in a recipe), or set "
        'encoder_mode = "on_the_fly"'
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        cached_layers(CountingEncoder(), [["a"] * 3, ["b"]], tmp_path, max_bytes=size(3, 1) - 1)
    assert not files(tmp_path)
    cached_layers(CountingEncoder(), [["a"] * 3, ["b"]], tmp_path, max_bytes=size(3, 1))
    assert held(tmp_path) == size(3, 1)


def test_what_was_used_least_recently_goes_first_of_any_encoder(tmp_path):
    bound = size(3, 3, 3)
    one, two = CountingEncoder(1), CountingEncoder(2)
    cached_layers(one, [["a"] * 3], tmp_path, max_bytes=bound)
    kept = cached_layers(two, [["b"] * 3], tmp_path, max_bytes=bound)
    cached_layers(one, [["c"] * 3], tmp_path, max_bytes=bound)
    for age, name in enumerate(["a", "b", "c"]):  # file systems' clocks may be coarse
        encoder = two if name == "b" else one
        found = [p for p in files(tmp_path) if p.suffix == ".index"]
        (index,) = [p for p in found if key_of([name] * 3) in p.read_bytes()]
        os.utime(index, ns=(age * 10**9, age * 10**9))
    cached_layers(one, [["a"] * 3], tmp_path, max_bytes=bound)  # now the newest
    cached_layers(one, [["d"] * 3], tmp_path, max_bytes=bound)
    assert held(tmp_path) == bound
    check(kept, two, [["b"] * 3])  # still readable where it was in use
    for encoder in (one, two):
        encoder.encoded.clear()
    cached_layers(one, [["a"] * 3, ["c"] * 3, ["d"] * 3], tmp_path, max_bytes=bound)
    assert one.encoded == []
    cached_layers(two, [["b"] * 3], tmp_path, max_bytes=bound)
    assert two.encoded == [["b"] * 3]


def test_sentences_that_share_a_segment_with_unwanted_ones_are_computed_again(tmp_path):
    encoder, bound = CountingEncoder(), size(4, 4)
    cached_layers(encoder, [["a"] * 4, ["b"] * 4], tmp_path, max_bytes=bound)
    encoder.encoded.clear()
    wanted = [["a"] * 4, ["c"] * 4]
    check(cached_layers(encoder, wanted, tmp_path, max_bytes=bound), encoder, wanted)
    assert sorted(encoder.encoded) == wanted and held(tmp_path) <= bound


@given(
    sets=st.lists(
        st.tuples(st.integers(0, 2), st.sets(st.integers(1, 12), min_size=1, max_size=4)),
        max_size=6,
    ),
    bound=st.integers(100, 1500),
)
def test_the_bound_holds_and_the_layers_are_right_whatever_came_before(
    tmp_path_factory, sets, bound
):
    folder = tmp_path_factory.mktemp("cache")
    for seed, lengths in sets:
        encoder = CountingEncoder(seed)
        sentences = [["w"] * n for n in lengths]
        if size(*lengths) > bound:
            with pytest.raises(
                ValueError, match=re.escape("raise max_bytes (cache_gb in a recipe)")
            ):
                cached_layers(encoder, sentences, folder, max_bytes=bound)
            continue
        check(cached_layers(encoder, sentences, folder, max_bytes=bound), encoder, sentences)
        assert held(folder) <= bound
    shutil.rmtree(folder)


def test_a_full_disk_is_told_before_anything_is_computed(tmp_path, monkeypatch):
    encoder = CountingEncoder()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 5))
    with pytest.raises(OSError, match="make room") as caught:
        cached_layers(encoder, SENTENCES, tmp_path, max_bytes=MUCH)
    assert caught.value.errno == errno.ENOSPC and not encoder.encoded


# ---- interruptions ------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from tests.encoders.counting import CountingEncoder
from elmo.encoders import cached_layers, layer_cache

layer_cache.GROUP_BYTES = 1
encoder = CountingEncoder(slow=float(sys.argv[2]))
sentences = [["w", str(i)] for i in range(int(sys.argv[3]))]
cached = cached_layers(
    encoder, sentences, sys.argv[1], max_bytes=10**9, progress=lambda *now: print(*now, flush=True)
)
print("encoded", len(encoder.encoded), "of", len(cached), flush=True)
"""


def start(folder, slow, n):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(slow), str(n)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
    )  # fmt: skip


def test_a_killed_run_is_gone_on_with(tmp_path):
    process = start(tmp_path, 0.05, 400)
    for line in process.stdout:
        if line.startswith("20 "):  # ten sentences of two tokens
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=600)
    encoder = CountingEncoder()
    sentences = [["w", str(i)] for i in range(400)]
    cached = cached_layers(encoder, sentences, tmp_path, max_bytes=MUCH)
    check(cached, encoder, sentences)
    assert 300 <= len(encoder.encoded) <= 390
    # Nothing of what was reserved and never filled is left.
    assert held(tmp_path) == 400 * (2 * TOKEN + RECORD_BYTES)


def test_two_writers_do_the_work_once(tmp_path):
    processes = [start(tmp_path, 0.02, 60) for _ in range(2)]
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    encoded = sorted(int(re.search(r"encoded (\d+) of 60", out)[1]) for out in outputs)
    assert encoded == [0, 60]
    check(
        cached_layers(CountingEncoder(), [["w", "7"]], tmp_path, max_bytes=MUCH),
        CountingEncoder(),
        [["w", "7"]],
    )


def test_writers_of_other_encoders_do_not_wait_and_stay_within_the_bound_together(tmp_path):
    bound = size(50, 50)
    slow, quick = CountingEncoder(1, slow=0.5), CountingEncoder(2)
    thread = threading.Thread(
        target=cached_layers, args=(slow, [["a"] * 50], tmp_path), kwargs={"max_bytes": bound}
    )
    thread.start()
    while not slow.encoded:
        time.sleep(0.01)
    began = time.monotonic()
    cached_layers(quick, [["b"] * 50], tmp_path, max_bytes=bound)
    # What is being filled counts, and is not deleted.
    with pytest.raises(ValueError, match="another process is filling too many"):
        cached_layers(CountingEncoder(3), [["b"] * 60], tmp_path, max_bytes=bound)
    assert thread.is_alive() or time.monotonic() - began > 0.5
    thread.join()
    assert held(tmp_path) <= bound


def test_an_error_of_the_encoder_keeps_what_was_done(tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache, "GROUP_BYTES", 1)
    encoder = CountingEncoder()
    encode = encoder.encode_layers

    def failing(sentences):
        if len(encoder.encoded) == 3:
            raise RuntimeError("out of memory")
        return encode(sentences)

    encoder.encode_layers = failing
    sentences = [["w", str(i)] for i in range(5)]
    with pytest.raises(RuntimeError, match="out of memory"):
        cached_layers(encoder, sentences, tmp_path, max_bytes=MUCH)
    assert held(tmp_path) == 3 * (2 * TOKEN + RECORD_BYTES)
    again = CountingEncoder()
    check(cached_layers(again, sentences, tmp_path, max_bytes=MUCH), again, sentences)
    assert len(again.encoded) == 2


@pytest.mark.parametrize("damage", ["torn index", "changed index", "short layers", "no index"])
def test_what_is_damaged_is_computed_again(tmp_path, damage):
    encoder = CountingEncoder()
    sentences = [["w"] * n for n in (4, 3, 2)]
    cached_layers(encoder, sentences, tmp_path, max_bytes=MUCH)
    layers, index = (
        next(p for p in files(tmp_path) if p.suffix == s) for s in (".layers", ".index")
    )
    if damage == "torn index":
        index.write_bytes(index.read_bytes()[:-5])
    elif damage == "changed index":
        content = bytearray(index.read_bytes())
        content[RECORD_BYTES + 17] ^= 1
        index.write_bytes(content)
    elif damage == "short layers":
        os.truncate(layers, 5 * TOKEN)
    else:
        index.unlink()
    encoder.encoded.clear()
    check(cached_layers(encoder, sentences, tmp_path, max_bytes=MUCH), encoder, sentences)
    assert len(encoder.encoded) == {"torn index": 1, "no index": 3}.get(damage, 2)
    encoder.encoded.clear()
    cached_layers(encoder, sentences, tmp_path, max_bytes=MUCH)
    assert not encoder.encoded


def test_it_says_for_whom_it_waits(tmp_path, caplog):
    slow = CountingEncoder(slow=0.4)
    thread = threading.Thread(
        target=cached_layers, args=(slow, SENTENCES, tmp_path), kwargs={"max_bytes": MUCH}
    )
    thread.start()
    while not slow.encoded:
        time.sleep(0.01)
    second = CountingEncoder()
    with caplog.at_level(logging.INFO, "elmo"):
        check(cached_layers(second, SENTENCES, tmp_path, max_bytes=MUCH), second, SENTENCES)
    thread.join()
    assert not second.encoded
    assert "waiting for another process that computes layers by counting:0" in caplog.text


def test_the_folder_says_which_encoder_each_part_is_of(tmp_path):
    import json

    encoder = CountingEncoder()
    cached_layers(encoder, SENTENCES, tmp_path, max_bytes=MUCH)
    (about,) = tmp_path.glob("*/about.json")
    values = json.loads(about.read_text())
    assert (values["name"], values["identity"]) == ("counting:0", encoder.identity)
    assert (values["n_layers"], values["dim"]) == (2, 3)


def test_sentences_that_are_strings_are_refused(tmp_path):
    with pytest.raises(TypeError, match="is the string 'not tokenized'"):
        cached_layers(CountingEncoder(), ["not tokenized"], tmp_path, max_bytes=MUCH)
