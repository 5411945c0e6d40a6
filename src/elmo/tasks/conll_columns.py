"""Files with a token per line and a blank line between sentences: what their formats share.

Columns are parted by tabs, so that a word may hold a space; or, in a line without one, by spaces.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmo.text import read_lines

FIRST_PART = "000"
"""Of a document, where no other is named."""
SPACES = re.compile(r"[ \t]+")
BEGIN = re.compile(r"#\s*begin document (.*)")
END = re.compile(r"#\s*end document")
NAME = re.compile(r"\((?P<name>.+)\);?(?:\s*part\s+(?P<part>\d+))?;?\s*")


class Row(NamedTuple):
    """A token's columns, and the line where they stand, from 1."""

    line: int
    columns: list[str]


class Begin(NamedTuple):
    """`#begin document (name); part 000`; the part is as written, and empty where there is none.

    The heading is all that follows `#begin document`, by which CoNLL-2012's scorer knows documents.
    """

    line: int
    name: str
    part: str
    heading: str


class End(NamedTuple):
    """`#end document`."""

    line: int


def read_sentences(path: str | Path) -> Iterator[list[Row]]:
    """Sentences of a file, each with at least one token, all of its tokens with as many columns.

    Raises:
        ValueError: Naming file and line, if a column is empty or the number of columns changes
            within a sentence; and as `elmo.text.read_lines`.
    """
    for part in _parts(path, documents=False):
        if isinstance(part, list):
            yield part


def read_documents(path: str | Path) -> Iterator[Begin | End | list[Row]]:
    """As `read_sentences`, with the lines that begin and end documents in CoNLL-2012's format."""
    return _parts(path, documents=True)


def check_words(words: Sequence[str], where: str) -> None:
    """Refuse words that a line of columns parted by tabs cannot hold."""
    for word in words:
        if not word.strip(" ") or re.search(r"[\t\n\r]", word):
            raise ValueError(
                f"{where}: {word!r} cannot stand in a column: leave out empty words, and tabs and "
                "newlines within words"
            )


def _parts(path: str | Path, *, documents: bool) -> Iterator[Begin | End | list[Row]]:
    rows: list[Row] = []
    for number, line in enumerate(read_lines(path), 1):
        text = line.rstrip(" \t\r")
        text = text if "\t" in text else text.lstrip(" ")
        border = _border(path, number, line) if documents and text.startswith("#") else None
        if text and border is None:
            rows.append(_row(path, number, text, rows))
            continue
        if rows:
            yield rows
            rows = []
        if border is not None:
            yield border
    if rows:
        yield rows


def _border(path: str | Path, number: int, line: str) -> Begin | End | None:
    text = line.lstrip(" ")
    if END.match(text):
        return End(number)
    begins = BEGIN.match(text)
    if begins is None:
        return None
    named = NAME.fullmatch(begins[1])
    if named is None:
        raise ValueError(
            f"{path}, line {number}: {text!r} begins a document, but expected "
            "#begin document (name); part 000"
        )
    return Begin(number, named["name"], named["part"] or "", begins[1])


def _row(path: str | Path, number: int, text: str, before: Sequence[Row]) -> Row:
    columns = text.split("\t") if "\t" in text else SPACES.split(text)
    for i, column in enumerate(columns, 1):
        if not column.strip(" "):
            raise ValueError(f"{path}, line {number}: column {i} is empty")
    if before and len(columns) != len(before[0].columns):
        raise ValueError(
            f"{path}, line {number}: {len(columns)} columns, but its sentence, from line "
            f"{before[0].line} on, has {len(before[0].columns)}; between sentences a blank line is "
            "wanted"
        )
    return Row(number, columns)
