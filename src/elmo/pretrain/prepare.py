"""Text of any size → a folder of arrays that training reads where it looks at them.

1. Blocks of raw text become sentences in numbers of the block's own (`blocks`), in parallel.
2. Sentences are held out or left out by what they say (`dedup`).
3. The sorted types of the blocks are merged into one table (`type_table`).
4. Vocabulary, word ids and character ids are made of that table.
5. Sentences in the table's numbers are written to shards, in parallel.

Until the end all lies in the folder `<folder>.partial`; one that was killed goes on with the blocks
that are complete. What is written depends on the text and the settings alone, not on the number of
processes. Memory does not grow with the text: the most that is held is a block per process.
"""

import json
import logging
import os
import shutil
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from elmo.config import MAX_CHARS, config_to_dict, read_json_object
from elmo.pretrain import sources as reading
from elmo.pretrain.blocks import number_block, read_array, sync_files, write_array
from elmo.pretrain.corpus import Corpus, Shard, compact_char_ids, word_ids
from elmo.pretrain.corpus_config import WRAPPED, CorpusConfig
from elmo.pretrain.dedup import DUPLICATE, EXCLUDED, HELDOUT, TRAIN, choose_sides
from elmo.pretrain.sources import (
    Block,
    Source,
    find_sources,
    fingerprint,
    read_blocks,
    repeated,
    unchanged,
)
from elmo.pretrain.type_table import TypeTable, map_array, merge_tables, type_chunks
from elmo.text import SPECIALS, Vocabulary

logger = logging.getLogger(__name__)

FORMAT = 1
RECORD = "corpus.json"
VOCABULARY = "vocabulary.txt"
SHARD_TOKENS = 1 << 24
MERGED_TOGETHER = 16
PATHS = ("train", "heldout", "vocabulary", "repeat")
"""Settings that name files: these are compared by what is in them, and how often they are read."""

Progress = Callable[[float, str], object]
Each = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]


@dataclass(frozen=True)
class Counts:
    """What a corpus holds.

    Attributes:
        n_sentences: Sentences to train on.
        n_tokens: Their tokens.
        n_unknown: Of these, outside the vocabulary.
        n_types: Distinct tokens of all text, with `<S>` and `</S>`.
        n_words: Words of the vocabulary.
        n_heldout_sentences: Sentences held out.
        n_heldout_tokens: Their tokens.
        n_heldout_unknown: Of these, outside the vocabulary.
        n_heldout_in_training: Held-out sentences that stand in the training text too.
        n_excluded: Sentences that were left out of training for that.
        n_duplicates: Sentences that were left out since an equal one came before.
    """

    n_sentences: int
    n_tokens: int
    n_unknown: int
    n_types: int
    n_words: int
    n_heldout_sentences: int
    n_heldout_tokens: int
    n_heldout_unknown: int
    n_heldout_in_training: int
    n_excluded: int
    n_duplicates: int


@dataclass(frozen=True, eq=False)
class PreparedCorpus:
    """Training text, and held-out text in the same numbers, as they lie in a folder."""

    train: Corpus
    heldout: Corpus | None
    counts: Counts
    folder: Path


def prepare(
    config: CorpusConfig,
    folder: str | Path,
    *,
    max_chars: int = MAX_CHARS,
    n_processes: int = 1,
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Make a corpus of text in a folder, or open the one that is there if nothing has changed.

    Args:
        config: The text, and what is to be made of it.
        folder: Where to put it. Beside it, `<folder>.partial` holds what is not finished.
        max_chars: Characters per token that the biLM will read, begin and end of word included.
        n_processes: How many work at a time. More than one are started by `spawn`: a script has
            to guard its main part by `if __name__ == "__main__"`.
        progress: Called with the share that is done, and what is being done.

    Raises:
        FileNotFoundError: If a pattern matches nothing.
        ImportError: If a kind of file needs a package that is not installed.
        OSError: If another process prepares this folder, or a process was killed.
        ValueError: If there is no sentence to train on; if text, a table or a vocabulary is not as
            it has to be; if a file is both trained on and held out; or if the folder holds
            something else.
    """
    folder = Path(folder)
    if n_processes < 1:
        raise ValueError(f"n_processes is {n_processes}, but at least 1 is wanted")
    train = repeated(find_sources(config.train), config.repeat)
    heldout = find_sources(config.heldout, heldout=True)
    if both := {os.path.realpath(s.path) for s in train} & {
        os.path.realpath(s.path) for s in heldout
    }:
        raise ValueError(f"{sorted(both)[0]} is both in corpus.train and in corpus.heldout")
    sources = [*train, *heldout]
    if config.vocabulary is not None:
        _read_vocabulary(config.vocabulary)  # what is wrong with it is told before anything is read
    if (folder / RECORD).exists():
        changes = _changes(read_json_object(folder / RECORD), config, max_chars, sources)
        if not changes:
            return _open(folder)
        logger.warning("%s is prepared again: %s", folder, "; ".join(changes))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} holds something else than a prepared corpus: name another")
    plan = _plan(config, max_chars, sources)
    with _work_folder(folder, plan) as work, _workers(n_processes) as each:
        _Preparation(config, max_chars, sources, plan, work, each, progress).run()
        if folder.exists():
            os.replace(folder, work / "old")
        os.replace(work / "result", folder)
    shutil.rmtree(work, ignore_errors=True)
    return _open(folder)


def open_prepared(folder: str | Path) -> PreparedCorpus:
    """Open a corpus that `prepare` made; a warning tells which of its sources have changed since.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged, or of another version.
    """
    prepared = _open(Path(folder))
    record = read_json_object(prepared.folder / RECORD)
    for source in record["sources"]:
        if Path(source["name"]).exists() and not unchanged(source):
            logger.warning(
                "%s has changed since %s was made of it: prepare it again", source["name"], folder
            )
    return prepared


def _open(folder: Path) -> PreparedCorpus:
    record = read_json_object(folder / RECORD)
    if record.get("format") != FORMAT:
        raise ValueError(
            f"{folder / RECORD}: format {record.get('format')}, but this version reads {FORMAT}: "
            "prepare the corpus again"
        )
    for name, size in record["files"].items():
        found = (folder / name).stat().st_size if (folder / name).exists() else None
        if found != size:
            raise ValueError(
                f"{folder / name} has {found} bytes, but had {size} when it was made: prepare the "
                "corpus again"
            )
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    types, words = TypeTable(folder), map_array(folder, "words")
    char_ids = map_array(folder, "char_ids").reshape(len(types), record["max_chars"])

    def corpus(side: str) -> Corpus:
        shards = [
            Shard(map_array(folder, f"{name}.tokens"), map_array(folder, f"{name}.starts"))
            for name in record["shards"][side]
        ]
        checksum = record.get("checksums", {}).get(side)  # older versions wrote none
        return Corpus(shards, types, char_ids, vocabulary, words, checksum)

    heldout = corpus("heldout") if record["shards"]["heldout"] else None
    return PreparedCorpus(corpus("train"), heldout, Counts(**record["counts"]), folder)


def _plan(config: CorpusConfig, max_chars: int, sources: Sequence[Source]) -> dict[str, Any]:
    """What decides what the folder will hold."""
    vocabulary = None if config.vocabulary is None else fingerprint(Path(config.vocabulary))
    return {
        "format": FORMAT,
        "settings": {k: v for k, v in config_to_dict(config).items() if k not in PATHS},
        "max_chars": max_chars,
        "sources": [{**fingerprint(s.path), "heldout": s.heldout} for s in sources],
        "vocabulary": vocabulary,
    }


def _changes(
    record: dict[str, Any], config: CorpusConfig, max_chars: int, sources: Sequence[Source]
) -> list[str]:
    """In what a prepared corpus is not what is asked for."""
    if record.get("format") != FORMAT:
        return [f"its format was {record.get('format')} and is {FORMAT}"]
    settings = {**config_to_dict(config), "max_chars": max_chars}
    was = {**record["settings"], "max_chars": record["max_chars"]}
    changes = [
        f"{name} was {was.get(name)!r} and is {value!r}"
        for name, value in settings.items()
        if name not in PATHS and was.get(name) != value
    ]
    names = [(str(source.path), source.heldout) for source in sources]
    if names != [(source["name"], source["heldout"]) for source in record["sources"]]:
        changes.append("it was made of other files")
    else:
        changes += [f"{s['name']} has changed" for s in record["sources"] if not unchanged(s)]
    before = record["vocabulary"] and record["vocabulary"]["sha256"]
    if before != (config.vocabulary and fingerprint(Path(config.vocabulary))["sha256"]):
        changes.append("it had another vocabulary")
    return changes


def _read_vocabulary(path: str) -> Vocabulary:
    vocabulary = Vocabulary.read(path)
    if len(vocabulary.words) != len(set(vocabulary.words)):
        seen: set[str] = set()
        twice = next(w for w in vocabulary.words if w in seen or seen.add(w))  # type: ignore[func-returns-value]
        raise ValueError(f"{path}: the word {twice!r} stands there more than once: leave one")
    return vocabulary


@contextmanager
def _work_folder(folder: Path, plan: dict[str, Any]) -> Iterator[Path]:
    """The folder of what is unfinished, with what an interrupted preparation of this left there."""
    work = folder.with_name(f"{folder.name}.partial")
    plan = {**plan, "blocks": [reading.BLOCK_BYTES, reading.BLOCK_ROWS]}
    work.mkdir(parents=True, exist_ok=True)
    lock = FileLock(work / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise OSError(f"{folder} is being prepared by another process: wait for it") from None
    try:
        if not (work / "plan.json").exists() or read_json_object(work / "plan.json") != plan:
            for path in work.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != "lock":
                    path.unlink()
            (work / "blocks").mkdir()
            (work / "plan.tmp").write_text(json.dumps(plan), encoding="utf-8")
            os.replace(work / "plan.tmp", work / "plan.json")
        yield work
    finally:
        lock.release()


@contextmanager
def _workers(n_processes: int) -> Iterator[Each]:
    """Something that calls a function with each of many arguments, and gives results in order."""
    if n_processes == 1:
        yield lambda function, tasks: (function(*task) for task in tasks)
        return
    pool = ProcessPoolExecutor(n_processes, get_context("spawn"), initializer=_end_with_parent)

    def each(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        waiting: deque[Future[Any]] = deque()
        for task in tasks:
            waiting.append(pool.submit(function, *task))
            if len(waiting) > 2 * n_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield each
    except BrokenProcessPool:
        raise ChildProcessError(
            "a process of the preparation was killed, perhaps for want of memory: run it again to "
            "go on, with fewer processes if need be"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class _Part(NamedTuple):
    """A block, and where its types and sentences are: arguments of a worker."""

    block: Path
    parents: Sequence[Path]
    first_sentence: int


class _Preparation:
    def __init__(
        self,
        config: CorpusConfig,
        max_chars: int,
        sources: Sequence[Source],
        plan: dict[str, Any],
        work: Path,
        each: Each,
        progress: Progress | None,
    ) -> None:
        self.config, self.max_chars, self.sources = config, max_chars, sources
        self.plan, self.work, self.each = plan, work, each
        self.progress = progress or (lambda share, text: None)
        self.result = work / "result"

    def run(self) -> None:
        blocks, heldout = self._number_blocks()
        self.progress(0.8, "comparing sentences")
        overlap = choose_sides(blocks, heldout, self.config, self.work)
        lengths = [(block / "lengths").stat().st_size // 4 for block in blocks]
        firsts = np.concatenate(([0], np.cumsum(lengths))).tolist()
        self.progress(0.82, "counting types")
        counted = list(
            self.each(
                count_block,
                ((b, self.work / "sides", a) for b, a in zip(blocks, firsts, strict=False)),
            )
        )
        totals = np.array(counted, dtype=np.int64).reshape(-1, 4, 2).sum(axis=0)  # (sides, 2)
        self._check_totals(totals)
        nodes = self._merge(blocks)
        self.progress(0.88, "making the vocabulary")
        shutil.rmtree(self.result, ignore_errors=True)
        self.result.mkdir()
        vocabulary = self._write_types(nodes[-1][0])
        parents = [
            [level[i // MERGED_TOGETHER ** (k + 1)] for k, level in enumerate(nodes)]
            for i in range(len(blocks))
        ]
        parts = [_Part(*part) for part in zip(blocks, parents, firsts[:-1], strict=True)]
        shards, unknown = {}, {}
        for side, name in ((TRAIN, "train"), (HELDOUT, "heldout")):
            n_tokens = [count[side][1] for count in counted]
            shards[name], unknown[name] = self._write_shards(side, name, parts, n_tokens)
        counts = Counts(
            n_sentences=int(totals[TRAIN][0]),
            n_tokens=int(totals[TRAIN][1]),
            n_unknown=unknown["train"],
            n_types=len(TypeTable(self.result)),
            n_words=len(vocabulary),
            n_heldout_sentences=int(totals[HELDOUT][0]),
            n_heldout_tokens=int(totals[HELDOUT][1]),
            n_heldout_unknown=unknown["heldout"],
            n_heldout_in_training=overlap.heldout,
            n_excluded=int(totals[EXCLUDED][0]),
            n_duplicates=int(totals[DUPLICATE][0]),
        )
        if overlap.heldout:
            logger.warning(
                "%s of %s held-out sentences also stand in the training text, %s times; these %s",
                f"{overlap.heldout:,}",
                f"{counts.n_heldout_sentences:,}",
                f"{overlap.train:,}",
                "are left out of training"
                if self.config.exclude_heldout
                else "are trained on: to leave them out, set exclude_heldout",
            )
        files = {path.name: path.stat().st_size for path in sorted(self.result.iterdir())}
        record = {
            **self.plan,
            "counts": asdict(counts),
            "shards": shards,
            "checksums": {side: self._checksum(names) for side, names in shards.items()},
            "files": files,
        }
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (self.result / RECORD).write_text(text, encoding="utf-8")
        sync_files(self.result)
        self.progress(1.0, "done")

    def _number_blocks(self) -> tuple[list[Path], list[bool]]:
        """Number all blocks that are not complete yet; their folders, whether they are held out."""
        total = max(1, sum(source.path.stat().st_size for source in self.sources))
        folders: list[Path] = []
        heldout: list[bool] = []
        shares: list[float] = []

        def tasks() -> Iterator[tuple[Any, ...]]:
            before = 0
            for source in self.sources:
                wrapped = self.config.lines == WRAPPED
                for block in read_blocks(source, column=self.config.column, wrapped=wrapped):
                    folders.append(self.work / "blocks" / f"{len(folders):06}")
                    heldout.append(source.heldout)
                    shares.append((before + block.n_read) / total)
                    yield block, self.config, folders[-1]
                before += source.path.stat().st_size

        for done, _ in enumerate(self.each(_number_if_new, tasks())):
            self.progress(0.8 * shares[done], f"reading {self._file_of(shares[done] * total)}")
        return folders, heldout

    def _file_of(self, n_bytes: float) -> str:
        for source in self.sources:
            n_bytes -= source.path.stat().st_size
            if n_bytes <= 0:
                break
        return source.path.name

    def _check_totals(self, totals: np.ndarray) -> None:
        if not totals[:, 0].sum():
            raise ValueError("the corpus has no sentence: give files with text")
        if not totals[TRAIN][0]:
            raise ValueError(
                f"no sentence is left to train on: {totals[HELDOUT][0]:,} are held out and "
                f"{totals[EXCLUDED][0]:,} left out as those are held out too; give more text"
            )
        if self.config.heldout and not totals[HELDOUT][0]:
            raise ValueError("the held-out files have no sentence: give others, or none")
        if self.config.heldout_share and not totals[HELDOUT][0]:
            logger.warning(
                "of %s sentences a share of %s holds out none: give more text or a larger share",
                f"{totals[TRAIN][0]:,}",
                self.config.heldout_share,
            )

    def _merge(self, blocks: Sequence[Path]) -> list[list[Path]]:
        """Merge tables level by level, until one is left."""
        levels: list[list[Path]] = []
        below: Sequence[Path] = blocks
        shutil.rmtree(self.work / "merged", ignore_errors=True)
        (self.work / "merged").mkdir()
        while not levels or len(levels[-1]) > 1:
            groups = [below[i : i + MERGED_TOGETHER] for i in range(0, len(below), MERGED_TOGETHER)]
            into = [self.work / "merged" / f"{len(levels)}-{i:05}" for i in range(len(groups))]
            for _ in self.each(merge_tables, zip(groups, into, strict=True)):
                self.progress(0.84, "merging types")
            levels.append(into)
            below = into
        return levels

    def _write_types(self, root: Path) -> Vocabulary:
        """Write what belongs to types, and the vocabulary."""
        if self.config.vocabulary is None:
            vocabulary = self._frequent_words(root)
        else:
            vocabulary = _read_vocabulary(self.config.vocabulary)
        vocabulary.write(self.result / VOCABULARY)
        for name in ("types", "ends"):
            shutil.copyfile(root / name, self.result / name)
        n_types, done = len(TypeTable(root)), 0
        with (
            open(self.result / "words", "wb") as words_file,
            open(self.result / "char_ids", "wb") as chars_file,
        ):
            for chunk in type_chunks(root):
                types = [each.decode() for each in chunk]
                words = word_ids(vocabulary, types)
                words.tofile(words_file)
                compact_char_ids(types, self.max_chars).astype("<u2").tofile(chars_file)
                done += len(types)
                self.progress(0.88 + 0.04 * done / n_types, "spelling types")
        return vocabulary

    def _frequent_words(self, root: Path) -> Vocabulary:
        """As `Vocabulary.from_counts`, of which it gets no more words than it may need."""
        counts, types = map_array(root, "counts"), TypeTable(root)
        frequent = np.flatnonzero(counts >= self.config.min_count)
        # Equal counts stay in the order of the table, which is the alphabet's.
        order = frequent[np.argsort(-counts[frequent], kind="stable")]
        if self.config.max_words is not None:
            order = order[: self.config.max_words + len(SPECIALS) + 1]
        return Vocabulary.from_counts(
            {types[i]: int(counts[i]) for i in order.tolist()},
            max_words=self.config.max_words,
            min_count=self.config.min_count,
        )

    def _write_shards(
        self, side: int, name: str, parts: Sequence[_Part], n_tokens: Sequence[int]
    ) -> tuple[list[str], int]:
        """Write sentences of a side to shards; their names, and how many tokens are unknown."""
        groups: list[list[_Part]] = []
        room = 0
        for part, n in zip(parts, n_tokens, strict=True):
            if n:
                if room <= 0:
                    groups.append([])
                    room = SHARD_TOKENS
                groups[-1].append(part)
                room -= n
        names = [f"{name}-{i:05}" for i in range(len(groups))]
        tasks = (
            (group, side, self.work / "sides", self.result, shard)
            for group, shard in zip(groups, names, strict=True)
        )
        n_unknown = 0
        for done, n in enumerate(self.each(write_shard, tasks)):
            self.progress(0.92 + 0.08 * (done + 1) / len(groups), f"writing {name} text")
            n_unknown += n
        return names, n_unknown

    def _checksum(self, shards: Sequence[str]) -> str:
        """Of the sentences of some shards: the types, and which of them stand where."""
        parts = [f"{shard}.{part}" for shard in shards for part in ("tokens", "starts")]
        checksum = 0
        for name in ("types", "ends", *parts):
            with open(self.result / name, "rb") as file:
                while some := file.read(1 << 20):
                    checksum = zlib.crc32(some, checksum)
        return f"{checksum:08x}"


def _number_if_new(block: Block, config: CorpusConfig, folder: Path) -> None:
    if not folder.exists():
        number_block(block, config, folder)


def count_block(block: Path, sides_path: Path, first_sentence: int) -> list[tuple[int, int]]:
    """Write how often each type of a block is trained on; sentences and tokens of each side."""
    lengths, tokens = read_array(block, "lengths"), read_array(block, "tokens")
    sides = _sides(sides_path, first_sentence, len(lengths))
    trained_on = np.repeat(sides == TRAIN, lengths)
    n_types = (block / "ends").stat().st_size // 8
    write_array(block, "counts", np.bincount(tokens[trained_on], minlength=n_types))
    return [
        (int((sides == side).sum()), int(lengths[sides == side].sum()))
        for side in (TRAIN, HELDOUT, DUPLICATE, EXCLUDED)
    ]


def write_shard(
    parts: Sequence[_Part], side: int, sides_path: Path, result: Path, name: str
) -> int:
    """Write the sentences of one side of some blocks; how many of their tokens are unknown."""
    words = map_array(result, "words")
    unknown = Vocabulary.read(result / VOCABULARY).unknown
    end = n_unknown = 0
    with (
        open(result / f"{name}.tokens", "wb") as tokens_file,
        open(result / f"{name}.starts", "wb") as starts_file,
    ):
        np.zeros(1, dtype="<i8").tofile(starts_file)
        for part in parts:
            lengths = read_array(part.block, "lengths")
            here = _sides(sides_path, part.first_sentence, len(lengths)) == side
            numbers = read_array(part.block, "numbers")
            for parent in part.parents[:-1]:
                numbers = map_array(parent, "numbers")[numbers]
            tokens = numbers[read_array(part.block, "tokens")[np.repeat(here, lengths)]]
            tokens.astype("<i4").tofile(tokens_file)
            ends = end + np.cumsum(lengths[here], dtype="<i8")
            ends.tofile(starts_file)
            end += len(tokens)
            n_unknown += int(np.count_nonzero(words[tokens] == unknown))
    return n_unknown


def _sides(path: Path, first: int, n: int) -> np.ndarray:
    return np.fromfile(path, dtype=np.uint8, count=n, offset=first)
