"""Documents with clusters of mentions, in CoNLL-2012's format.

A mention is a span of the document's tokens, `document.tokens[start:end]`; a cluster holds all
mentions of one thing, and may be a singleton. In the last column `(7` opens a mention of cluster 7,
`7)` closes the one of its mentions that was opened last, `(7)` is one of a single token; several
stand between `|`. So mentions of one cluster can nest, but not cross; those of two can.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from elmo.tasks.conll_columns import (
    FIRST_PART,
    Begin,
    End,
    Row,
    check_words,
    read_documents,
)
from elmo.text import write_lines

logger = logging.getLogger(__name__)

Span = tuple[int, int]
"""Tokens of a document from the first to before the second."""
Clusters = tuple[tuple[Span, ...], ...]

UNKNOWN = "-"
WORD, SPEAKER, FEWEST_COLUMNS = 3, 9, 5
"""Columns, from 0. Five are enough where there are no speakers."""
NOTHING = ("-", "_", "*")
CELL = re.compile(r"(?:\(\d+\)?|\d+\))(?:\|(?:\(\d+\)?|\d+\)))*")
ITEM = re.compile(r"(\()?(\d+)(\))?")


@dataclass(frozen=True)
class Document:
    """A document.

    Attributes:
        name: As its first line says it.
        sentences: Their tokens.
        clusters: Of mentions; None if they are not known.
        speakers: Of each token of each sentence, `-` for none; or empty for none at all.
        part: Of a document in several, as written; empty if its first line names none.
        heading: What its first line says after `#begin document`, by which the scorer finds it;
            empty for `(name); part 000`.
    """

    name: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: Clusters | None = None
    speakers: tuple[tuple[str, ...], ...] = ()
    part: str = FIRST_PART
    heading: str = ""

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Of all sentences."""
        return tuple(chain.from_iterable(self.sentences))

    @property
    def genre(self) -> str:
        """What its name says of its kind: `nw` of `nw/wsj/00/wsj_0001`, `bio` of `GUM_bio_byron`.

        Empty if the name says nothing.
        """
        if "/" in self.name:
            return self.name.partition("/")[0]
        words = self.name.split("_")
        return words[1] if words[0] == "GUM" and len(words) > 2 else ""


def read_coref(path: str | Path, *, labelled: bool = True) -> list[Document]:
    """Read documents in CoNLL-2012's format; mentions as the reference scorer reads them.

    Clusters stand in the order of their first mentions, mentions by start and end. A mention
    that is there twice stays. How many mentions cross others is logged.

    Args:
        path: The file, which may be compressed.
        labelled: Whether clusters are wanted; otherwise the last column is passed over.

    Raises:
        ValueError: Naming file and line, if brackets do not match, a column is broken, a document
            has no sentence or no end, or two have the same name and part; and if there is none.
    """
    documents: list[Document] = []
    begin: Begin | None = None
    first_lines: dict[tuple[str, str], int] = {}
    sentences: list[list[Row]] = []
    for part in read_documents(path):
        if isinstance(part, Begin):
            _check_begin(path, part, begin, first_lines)
            begin, sentences = part, []
        elif begin is None:
            line = part.line if isinstance(part, End) else part[0].line
            raise ValueError(
                f"{path}, line {line}: stands outside of a document, but expected "
                "#begin document (name); part 000 before it"
            )
        elif isinstance(part, End):
            documents.append(_document(path, begin, sentences, labelled=labelled))
            begin = None
        else:
            sentences.append(part)
    if begin is not None:
        raise ValueError(
            f"{path}, line {begin.line}: document {begin.name} begins, but never ends; expected "
            "#end document"
        )
    if not documents:
        raise ValueError(
            f"{path}: holds no document, but expected #begin document (name); part 000"
        )
    n_crossing = sum(len(crossing(document.clusters or ())) for document in documents)
    if n_crossing:
        logger.warning(
            "%s: %d pairs of mentions cross, of which a model finds one mention at most",
            path,
            n_crossing,
        )
    return documents


def write_coref(
    path: str | Path, documents: Sequence[Document], clusters: Sequence[Sequence[Sequence[Span]]]
) -> None:
    """Write documents with clusters that were found in them, as the reference scorer reads them.

    Args:
        path: Compressed if its name says so.
        documents: With different names or parts, by which the scorer finds them.
        clusters: Of each document.

    Raises:
        ValueError: If mentions of one cluster cross, or one lies outside of its document; or if
            two documents have the same name and part.
    """
    check_names(documents)
    lines = (_lines(*pair) for pair in zip(documents, clusters, strict=True))
    write_lines(path, chain.from_iterable(lines))


def check_names(documents: Iterable[Document]) -> None:
    """Refuse two documents of the same name and part, by which the scorer finds them."""
    names: set[tuple[str, str]] = set()
    for document in documents:
        if (document.name, document.part) in names:
            raise ValueError(
                f"document {document.name}, part {document.part or 'none'}, is there twice, but is "
                "found by its name: give each its own name or part"
            )
        names.add((document.name, document.part))


def crossing(clusters: Iterable[Iterable[Span]]) -> list[tuple[Span, Span]]:
    """Pairs of mentions, of any clusters, that share tokens without one holding the other."""
    spans = sorted(set(chain.from_iterable(clusters)))
    pairs = []
    for i, (start, end) in enumerate(spans):
        for other in spans[i + 1 :]:
            if other[0] >= end:
                break
            if start < other[0] and end < other[1]:
                pairs.append(((start, end), other))
    return pairs


def in_order_of_reading(clusters: Iterable[Sequence[Span]]) -> list[list[Span]]:
    """Clusters as they are met in a file: by first mentions, those of one token first."""
    return sorted(
        (sorted(cluster) for cluster in clusters if cluster),
        key=lambda cluster: min((start, end > start + 1) for start, end in cluster),
    )


def _check_begin(
    path: str | Path, new: Begin, open_: Begin | None, first_lines: dict[tuple[str, str], int]
) -> None:
    if open_ is not None:
        raise ValueError(
            f"{path}, line {new.line}: document {new.name} begins before {open_.name}, from line "
            f"{open_.line} on, has ended; expected #end document before it"
        )
    first = first_lines.setdefault((new.name, new.part), new.line)
    if first != new.line:
        raise ValueError(
            f"{path}, line {new.line}: document {new.name}, part {new.part or 'none'}, begins a "
            f"second time, after line {first}; give each its own name or part"
        )


def _document(
    path: str | Path, begin: Begin, sentences: Sequence[Sequence[Row]], *, labelled: bool
) -> Document:
    if not sentences:
        raise ValueError(f"{path}, line {begin.line}: document {begin.name} has no sentence")
    rows = list(chain.from_iterable(sentences))
    has_speakers = min(len(row.columns) for row in rows) > SPEAKER + 1
    for row in rows:
        if len(row.columns) < (FEWEST_COLUMNS if labelled else WORD + 1):
            raise ValueError(
                f"{path}, line {row.line}: {len(row.columns)} columns, but at least "
                f"{FEWEST_COLUMNS} were expected: document, part, number, word, …, coreference"
            )
    return Document(
        begin.name,
        tuple(tuple(row.columns[WORD] for row in sentence) for sentence in sentences),
        _clusters(path, rows) if labelled else None,
        tuple(tuple(row.columns[SPEAKER] for row in sentence) for sentence in sentences)
        if has_speakers
        else (),
        begin.part,
        "" if begin.heading == _heading(begin.name, begin.part) else begin.heading,
    )


def _clusters(path: str | Path, rows: Sequence[Row]) -> Clusters:
    """Of the last column, in the reference scorer's way.

    In a cell it reads what is of one token first, then what opens, then what closes; in which order
    they stand there says nothing.
    """
    met: dict[int, list[Span]] = {}
    opened: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        cell = row.columns[-1]
        if cell in NOTHING:
            continue
        if CELL.fullmatch(cell) is None:
            raise ValueError(
                f"{path}, line {row.line}: the last column is {cell!r}, but expected mentions such "
                "as (7, 7), (7), several between |, or -"
            )
        items = [(begins, int(n), ends) for begins, n, ends in ITEM.findall(cell)]
        for _, n, _ in (item for item in items if item[0] and item[2]):
            met.setdefault(n, []).append((i, i + 1))
        for _, n, _ in (item for item in items if item[0] and not item[2]):
            met.setdefault(n, [])
            opened.setdefault(n, []).append(i)
        for _, n, _ in (item for item in items if not item[0]):
            if not opened.get(n):
                raise ValueError(
                    f"{path}, line {row.line}: {n}) closes a mention of cluster {n}, but none is "
                    "open"
                )
            met[n].append((opened[n].pop(), i + 1))
    for n, starts in opened.items():
        if starts:
            raise ValueError(
                f"{path}, line {rows[starts[-1]].line}: ({n} opens a mention that its document "
                "does not close"
            )
    return tuple(tuple(sorted(spans)) for spans in met.values())


def _lines(document: Document, clusters: Sequence[Sequence[Span]]) -> Iterator[str]:
    heading = document.heading or _heading(document.name, document.part)
    yield f"#begin document {heading}"
    check_words([document.name], "the name of a document")
    cells = _cells(document, clusters)
    name, number = "_".join(document.name.split()) or UNKNOWN, str(int(document.part or 0))
    for k, sentence in enumerate(document.sentences):
        speakers = document.speakers[k] if document.speakers else [UNKNOWN] * len(sentence)
        check_words([*sentence, *speakers], f"document {document.name}, sentence {k}")
        for i, (word, speaker) in enumerate(zip(sentence, speakers, strict=True)):
            columns = [name, number, str(i), word, *"-*---", speaker, "*", next(cells)]
            yield "\t".join(columns)
        yield ""
    yield "#end document"


def _heading(name: str, part: str) -> str:
    return f"({name}); part {part}" if part else f"({name});"


def _cells(document: Document, clusters: Sequence[Sequence[Span]]) -> Iterator[str]:
    """The last column: at each token what closes, the shortest first; then what opens."""
    n_tokens = len(document.tokens)
    closes: list[list[tuple[int, str]]] = [[] for _ in range(n_tokens)]
    opens: list[list[str]] = [[] for _ in range(n_tokens)]
    for n, cluster in enumerate(in_order_of_reading(clusters)):
        for start, end in cluster:
            if not 0 <= start < end <= n_tokens:
                raise ValueError(
                    f"document {document.name}: {(start, end)} is no span of its {n_tokens} tokens"
                )
            if end == start + 1:
                opens[start].append(f"({n})")
            else:
                opens[start].append(f"({n}")
                closes[end - 1].append((start, f"{n})"))
        for pair in crossing([cluster]):
            raise ValueError(
                f"document {document.name}: mentions {pair[0]} and {pair[1]} of one cluster cross, "
                "which the format cannot say; leave one out"
            )
    for ending, beginning in zip(closes, opens, strict=True):
        yield "|".join([text for _, text in sorted(ending, reverse=True)] + beginning) or UNKNOWN
