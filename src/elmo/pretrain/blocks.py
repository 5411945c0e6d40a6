"""A block of raw text → its sentences as numbers, and its types, sorted, in a folder of arrays.

Numbers are those of the block alone: 0 and 1 are `<S>` and `</S>`, as everywhere, the others follow
in the order of their UTF-8 bytes.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from elmo.pretrain.corpus_config import PARAGRAPHS, SENTENCES, CorpusConfig
from elmo.pretrain.sources import Block, decode
from elmo.text import BEGIN_SENTENCE, END_SENTENCE, WHITESPACE, Tokenizer, check_text

DTYPES = {
    "tokens": "<i4",
    "lengths": "<i4",
    "hashes": "<u8",
    "types": "u1",
    "ends": "<i8",
    "counts": "<i8",
    "numbers": "<i4",
    "starts": "<i8",
    "words": "<i4",
    "char_ids": "<u2",
}
"""Of the arrays in a folder; each is a file without a header, named for what it holds, maybe after
a dot (`train-00000.tokens`)."""


def write_array(folder: Path, name: str, array: Any) -> None:
    """Write an array of `DTYPES`."""
    np.asarray(array, dtype=DTYPES[name]).tofile(folder / name)


def read_array(folder: Path, name: str) -> np.ndarray:
    """Read an array of `DTYPES`."""
    return np.fromfile(folder / name, dtype=DTYPES[name])


def sync_files(folder: Path) -> None:
    """Have all files of a folder on the disk, before its name says that it is complete."""
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def number_block(block: Block, config: CorpusConfig, folder: Path) -> None:
    """Write the arrays of a block to a folder, which appears when it is complete.

    Raises:
        ValueError: If the block holds what no text has, with `errors="strict"`.
    """
    numbers = {BEGIN_SENTENCE: 0, END_SENTENCE: 1}
    tokens: list[int] = []
    lengths, hashes = [], []
    for sentence in sentences_of(block, config):
        lengths.append(len(sentence))
        tokens.extend([numbers.setdefault(token, len(numbers)) for token in sentence])
        said = "\0".join(sentence).encode()
        hashes.append(hashlib.blake2b(said, digest_size=8).digest())
    types = [token.encode() for token in numbers]
    order = [0, 1, *sorted(range(2, len(types)), key=types.__getitem__)]
    rank = np.empty(len(types), dtype=np.int32)
    rank[order] = np.arange(len(types))
    beside = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    write_array(beside, "tokens", rank[np.array(tokens, dtype=np.int32)])
    write_array(beside, "lengths", lengths)
    (beside / "hashes").write_bytes(b"".join(hashes))
    (beside / "types").write_bytes(b"".join(types[i] for i in order))
    write_array(beside, "ends", np.cumsum([len(types[i]) for i in order]))
    sync_files(beside)
    os.replace(beside, folder)


def sentences_of(block: Block, config: CorpusConfig) -> Iterator[Sequence[str]]:
    """Tokenized sentences of a block; those without tokens are left out."""
    if isinstance(block.text, bytes):
        text = decode(block.text, block.source.path, block.first, config.errors)
        texts: Any = text.split("\n")
        if config.lines not in (SENTENCES, PARAGRAPHS):
            texts = _paragraphs(texts)
    else:
        texts = _checked(block, config.errors)
    split = _tokenizer(config.language)
    for text in texts:
        if isinstance(text, list):  # tokens
            found = [text]
        elif config.lines != SENTENCES:
            found = split.sentences(text)
        elif config.language == WHITESPACE:
            found = [text.split()]
        else:
            found = [[token.text for token in split(text)]]
        yield from filter(None, found)


@lru_cache(1)
def _tokenizer(language: str) -> Tokenizer:
    return Tokenizer(language)


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Lines between those without text, joined."""
    paragraph: list[str] = []
    for line in lines:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield " ".join(paragraph)
            paragraph = []
    yield " ".join(paragraph)


def _checked(block: Block, errors: str) -> Iterator[Any]:
    """Rows of a table without what no text has; one without a value has no text."""
    for row, value in enumerate(block.text, start=block.first):
        parts = [] if value is None else [value] if isinstance(value, str) else value
        parts = ["" if part is None else part for part in parts]
        if errors == "replace":
            parts = [part.replace("\0", "\ufffd") for part in parts]
        for part in parts:
            check_text(part, f"{block.source.path}, row {row}")
        yield list(filter(None, parts)) if isinstance(value, list) else "".join(parts)
