"""Every usage of every word of a text: its vectors on disk, and its sentence.

The folder of an index holds

- `tokens`, `starts`, `types.json`: the text in numbers, see `UsageIndex`;
- `layer-mean.f16`, `layer-0.f16`, …: a row per token, scaled to length 1, in float16;
- `index.json`: text and encoder that it was made of, and how many rows of each layer are safe.
  It is replaced after rows are on disk, so that an interrupted build is gone on with.

Axes: tokens, dim, rows (some of the tokens), sentences_and_end.
"""

import difflib
import hashlib
import json
import logging
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float16, Int

from elmo.config import read_json_object
from elmo.encoders import Encoder
from elmo.folder_lock import LOCK_FILE, alone_in
from elmo.probes.layers import MEAN, Progress, unit
from elmo.store import check_room
from elmo.text import WHITESPACE, Errors, Tokenizer, count_lines, read_lines

logger = logging.getLogger(__name__)

FORMAT = 1
RECORD, TOKENS, STARTS, TYPES = "index.json", "tokens", "starts", "types.json"
GROUP_BYTES = 1 << 26
"""About so many bytes of layers are computed before they are written."""
MOST_SUGGESTED = 5

Layer = int | None
"""The number of a layer; None for the mean of all."""


class Usage(NamedTuple):
    """A word where it is used: `tokens[position]` of a sentence of the text.

    Attributes:
        sentence: Its number, from 0; sentences without tokens do not count.
        position: Of the word.
        tokens: Of the sentence.
    """

    sentence: int
    position: int
    tokens: list[str]

    @property
    def word(self) -> str:
        """The word as it is written there."""
        return self.tokens[self.position]

    def parts(self, n_around: int | None = None) -> tuple[str, str, str]:
        """What stands before the word, the word, and what stands after it.

        Args:
            n_around: Tokens to either side at most, with … where some are cut off; None for all.
        """
        first = 0 if n_around is None else max(0, self.position - n_around)
        end = len(self.tokens) if n_around is None else self.position + 1 + n_around
        before, after = self.tokens[first : self.position], self.tokens[self.position + 1 : end]
        return (
            " ".join(["…"] * (first > 0) + before),
            self.word,
            " ".join(after + ["…"] * (end < len(self.tokens))),
        )

    def marked(self, n_around: int | None = None) -> str:
        """The sentence with the word in [brackets]."""
        before, word, after = self.parts(n_around)
        return f"{before} [{word}] {after}".strip()


class UsageIndex:
    """An index of usages on disk; see `build_index`.

    Args:
        folder: Where it is.
        record: What its `index.json` says.

    Attributes:
        types: Each distinct token of the text.
        tokens: The type of every token, sentence after sentence.
        starts: Where each sentence starts in `tokens`, and at the end its length.
    """

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.folder = folder
        self.encoder_name: str = record["encoder"]["name"]
        self.identity: str = record["encoder"]["identity"]
        self.n_layers: int = record["encoder"]["n_layers"]
        self.dim: int = record["encoder"]["dim"]
        self.language: str = record["language"]
        self.files = [Path(file["path"]) for file in record["files"]]
        self.types: list[str] = json.loads((folder / TYPES).read_text(encoding="utf-8"))
        self.tokens: np.ndarray = np.fromfile(folder / TOKENS, dtype="<i4")
        self.starts: np.ndarray = np.fromfile(folder / STARTS, dtype="<i8")
        self._n_rows: dict[str, int] = record["layers"]

    @classmethod
    def open(cls, folder: str | Path) -> "UsageIndex":
        """Open an index whose text is as it was, as far as its files are still where they were.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is damaged or of another version, or a file of its text has changed.
        """
        folder = Path(folder)
        record = _read_record(folder)
        for file in record["files"]:
            path = Path(file["path"])
            if not path.exists():
                logger.info("%s is gone: whether %s is of its text is not known", path, folder)
            elif _fingerprint(path) != file:
                raise ValueError(_changed(path, folder))
        return cls(folder, record)

    @property
    def n_tokens(self) -> int:
        """Of the text."""
        return len(self.tokens)

    @property
    def n_sentences(self) -> int:
        """Those that have tokens."""
        return len(self.starts) - 1

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Those that are whole."""
        return tuple(_layer(name) for name, n in self._n_rows.items() if n == self.n_tokens)

    def vectors(self, layer: Layer = None) -> Float16[np.ndarray, "tokens dim"]:
        """Vectors of all tokens at a layer, of length 1 (or 0), mapped from disk.

        Raises:
            ValueError: If the index does not have that layer.
        """
        if layer not in self.layers:
            held = ", ".join(map(name_of, self.layers)) or "no layer yet"
            raise ValueError(
                f"{self.folder} has {held}, but not {name_of(layer)}: build it with that too"
            )
        # Copied where it is written to, not read-only: PyTorch warns of what it may not change.
        path, shape = self.folder / _file_name(layer), (self.n_tokens, self.dim)
        return np.memmap(path, dtype="<f2", mode="c", shape=shape).view(np.ndarray)

    def usage(self, row: int | np.integer) -> Usage:
        """Where the token with that number is used."""
        sentence = int(np.searchsorted(self.starts, row, side="right")) - 1
        start, end = self.starts[sentence : sentence + 2].tolist()
        return Usage(
            sentence, int(row - start), [self.types[t] for t in self.tokens[start:end].tolist()]
        )

    def rows(self, forms: Iterable[str]) -> Int[np.ndarray, " rows"]:
        """Numbers of all tokens that are one of the forms; case does not count.

        Raises:
            ValueError: If one of the forms never occurs; the nearest forms are named.
        """
        wanted: list[int] = []
        for form in forms:
            if form.lower() not in self._types_of:
                raise ValueError(never_occurs(form, self._types_of, str(self.folder)))
            wanted += self._types_of[form.lower()]
        return np.flatnonzero(np.isin(self.tokens, wanted))

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuse an encoder whose vectors are not those of the index.

        Raises:
            ValueError: If it has other weights or settings than the one that the index is of.
        """
        if encoder.identity != self.identity:
            raise ValueError(
                f"{self.folder} was built with {self.encoder_name}, and {encoder.name} has other "
                "weights or settings: give that encoder, or build the index anew"
            )

    @cached_property
    def _types_of(self) -> dict[str, list[int]]:
        """Types by their lower-cased form."""
        found: dict[str, list[int]] = {}
        for number, form in enumerate(self.types):
            found.setdefault(form.lower(), []).append(number)
        return found


def build_index(
    files: Iterable[str | Path],
    folder: str | Path,
    encoder: Encoder,
    *,
    layers: Iterable[Layer] = (None,),
    tokenizer: Tokenizer | None = None,
    errors: Errors = "strict",
    rebuild: bool = False,
    progress: Progress | None = None,
) -> UsageIndex:
    """Index every token of a text, at some layers.

    What the folder has already is kept: an interrupted build goes on, further layers are added.
    Memory grows by 4 bytes per token; the disk takes 2 · dim bytes per token and layer.

    Args:
        files: Text, a sentence on each line, compressed or not; lines without tokens are left out.
        folder: Of the index alone; made if it is missing.
        encoder: Where vectors come from.
        layers: Numbers of layers, and None for the mean of all.
        tokenizer: Splits lines; None where there is white space between tokens.
        errors: As for `elmo.text.read_lines`.
        rebuild: Whether to forget an index that is there.
        progress: Told of what is done.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If the text has no token, the encoder no such layer, or the folder holds
            something else, or an index of other text or another encoder.
        OSError: If the disk has no room.
    """
    folder = Path(folder)
    wanted = _wanted(layers, encoder)
    prints = [_fingerprint(Path(file)) for file in files]
    language = WHITESPACE if tokenizer is None else tokenizer.language
    if folder.is_dir() and not (folder / RECORD).exists():
        _check_own(folder)
    with alone_in(folder):
        if rebuild:
            (folder / RECORD).unlink(missing_ok=True)
        if not (folder / RECORD).exists():
            for path in folder.glob("layer-*.f16"):
                path.unlink()
            _write_text(folder, _sentences(prints, tokenizer, errors, progress))
            record: dict[str, Any] = {
                "format": FORMAT,
                "encoder": {
                    "name": encoder.name,
                    "n_layers": encoder.n_layers,
                    "dim": encoder.dim,
                    "identity": encoder.identity,
                },
                "files": prints,
                "language": language,
                "layers": {},
            }
            _write_record(folder, record)
        record = _read_record(folder)
        _check_text(record, prints, language, folder)
        return _with_layers(folder, record, encoder, wanted, progress)


def complete_index(
    index: UsageIndex,
    encoder: Encoder,
    *,
    layers: Iterable[Layer] = (None,),
    progress: Progress | None = None,
) -> UsageIndex:
    """Add layers to an index that was opened, from its own tokens; its text is not read.

    Args:
        index: Which one.
        encoder: Of which it was built.
        layers: Those that are there already are left as they are.
        progress: Told of what is done.

    Raises:
        ValueError: If the encoder is another one, or does not have such a layer.
        OSError: If the disk has no room.
    """
    wanted = _wanted(layers, encoder)
    with alone_in(index.folder):
        record = _read_record(index.folder)
        return _with_layers(index.folder, record, encoder, wanted, progress)


def built_with(folder: str | Path) -> str | None:
    """The name of the encoder that an index is of; None where there is no index."""
    record = Path(folder) / RECORD
    return str(read_json_object(record)["encoder"]["name"]) if record.exists() else None


def layer_of(
    layers: Float[np.ndarray, "layers tokens dim"], layer: Layer
) -> Float[np.ndarray, "tokens dim"]:
    """One of the layers, or for None the mean of all."""
    return layers.mean(axis=0) if layer is None else layers[layer]


def check_layer(layer: Layer, encoder: Encoder) -> None:
    """Refuse a layer that an encoder does not have.

    Raises:
        ValueError: If it is none of its numbers.
    """
    if layer is not None and not 0 <= layer < encoder.n_layers:
        raise ValueError(
            f"there is no layer {layer}: {encoder.name} has layers 0 to {encoder.n_layers - 1}"
        )


def name_of(layer: Layer) -> str:
    """A layer as a reader knows it."""
    return "the mean of layers" if layer is None else f"layer {layer}"


def never_occurs(word: str, forms: Iterable[str], where: str) -> str:
    """What to say of a word that a text does not have: which forms it has are nearest."""
    if word.split() != [word]:
        return f'"{word}" is not one word: usages of single tokens are looked for'
    near = difflib.get_close_matches(word.lower(), list(forms), n=MOST_SUGGESTED, cutoff=0.6)
    hint = f": the nearest forms are {', '.join(near)}" if near else ", nor does a form like it"
    return f'"{word}" never occurs in {where}{hint}'


# --------------------------------------------------------------------------------------- building


def _sentences(
    prints: Sequence[dict[str, Any]],
    tokenizer: Tokenizer | None,
    errors: Errors,
    progress: Progress | None,
) -> Iterator[list[str]]:
    paths = [Path(file["path"]) for file in prints]
    counts = [count_lines(path) for path in paths]
    total = None if None in counts else sum(n for n in counts if n is not None)
    done = 0
    for path in paths:
        for line in read_lines(path, errors):
            done += 1
            if progress is not None and done % 1000 == 0:
                tell(progress, "Reading", done, total, "lines")
            if tokens := tokens_of(line, tokenizer):
                yield tokens


def tokens_of(line: str, tokenizer: Tokenizer | None) -> list[str]:
    """Tokens of a line; without a tokenizer, what white space divides."""
    return line.split() if tokenizer is None else [token.text for token in tokenizer(line)]


def tell(progress: Progress, label: str, done: int, total: int | None, what: str) -> None:
    """Tell of what is done, as a share where it is known of how much."""
    if total:
        progress(label, done / total, f"{done:,} of {total:,} {what}")
    else:
        progress(label, 0.0, f"{done:,} {what}")


def _write_text(folder: Path, sentences: Iterable[list[str]]) -> None:
    """Number the tokens of a text, and write them."""
    numbers: dict[str, int] = {}
    tokens, starts = array("i"), array("q", [0])
    for sentence in sentences:
        tokens.extend([numbers.setdefault(token, len(numbers)) for token in sentence])
        starts.append(len(tokens))
    if not tokens:
        raise ValueError("the text has no token: give files with a sentence on each line")
    np.frombuffer(tokens, dtype=np.int32).astype("<i4").tofile(folder / TOKENS)
    np.frombuffer(starts, dtype=np.int64).astype("<i8").tofile(folder / STARTS)
    (folder / TYPES).write_text(json.dumps(list(numbers)), encoding="utf-8")


def _encode(
    index: UsageIndex,
    record: dict[str, Any],
    encoder: Encoder,
    wanted: Sequence[Layer],
    progress: Progress | None,
) -> None:
    """Compute what is missing of the layers, all of them from where the shortest ends."""
    safe: dict[str, int] = record["layers"]
    missing = [layer for layer in wanted if safe.get(_key(layer), 0) < index.n_tokens]
    if not missing:
        return
    start = min(safe.get(_key(layer), 0) for layer in missing)
    first = int(np.searchsorted(index.starts, start))
    row_bytes = 2 * index.dim
    check_room(index.folder / RECORD, (index.n_tokens - start) * row_bytes * len(missing))
    files = [(index.folder / _file_name(layer)).open("ab") for layer in missing]
    try:
        for file in files:
            file.truncate(start * row_bytes)
        for sentences, end in _groups(
            index, first, GROUP_BYTES // (4 * index.n_layers * index.dim)
        ):
            encoded = encoder.encode_layers(sentences)
            for layer, file in zip(missing, files, strict=True):
                for of_sentence in encoded:
                    file.write(unit(layer_of(of_sentence, layer)).astype("<f2").tobytes())
                file.flush()
                os.fsync(file.fileno())
                safe[_key(layer)] = end
            _write_record(index.folder, record)
            if progress is not None:
                tell(progress, "Encoding", end, index.n_tokens, "tokens")
    finally:
        for file in files:
            file.close()


def _groups(index: UsageIndex, first: int, n_tokens: int) -> Iterator[tuple[list[list[str]], int]]:
    """Sentences in order, together as many as have about so many tokens; and where they end."""
    while first < index.n_sentences:
        end = int(np.searchsorted(index.starts, index.starts[first] + max(1, n_tokens)))
        end = min(max(end, first + 1), index.n_sentences)
        edges = index.starts[first : end + 1].tolist()
        words = [index.types[t] for t in index.tokens[edges[0] : edges[-1]].tolist()]
        starts = [edge - edges[0] for edge in edges]
        yield [words[a:b] for a, b in pairwise(starts)], edges[-1]
        first = end


def _file_name(layer: Layer) -> str:
    return f"layer-{_key(layer)}.f16"


def _key(layer: Layer) -> str:
    """How the folder calls it."""
    return MEAN if layer is None else str(layer)


def _layer(key: str) -> Layer:
    return None if key == MEAN else int(key)


def _wanted(layers: Iterable[Layer], encoder: Encoder) -> list[Layer]:
    """Each layer once; one that the encoder does not have is refused."""
    wanted = list(dict.fromkeys(layers))
    for layer in wanted:
        check_layer(layer, encoder)
    return wanted


def _with_layers(
    folder: Path,
    record: dict[str, Any],
    encoder: Encoder,
    wanted: Sequence[Layer],
    progress: Progress | None,
) -> UsageIndex:
    """The index with all of these, once its missing rows are encoded; the folder is ours alone."""
    index = UsageIndex(folder, record)
    index.check_encoder(encoder)
    _encode(index, record, encoder, wanted, progress)
    return UsageIndex(folder, record)


def _fingerprint(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a file of text is wanted")
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": str(path.resolve()), "size": path.stat().st_size, "sha256": checksum}


def _changed(path: Path, folder: Path) -> str:
    return (
        f"{path} has changed since {folder} was built of it: build the index anew (rebuild=True, "
        "--rebuild)"
    )


def _check_text(
    record: dict[str, Any], prints: Sequence[dict[str, Any]], language: str, folder: Path
) -> None:
    """Refuse to go on with an index of other text."""
    before = record["files"]
    if [file["sha256"] for file in before] != [file["sha256"] for file in prints]:
        now = {file["path"]: file["sha256"] for file in prints}
        for file in before:
            if now.get(file["path"], file["sha256"]) != file["sha256"]:
                raise ValueError(_changed(Path(file["path"]), folder))
        names = ", ".join(Path(file["path"]).name for file in before)
        raise ValueError(
            f"{folder} was built of other text ({names}): give that, or build the index anew "
            "(rebuild=True, --rebuild)"
        )
    if record["language"] != language:
        raise ValueError(
            f"{folder} has the tokens of {record['language']}, but those of {language} are asked "
            "for: give another folder, or build the index anew (rebuild=True, --rebuild)"
        )


def _check_own(folder: Path) -> None:
    """Refuse a folder that holds anything but what an interrupted build leaves."""
    own = {LOCK_FILE, TOKENS, STARTS, TYPES}
    for path in sorted(folder.iterdir()):
        if path.name not in own and not path.match("layer-*.f16") and path.suffix != ".tmp":
            raise ValueError(
                f"{folder} is no index of usages, but holds {path.name}: give a folder of its own"
            )


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    beside = folder / f"{RECORD}.tmp"
    with beside.open("w", encoding="utf-8") as file:
        file.write(json.dumps(record, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, folder / RECORD)


def _read_record(folder: Path) -> dict[str, Any]:
    if not (folder / RECORD).exists():
        raise FileNotFoundError(
            f"{folder} has no index of usages: build one of files of text (--corpus)"
        )
    record = read_json_object(folder / RECORD)
    if record.get("format") != FORMAT:
        raise ValueError(
            f"{folder / RECORD}: format {record.get('format')}, but this version reads {FORMAT}: "
            "build the index anew (rebuild=True, --rebuild)"
        )
    n_tokens = (folder / TOKENS).stat().st_size // 4 if (folder / TOKENS).exists() else 0
    row_bytes = 2 * record["encoder"]["dim"]
    for name, n_rows in record["layers"].items():
        path = folder / _file_name(_layer(name))
        size = path.stat().st_size if path.exists() else 0
        if n_rows > n_tokens or size < n_rows * row_bytes:
            raise ValueError(
                f"{path} has {size:,} bytes, but {n_rows * row_bytes:,} of it were written: build "
                "the index anew (rebuild=True, --rebuild)"
            )
    return record
