"""Sentences with the arguments of their predicates: CoNLL-2012's and CoNLL-2005's columns.

Both have a column of role brackets per predicate, in the order of the predicates. CoNLL-2012 names
documents, and marks predicates by their rolesets (column 8); CoNLL-2005 has a column of lemmas,
`-` where there is no predicate, right before the brackets. `srl-eval.pl` takes that column and the
brackets alone: "props".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmo.tasks.conll_columns import (
    FIRST_PART,
    Begin,
    End,
    Row,
    read_documents,
    read_sentences,
)

VERB = "V"
NONE = "-"
WORD, LEMMA, ROLESET, ROLES = 3, 6, 7, 11
"""Columns of CoNLL-2012, from 0; after the roles one column of coreference."""
CELL = re.compile(r"((?:\([^()*\s]+)*)\*((?:[^()*\s]*\))*)")


class Argument(NamedTuple):
    """Tokens `start` to `end`, the latter not included, play a role: `ARG0`, `C-ARG1`, `V`."""

    role: str
    start: int
    end: int


@dataclass(frozen=True)
class Frame:
    """A predicate and its arguments.

    Attributes:
        predicate: Which token of the sentence it is, from 0.
        lemma: Of the predicate.
        arguments: By their starts, an outer one before those within it; None if they are not known.
        roleset: Its sense in PropBank, or `-`.
    """

    predicate: int
    lemma: str
    arguments: tuple[Argument, ...] | None = None
    roleset: str = NONE


@dataclass(frozen=True)
class SrlSentence:
    """A sentence and what its predicates say.

    Attributes:
        tokens: Its words, one at least.
        frames: Of its predicates, by their places; there may be none.
        document: The name of its document, if it has one.
        part: Of the document, as its file writes it.
    """

    tokens: tuple[str, ...]
    frames: tuple[Frame, ...] = ()
    document: str = ""
    part: str = FIRST_PART


def read_srl(path: str | Path, *, labelled: bool = True) -> list[SrlSentence]:
    """Read a file in CoNLL-2012's format, or CoNLL-2005's with the words in its first column.

    Which it is, the first line says.

    Args:
        path: The file, which may be compressed.
        labelled: Whether answers are wanted; otherwise columns of roles are passed over, whatever
            they hold, and may lack: arguments are None.

    Raises:
        ValueError: Naming file and line, if columns are broken; where answers are wanted, if there
            are not as many columns of roles as predicates, or brackets are not closed.
    """
    first = next(iter(read_documents(path)), None)
    if first is None:
        raise ValueError(f"{path}: holds no sentence")
    if isinstance(first, Begin) or _is_conll_2012(first):
        sentences = list(_read_conll_2012(path, labelled))
        if not sentences:
            raise ValueError(f"{path}: holds no sentence")
        return sentences
    sentences = list(_read_conll_2005(path, labelled))
    if sentences and not sentences[0].tokens:
        raise ValueError(
            f"{path}: its first column is read as that of predicates, and holds no words; put the "
            "words before it, as the first column"
        )
    return sentences


def read_props(path: str | Path) -> list[tuple[Frame, ...]]:
    """The frames of each sentence of a file as `srl-eval.pl` takes it, or of any `read_srl` reads.

    Raises:
        ValueError: As `read_srl`, but words are not wanted.
    """
    first = next(iter(read_documents(path)), None)
    if isinstance(first, list) and not _is_conll_2012(first):
        return [sentence.frames for sentence in _read_conll_2005(path, True)]
    return [sentence.frames for sentence in read_srl(path)]


def arguments_of(cells: Sequence[str]) -> tuple[Argument, ...]:
    """Arguments of a column of role brackets.

    Raises:
        BracketError: If a cell is no bracket, or brackets do not match.
    """
    found: list[Argument] = []
    open_: list[int] = []
    for i, cell in enumerate(cells):
        brackets = CELL.fullmatch(cell)
        if brackets is None:
            raise BracketError(i, f"{cell!r}, but expected role brackets such as (ARG1*, * or *)")
        for role in brackets[1].split("(")[1:]:
            open_.append(len(found))
            found.append(Argument(role, i, i))
        for role in brackets[2].split(")")[:-1]:
            if not open_:
                raise BracketError(i, f"{cell!r}, which closes a bracket that was not opened")
            last = open_.pop()
            if role and role != found[last].role:
                raise BracketError(i, f"{cell!r}, but ({found[last].role} was opened last")
            found[last] = found[last]._replace(end=i + 1)
    if open_:
        role, start, _ = found[open_[-1]]
        raise BracketError(start, f"({role}, which is not closed by the end of the sentence")
    return tuple(found)


class BracketError(ValueError):
    """A column of brackets is broken at a token."""

    def __init__(self, token: int, found: str) -> None:
        super().__init__(found)
        self.token = token


def _is_conll_2012(rows: object) -> bool:
    if not isinstance(rows, list):
        return False
    columns = rows[0].columns
    return len(columns) > ROLES and columns[2].isdecimal()


def _read_conll_2012(path: str | Path, labelled: bool) -> Iterator[SrlSentence]:
    document, part = "", FIRST_PART
    for rows in read_documents(path):
        if isinstance(rows, Begin):
            document, part = rows.name, rows.part or FIRST_PART
            continue
        if isinstance(rows, End):
            document, part = "", FIRST_PART
            continue
        if len(rows[0].columns) <= ROLES:
            raise ValueError(
                f"{path}, line {rows[0].line}: {len(rows[0].columns)} columns, but CoNLL-2012's "
                f"format has {ROLES + 1} and one per predicate"
            )
        marks = [row.columns[ROLESET] for row in rows]
        roles = range(ROLES, len(rows[0].columns) - 1)
        yield SrlSentence(
            tuple(row.columns[WORD] for row in rows),
            _frames(path, rows, marks, LEMMA, ROLESET, roles, labelled),
            document,
            part,
        )


def _read_conll_2005(path: str | Path, labelled: bool) -> Iterator[SrlSentence]:
    target: int | None = None
    for rows in read_sentences(path):
        n_columns = len(rows[0].columns)
        if target is None:
            # Most cells, and not all: where one is broken, that is told by its line.
            roles_of = [2 * sum("*" in cell for cell in c) > len(c) for c in _columns(rows)]
            target = max((i for i in range(n_columns) if not roles_of[i]), default=0)
        if target >= n_columns:
            raise ValueError(
                f"{path}, line {rows[0].line}: {n_columns} columns, but predicates stand in column "
                f"{target + 1} of the first sentence"
            )
        marks = [row.columns[target] for row in rows]
        roles = range(target + 1, n_columns)
        frames = _frames(path, rows, marks, target, None, roles, labelled)
        yield SrlSentence(tuple(row.columns[0] for row in rows) if target else (), frames)


def _columns(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    return zip(*(row.columns for row in rows), strict=True)


def _frames(
    path: str | Path,
    rows: Sequence[Row],
    marks: Sequence[str],
    lemma: int,
    roleset: int | None,
    roles: range,
    labelled: bool,
) -> tuple[Frame, ...]:
    """Frames of the tokens that have a mark, with their roles where these are wanted."""
    predicates = [i for i, mark in enumerate(marks) if mark != NONE]
    if labelled and len(roles) != len(predicates):
        raise ValueError(
            f"{path}, line {rows[0].line}: a sentence with {len(predicates)} predicates, but "
            f"{len(roles)} columns of roles"
        )
    frames = []
    for k, i in enumerate(predicates):
        columns = rows[i].columns
        arguments = None
        if labelled:
            try:
                arguments = arguments_of([row.columns[roles[k]] for row in rows])
            except BracketError as error:
                raise ValueError(
                    f"{path}, line {rows[error.token].line}: column {roles[k] + 1} has {error}"
                ) from None
        sense = NONE if roleset is None else columns[roleset]
        frames.append(Frame(i, columns[lemma], arguments, sense))
    return tuple(frames)
