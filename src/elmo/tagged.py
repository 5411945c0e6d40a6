"""Sentences with a label on each token, in the formats of CoNLL and of Universal Dependencies.

Columns (CoNLL-2003, WNUT and their like): a line is a token, its columns stand between spaces or
tabs, the token first and by default the tag last; a blank line ends a sentence. CoNLL-U: ten
columns between tabs. `.gz`, `.xz` and `.zst` are decompressed.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

from elmo.config import suggest
from elmo.text import COMPRESSED, read_lines

DOCUMENT_START = "-DOCSTART-"
LAST = -1
CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


class ConlluLines(NamedTuple):
    """Lines of a sentence of CoNLL-U, and the column that tags belong in."""

    lines: tuple[str, ...]
    column: int


@dataclass(frozen=True)
class TaggedSentence:
    """The tokens of a sentence and, where they are known, their tags.

    Attributes:
        tokens: One at least.
        tags: One for each token; None where they are not known.
        conllu: What tags that are found are written into, of CoNLL-U that was read without its own.
        where: The file and the line where it begins, if it is from one.

    Raises:
        ValueError: If it has no tokens, or not one tag for each.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    conllu: ConlluLines | None = None
    where: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ValueError("a sentence has no tokens: leave it out")
        if self.tags is not None and len(self.tags) != len(self.tokens):
            raise ValueError(
                f"{len(self.tags)} tags were given for the {len(self.tokens)} tokens of "
                f"{' '.join(self.tokens[:8])!r}: one each"
            )


def read_tagged(
    path: str | Path, *, column: int | str | None = None, labelled: bool = True
) -> list[TaggedSentence]:
    """Read a file of tagged sentences: CoNLL-U or columns.

    CoNLL-U is known by a name in `.conllu`, or by a first token with ten columns between tabs, of
    which the first is a number.

    Args:
        path: The file.
        column: Which column holds the tags. In CoNLL-U a name, `upos` if None, or `xpos`; in
            others a number from 0, negative from the last, which is taken if None.
        labelled: Whether tags are wanted. If not, they are passed over; a file of columns may have
            one only, the tokens; and sentences of CoNLL-U keep their lines.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line has not the columns it should have, naming file and line; if there
            is no such column; if the file has no sentence.
    """
    path = Path(path)
    kept = path.with_suffix("") if path.suffix in COMPRESSED else path
    conllu = kept.suffix == ".conllu" or _begins_as_conllu(path)
    lines = list(read_lines(path)) if conllu else []
    if conllu:
        rows = _conllu_rows(path, lines, "upos" if column is None else column)
    else:
        rows = _column_rows(path, LAST if column is None else column, labelled)
    sentences = []
    for sentence in _sentences(rows):
        tokens, tags, numbers = zip(*sentence, strict=True)
        where = f"{path}, line {numbers[0]}"
        sentences.append(TaggedSentence(tokens, tags if labelled else None, where=where))
    if not sentences:
        raise ValueError(f"{path} has no sentences, but at least one is needed")
    if conllu and not labelled:
        at = CONLLU_COLUMNS.index(str(column or "upos"))
        blocks = groupby(lines, key=lambda line: bool(line.strip()))
        kept_lines = (ConlluLines(tuple(block), at) for has_text, block in blocks if has_text)
        return [replace(s, conllu=of) for s, of in zip(sentences, kept_lines, strict=True)]
    return sentences


def _begins_as_conllu(path: Path) -> bool:
    for line in read_lines(path):
        if line.strip() and not line.startswith("#"):
            values = line.split("\t")
            has_id = re.fullmatch(r"[0-9]+([-.][0-9]+)?", values[0]) is not None
            return has_id and len(values) == len(CONLLU_COLUMNS)
    return False


Row = tuple[str, str, int] | None
"""A token, its tag and its line, or the end of a sentence."""


def _sentences(rows: Iterable[Row]) -> Iterator[list[tuple[str, str, int]]]:
    sentence: list[tuple[str, str, int]] = []
    for row in rows:
        if row is not None:
            sentence.append(row)
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _column_rows(path: Path, column: int | str, labelled: bool) -> Iterator[Row]:
    if not isinstance(column, int):
        raise ValueError(
            f"{path}: column is {column!r}, but columns have numbers here: give one from 0 on, or "
            "-1 for the last"
        )
    first: tuple[int, int] | None = None  # number of columns, line
    for number, line in enumerate(read_lines(path), 1):
        # Only what separates columns: a token may be a no-break space.
        values = [value for value in re.split("[ \t]+", line.strip(" \t")) if value]
        if not values or values[0] == DOCUMENT_START:
            yield None
            continue
        if first is None:
            first = len(values), number
            if labelled and len(values) == 1:
                raise ValueError(
                    f"{path}, line {number}: {line!r} has one column, but a token and its tag were "
                    "expected"
                )
            if labelled and (column == 0 or not -len(values) < column < len(values)):
                raise ValueError(
                    f"{path}, line {number}: has {len(values)} columns, of which {column} holds no "
                    "tags: give another column"
                )
        if len(values) != first[0]:
            raise ValueError(
                f"{path}, line {number}: {line!r} has {len(values)} columns, but line {first[1]} "
                f"has {first[0]}: each line needs the same, and sentences end at blank lines"
            )
        yield values[0], values[column] if labelled else "", number


def _conllu_rows(path: Path, lines: Iterable[str], column: int | str) -> Iterator[Row]:
    if column not in CONLLU_COLUMNS:
        raise ValueError(
            f'{path}: column is "{column}", which CoNLL-U has not.'
            f"{suggest(str(column), CONLLU_COLUMNS)}"
        )
    at = CONLLU_COLUMNS.index(column)
    opened: int | None = None  # the line with which a sentence began
    n_words = 0
    for number, line in enumerate(chain(lines, [""]), 1):
        if not line.strip():
            if opened is not None and n_words == 0:
                raise ValueError(
                    f"{path}, line {opened}: begins a sentence without tokens: leave it out"
                )
            opened, n_words = None, 0
            yield None
            continue
        opened = opened or number
        if line.startswith("#"):
            continue
        values = line.split("\t")
        if len(values) != len(CONLLU_COLUMNS):
            raise ValueError(
                f"{path}, line {number}: {line!r} has {len(values)} columns, but CoNLL-U has "
                f"{len(CONLLU_COLUMNS)}, between tabs"
            )
        # `3-4` is a token of several words, which follow; `8.1` a word that is not in the text.
        if re.fullmatch(r"\d+[-.]\d+", values[0]):
            continue
        if not values[0].isdecimal() or not values[1]:
            raise ValueError(
                f"{path}, line {number}: {line!r} has id {values[0]!r} and form {values[1]!r}, but "
                "expected a number and a word"
            )
        n_words += 1
        yield values[1], values[at], number
