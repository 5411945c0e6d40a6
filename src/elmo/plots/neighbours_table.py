"""Neighbours of a word in context as a table of HTML, static ones beside (table 4 of the paper)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from elmo.plots.html import page, page_path, table, text, write_page


class Query(NamedTuple):
    """A sentence and the word in it that is asked for: what stands before, it, what follows."""

    before: str
    word: str
    after: str


class Line(NamedTuple):
    """A usage and its cosine with the query: what stands before the word, it, and what follows."""

    cosine: float
    before: str
    word: str
    after: str


class NeighbourRow(NamedTuple):
    """A row of the table.

    Attributes:
        source: Where the neighbours come from, as `static:glove.txt` or `elmo, layer 2`.
        words: Neighbours that are words alone, and their cosines.
        lines: Neighbours that are usages.
        note: Why there are none.
    """

    source: str
    words: Sequence[tuple[str, float]] = ()
    lines: Sequence[Line] = ()
    note: str = ""


def neighbours_table(queries: Mapping[Query, Sequence[NeighbourRow]], *, title: str) -> str:
    """A page with a table for each query.

    Args:
        queries: By the query, the rows of its table.
        title: Of the page.
    """
    parts = []
    for query, rows in queries.items():
        before, word, after = map(text, query)
        parts.append(f"<h2>{before}<mark>{word}</mark>{after}</h2>")
        parts.append(
            table(
                ["source", "nearest neighbours"],
                [[text(row.source), _neighbours(row)] for row in rows],
                ["", ""],
            )
        )
    return page(title, "\n".join(parts))


def save_neighbours_table(
    path: str | Path, queries: Mapping[Query, Sequence[NeighbourRow]], *, title: str
) -> None:
    """Write what `neighbours_table` makes.

    Raises:
        ValueError: If the name does not end in `.html`.
        FileNotFoundError: If the folder does not exist.
    """
    write_page(page_path(path), neighbours_table(queries, title=title))


def _neighbours(row: NeighbourRow) -> str:
    words = ", ".join(
        f'<span title="cosine {cosine:.3f}">{text(word)}</span>' for word, cosine in row.words
    )
    lines = table(
        ["", "", "", ""],
        [
            [f"{line.cosine:.3f}", text(line.before), text(line.word), text(line.after)]
            for line in row.lines
        ],
        ["number", "before", "word", ""],
    )
    return words + text(row.note) + (lines if row.lines else "")
