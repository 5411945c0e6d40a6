"""Files, folders and patterns → blocks of raw text, one after the other.

A block holds whole lines (or rows of a table) of one file. Where one ends depends on the file
alone, so that what is made of blocks does not depend on who makes it.
"""

import hashlib
import json
import logging
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from elmo.pretrain.corpus import find_files
from elmo.text import COMPRESSED, check_line

logger = logging.getLogger(__name__)

TEXT, PARQUET, ARROW = "text", "parquet", "arrow"
KINDS = {".txt": TEXT, **dict.fromkeys(COMPRESSED, TEXT), ".parquet": PARQUET, ".arrow": ARROW}
BLOCK_BYTES = 8 << 20
BLOCK_ROWS = 50_000
MOST_BYTES = 64 << 20
"""A line (or a wrapped paragraph) of more is refused: it has to be in memory as a whole."""


@dataclass(frozen=True)
class Source:
    """A file of text.

    Attributes:
        path: Where it is.
        kind: `text`, `parquet` or `arrow`.
        heldout: Whether it is held-out text.
    """

    path: Path
    kind: str
    heldout: bool = False


class Block(NamedTuple):
    """Whole lines or rows of a file.

    Attributes:
        source: The file.
        first: Number of the first line or row, from 1.
        text: Lines, undecoded; or a string, a list of tokens or None per row.
        n_read: Bytes of the file that have been read so far.
    """

    source: Source
    first: int
    text: bytes | list[Any]
    n_read: int


def find_sources(patterns: Iterable[str], *, heldout: bool = False) -> list[Source]:
    """Files of text that paths, folders and shell patterns stand for, each once.

    Of a folder, all files with a known suffix below it, sorted by name; others are told in a
    warning. A folder that `datasets` saved is its files, in the order of its own list.

    Raises:
        FileNotFoundError: If a pattern matches nothing, or a folder has no such file.
        ValueError: If a file is named whose suffix says nothing, or a folder holds several splits.
    """
    sources: dict[str, Source] = {}
    for path in find_files(patterns):
        for file in _files_of(path) if path.is_dir() else [path]:
            if file.suffix not in KINDS:
                raise ValueError(
                    f"{file}: the suffix {file.suffix!r} is none of text: expected one of "
                    f"{', '.join(KINDS)}, or a folder"
                )
            source = Source(file, KINDS[file.suffix], heldout)
            sources.setdefault(os.path.realpath(file), source)
    return list(sources.values())


def repeated(sources: Sequence[Source], repeat: Iterable[tuple[str, int]]) -> list[Source]:
    """Sources as often as they are to be read: the last pattern that matches a path counts.

    Raises:
        ValueError: If a pattern matches none of them.
    """
    times = {source: 1 for source in sources}
    for pattern, n in repeat:
        matched = [source for source in sources if fnmatchcase(str(source.path), pattern)]
        if not matched:
            raise ValueError(f"repeat names {pattern}, but no file of train matches it")
        times |= dict.fromkeys(matched, n)
    return [source for source in sources for _ in range(times[source])]


def _files_of(folder: Path) -> list[Path]:
    if (folder / "dataset_dict.json").exists():
        splits = json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        raise ValueError(
            f"{folder} holds the splits {', '.join(splits)}: name one, as {folder / splits[0]}"
        )
    if (folder / "state.json").exists() and (folder / "dataset_info.json").exists():
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        return [folder / file["filename"] for file in state["_data_files"]]
    files = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and _visible(path, folder)
    ]
    known = [path for path in files if path.suffix in KINDS]
    if not known:
        raise FileNotFoundError(f"{folder} has no file of text ({', '.join(KINDS)})")
    if others := [path.name for path in files if path.suffix not in KINDS]:
        more = ", …" if len(others) > 3 else ""
        logger.warning(
            "%s: %d files that are none of text are left out (%s%s)",
            folder,
            len(others),
            ", ".join(others[:3]),
            more,
        )
    return known


def _visible(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)


def fingerprint(path: Path) -> dict[str, Any]:
    """Name, size, time of change and SHA-256 of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    stat = path.stat()
    return {
        "name": str(path),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "sha256": digest,
    }


def unchanged(recorded: dict[str, Any]) -> bool:
    """Whether a file is what its fingerprint says; it is read only if its time has changed."""
    path = Path(recorded["name"])
    if not path.exists() or path.stat().st_size != recorded["size"]:
        return False
    same_time = path.stat().st_mtime_ns == recorded["mtime_ns"]
    return same_time or fingerprint(path)["sha256"] == recorded["sha256"]


def read_blocks(source: Source, *, column: str | None, wrapped: bool) -> Iterator[Block]:
    """Blocks of a file, in order.

    Args:
        source: The file.
        column: Of a table, where the text is; None finds it.
        wrapped: Whether a block may only end where a line without text stands.

    Raises:
        ImportError: If the kind of file needs a package that is not installed.
        ValueError: If the file is damaged, a line is longer than `MOST_BYTES`, or a table has no
            such column of text.
    """
    if source.kind == TEXT:
        return _blocks_of_text(source, wrapped)
    return _blocks_of_table(source, column)


def _blocks_of_text(source: Source, wrapped: bool) -> Iterator[Block]:
    path, first, rest, n_read = source.path, 1, b"", 0
    with open(path, "rb") as raw:
        opened = _decompressed(path, raw)
        while True:
            try:
                read = opened.read(BLOCK_BYTES)
            except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
                line = first + rest.count(b"\n")
                raise ValueError(
                    f"{path}: damaged or not of the kind its name says, after line {line - 1} "
                    f"({error})"
                ) from None
            if n_read == 0 and not rest:
                read = read.removeprefix(b"\xef\xbb\xbf")
            n_read = raw.tell()
            end = (_last_gap(read) if wrapped else read.rfind(b"\n") + 1) if read else 0
            if not read:
                if rest:
                    yield Block(source, first, rest, n_read)
                return
            if not end:
                rest += read
                if len(rest) > MOST_BYTES:
                    what = "paragraph" if wrapped else "line"
                    raise ValueError(
                        f"{path}, line {first}: a {what} of more than {MOST_BYTES >> 20} MiB; "
                        "break it up"
                    )
                continue
            text = rest + read[:end]
            yield Block(source, first, text, n_read)
            first, rest = first + text.count(b"\n"), read[end:]


def _decompressed(path: Path, raw: Any) -> Any:
    opener = COMPRESSED.get(path.suffix)
    if opener is None:
        return raw
    if path.suffix == ".zst":
        with opener(path, "rb"):  # tells if pyarrow is not there
            import pyarrow as pa

            return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return opener(raw, "rb")


def _last_gap(text: bytes) -> int:
    """Where the last line without text ends, 0 without any."""
    end = 0
    for match in re.finditer(rb"\n[ \t\r]*\n", text):
        end = match.end()
    return end


def _blocks_of_table(source: Source, column: str | None) -> Iterator[Block]:
    path = source.path
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            f"{path} needs pyarrow, which is not installed: pip install elmo-torch[parquet]"
        ) from None
    size = path.stat().st_size
    try:
        if source.kind == PARQUET:
            table = pq.ParquetFile(path)
            name = _text_column(table.schema_arrow, column, path)
            n_rows = max(1, table.metadata.num_rows)
            batches: Any = table.iter_batches(BLOCK_ROWS, columns=[name])
        else:
            file = pa.memory_map(str(path))
            try:
                table = pa.ipc.open_stream(file)
            except pa.ArrowInvalid:
                table = pa.ipc.open_file(file)
                table = (table.get_batch(i) for i in range(table.num_record_batches))
                first_batch = next(table, None)
                if first_batch is None:
                    return
                table = chain([first_batch], table)
                schema = first_batch.schema
            else:
                schema = table.schema
            name = _text_column(schema, column, path)
            n_rows, batches = 0, table
        first = 1
        for batch in batches:
            values = batch.column(batch.schema.get_field_index(name))
            for start in range(0, len(values), BLOCK_ROWS):
                rows = values.slice(start, BLOCK_ROWS).to_pylist()
                done = size * (first + len(rows)) // n_rows if n_rows else file.tell()
                yield Block(source, first, rows, min(size, done))
                first += len(rows)
    except pa.ArrowException as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{path}: damaged or not of the kind its name says ({said})") from None


def _text_column(schema: Any, column: str | None, path: Path) -> str:
    import pyarrow as pa

    def is_text(kind: Any) -> bool:
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind = kind.value_type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    names = [field.name for field in schema]
    strings = [f.name for f in schema if is_text(f.type) and not hasattr(f.type, "value_type")]
    there = ", ".join(f"{field.name} ({field.type})" for field in schema)
    if column is not None:
        if column not in names or not is_text(schema.field(column).type):
            raise ValueError(f"{path} has no column of text {column!r}; its columns are {there}")
        return column
    if "text" in names and is_text(schema.field("text").type):
        return "text"
    if len(strings) != 1:
        raise ValueError(
            f"{path} has {len(strings)} columns of strings, so that column has to be given; its "
            f"columns are {there}"
        )
    return strings[0]


def decode(text: bytes, path: Path, first: int, errors: str) -> str:
    """Lines of text, which are refused or mended as by `elmo.text.read_lines`."""
    if errors == "replace":
        return text.decode("utf-8", "replace").replace("\0", "\ufffd")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        decoded = text.decode("utf-8", "surrogateescape")
    else:
        if "\0" not in decoded:
            return decoded
    for number, line in enumerate(decoded.split("\n"), start=first):
        check_line(line, path, number)
    raise AssertionError("what was refused as a whole has a line that is")
