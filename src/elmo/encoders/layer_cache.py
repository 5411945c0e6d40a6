"""Layers of sentences, computed once and kept on disk for every set, seed and run.

The folder holds a folder per encoder, named by its identity: `about.json` says which one it is,
`lock` is held by the process that computes, and the rest are segments (see `cache_segments`). Each
call that has something to compute adds one. Segments that were not used for longest go first when
room is wanted.

Axes: layers, tokens, dim.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from jaxtyping import Float

from elmo.encoders.cache_segments import (
    LAYERS,
    RECORD_BYTES,
    Record,
    Segment,
    SegmentWriter,
    delete,
    key_of,
    last_used,
    n_bytes,
    repair,
)
from elmo.encoders.encoder import Encoder, checked
from elmo.store import check_room
from elmo.text import write_lines

logger = logging.getLogger(__name__)

FORMAT = 1
GROUP_BYTES = 1 << 26
"""About so many bytes are computed between two commits."""

Progress = Callable[[int, int], object]
Wanted = Mapping[bytes, list[str]]


class CachedLayers:
    """Layers of the sentences of a set, read from disk where they are looked at.

    Made by `cached_layers`. It may be used by several threads, and sent to other processes.
    """

    def __init__(
        self, encoder: tuple[str, int, int], segments: Sequence[Segment], wanted: Wanted
    ) -> None:
        self.name, self.n_layers, self.dim = encoder
        self._segments = list(segments)
        self._places: dict[bytes, tuple[int, Record]] = {}
        for i, segment in enumerate(segments):
            for key, of_sentence in segment.records.items():
                if key in wanted:
                    self._places.setdefault(key, (i, of_sentence))

    def __len__(self) -> int:
        """Distinct sentences."""
        return len(self._places)

    def layers(self, sentence: Sequence[str]) -> Float[np.ndarray, "layers tokens dim"]:
        """Layers of one of the sentences: float32, mapped from disk, not to be written to.

        Raises:
            KeyError: If it is none of the sentences that were given.
        """
        if not sentence:
            return np.zeros((self.n_layers, 0, self.dim), dtype=np.float32)
        place = self._places.get(key_of(sentence))
        if place is None:
            raise KeyError(
                f"the sentence {' '.join(sentence)[:60]!r} is none of those that were given to "
                f"cached_layers for {self.name}: give all that are to be looked up"
            )
        i, (_, offset, n_tokens) = place
        start = offset // 4
        end = start + self.n_layers * n_tokens * self.dim
        return self._segments[i].values[start:end].reshape(self.n_layers, n_tokens, self.dim)


def cached_layers(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    folder: str | Path,
    *,
    max_bytes: int,
    progress: Progress | None = None,
) -> CachedLayers:
    """Layers of all sentences, of which only those are computed that the folder does not hold yet.

    Equal sentences are kept once. Of several processes that want layers by the same encoder, one
    computes and the others wait. After an interruption the next call goes on where that one was.

    Args:
        encoder: Where layers come from.
        sentences: Tokenized.
        folder: Made if it is missing; for any number of encoders and sets.
        max_bytes: Of all segments in the folder. To stay within it, what was used least recently is
            deleted; arrays that are in use elsewhere stay readable there.
        progress: Called with the tokens newly computed so far, and those to be in all; not at all
            where nothing is to be computed.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
        ValueError: If the sentences alone need more than `max_bytes`, or they do beside what other
            processes are computing now.
        OSError: If the disk has no room.
    """
    cache = _Cache(encoder, Path(folder), max_bytes)
    wanted = {key_of(sentence): sentence for sentence in checked(sentences) if sentence}
    if (size := cache.size_of(wanted)) > max_bytes:
        raise ValueError(
            f"layers of {len(wanted):,} sentences by {encoder.name} take {_shown(size)}, but the "
            f"cache {folder} may hold {_shown(max_bytes)}: raise max_bytes (cache_gb "
            'in a recipe), or set encoder_mode = "on_the_fly"'
        )
    segments = cache.segments_with(wanted)
    if _missing(wanted, segments):
        with cache.locked():
            cache.repair()
            segments = cache.segments_with(wanted)
            if missing := _missing(wanted, segments):
                writer, missing = cache.reserve(wanted, missing, segments)
                try:
                    cache.compute(missing, writer, progress)
                finally:
                    writer.close()
                segments = cache.segments_with(wanted)
    return CachedLayers((encoder.name, encoder.n_layers, encoder.dim), segments, wanted)


class _Cache:
    """The folder, seen by one encoder."""

    def __init__(self, encoder: Encoder, folder: Path, max_bytes: int) -> None:
        self.encoder, self.folder, self.max_bytes = encoder, folder, max_bytes
        self.own = folder / f"{FORMAT}-{encoder.identity[:32]}"
        self.token_bytes = 4 * encoder.n_layers * encoder.dim

    def size_of(self, sentences: Wanted) -> int:
        """Bytes that sentences take."""
        n_tokens = sum(map(len, sentences.values()))
        return n_tokens * self.token_bytes + len(sentences) * RECORD_BYTES

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone to write layers of this encoder; waits for another process that does."""
        self.own.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.own / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.info("waiting for another process that computes layers by %s", self.encoder.name)
            lock.acquire()
        try:
            self._write_about()
            yield
        finally:
            lock.release()

    def segments_with(self, wanted: Wanted) -> list[Segment]:
        """Segments that hold some of the sentences; they count as used now."""
        found = []
        for path in sorted(self.own.glob(f"*{LAYERS}")):
            try:
                segment = Segment(path, self.token_bytes)
            except FileNotFoundError:  # another process has made room
                continue
            if not segment.records.keys().isdisjoint(wanted):
                segment.touch()
                found.append(segment)
        return found

    def repair(self) -> None:
        """Cut off what a killed process left unfinished."""
        for path in self.own.glob(f"*{LAYERS}"):
            repair(path, self.token_bytes)

    def reserve(
        self, wanted: Wanted, missing: Wanted, used: Sequence[Segment]
    ) -> tuple[SegmentWriter, Wanted]:
        """Room for what is missing, in which what had to go for it is included."""
        with FileLock(self.folder / "lock"):  # nobody else counts meanwhile
            keep = {segment.path for segment in used}
            if not self._free(self.size_of(missing), keep):
                # Beside sentences that are wanted, segments hold others: compute all anew.
                missing = wanted
                if not self._free(self.size_of(missing), set()):
                    raise ValueError(
                        f"layers of {len(wanted):,} sentences by {self.encoder.name} take "
                        f"{_shown(self.size_of(wanted))}, but of the {_shown(self.max_bytes)} that "
                        f"the cache {self.folder} may hold, another process is filling too many: "
                        "wait for it, raise max_bytes (cache_gb in a recipe), or set encoder_mode "
                        '= "on_the_fly"'
                    )
            check_room(self.own, self.size_of(missing))
            n_tokens = sum(map(len, missing.values()))
            return SegmentWriter(self.own, len(missing), n_tokens, self.token_bytes), missing

    def _free(self, size: int, keep: set[Path]) -> bool:
        """Delete what was used least recently until there is room for `size` bytes."""
        paths = sorted(self.folder.glob(f"{FORMAT}-*/*{LAYERS}"), key=last_used)
        total = sum(map(n_bytes, paths))
        for path in paths:
            if total + size <= self.max_bytes:
                break
            if path in keep:
                continue
            before = n_bytes(path)
            self._delete(path)
            total -= before - n_bytes(path)
        return total + size <= self.max_bytes

    def _delete(self, path: Path) -> None:
        if path.parent == self.own:  # whose lock we hold
            delete(path)
            return
        lock = FileLock(path.parent / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:  # being filled
            return
        try:
            delete(path)
        finally:
            lock.release()

    def compute(self, missing: Wanted, writer: SegmentWriter, progress: Progress | None) -> None:
        """Encode sentences, the longest first, and make them safe group by group."""
        n_tokens = sum(map(len, missing.values()))
        done = 0
        for group in self._groups(sorted(missing.items(), key=lambda item: -len(item[1]))):
            layers = self.encoder.encode_layers([sentence for _, sentence in group])
            for (_, sentence), array in zip(group, layers, strict=True):
                assert array.shape == (self.encoder.n_layers, len(sentence), self.encoder.dim)
            writer.append((key, array) for (key, _), array in zip(group, layers, strict=True))
            done += sum(len(sentence) for _, sentence in group)
            if progress is not None:
                progress(done, n_tokens)

    def _groups(
        self, items: Sequence[tuple[bytes, list[str]]]
    ) -> Iterator[list[tuple[bytes, list[str]]]]:
        group: list[tuple[bytes, list[str]]] = []
        size = 0
        for item in items:
            group.append(item)
            size += len(item[1]) * self.token_bytes
            if size >= GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _write_about(self) -> None:
        about = self.own / "about.json"
        if about.exists():
            return
        values = {
            "format": FORMAT,
            "name": self.encoder.name,
            "identity": self.encoder.identity,
            "n_layers": self.encoder.n_layers,
            "dim": self.encoder.dim,
        }
        write_lines(about, [json.dumps(values, indent=2)])


def _missing(wanted: Wanted, segments: Sequence[Segment]) -> Wanted:
    held = set[bytes]().union(*(segment.records for segment in segments))
    return {key: sentence for key, sentence in wanted.items() if key not in held}


def _shown(size: int) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e8 else f"{size:,} bytes"
