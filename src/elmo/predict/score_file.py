"""Scores as a file: tab-separated values or Parquet, a row per token or sentence; or JSON lines."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from elmo.predict.score import SentenceScore, as_json
from elmo.text import BEGIN_SENTENCE, END_SENTENCE, check_writable

ROWS = ("tokens", "sentences")
DIRECTIONS = ("forward", "backward", "combined")
MEASURES = ("total", "mean", "perplexity")
ROW_GROUP = 100_000

Row = Mapping[str, Any]
Write = Callable[[str], object]
"""A file's method."""


class Written(NamedTuple):
    """What was written."""

    n_sentences: int
    n_tokens: int
    n_unknown: int


def token_rows(line: int, score: SentenceScore, *, ends: bool = False) -> Iterator[Row]:
    """A row per token: where it stands, whether it is in the vocabulary, its surprisals.

    Args:
        line: Of the text, from 1.
        score: Of the sentence there.
        ends: Whether to give rows for `<S>`, place 0, which only the backward model predicts, and
            for `</S>`, which only the forward model does.
    """
    of = score.by_direction()
    if ends and score.backward_lm.end is not None:
        yield _row(line, 0, BEGIN_SENTENCE, True, {"backward": score.backward_lm.end})
    for i, token in enumerate(score.tokens):
        values = {name: float(surprisal.tokens[i]) for name, surprisal in of.items()}
        yield _row(line, i + 1, token, bool(score.known[i]), values)
    if ends and score.forward_lm.end is not None:
        yield _row(
            line, len(score.tokens) + 1, END_SENTENCE, True, {"forward": score.forward_lm.end}
        )


def sentence_row(line: int, score: SentenceScore) -> Row:
    """A row for the sentence: its tokens, those outside the vocabulary, its surprisals."""
    of = score.by_direction()
    return {
        "line": line,
        "tokens": len(score.tokens),
        "unknown": score.n_unknown,
        **{
            f"{name}_{measure}": getattr(of[name], measure)
            if name in of and of[name].n_predictions
            else None
            for name in DIRECTIONS
            for measure in MEASURES
        },
    }


def write_tsv(scores: Iterable[SentenceScore], write: Write, rows: str, ends: bool) -> Written:
    """Write a header and tab-separated rows; what there is not is left empty."""
    names = list(_types(rows))
    write("\t".join(names) + "\n")
    counter = _Counter(scores)
    for row in _rows(counter, rows, ends):
        write("\t".join(_cell(row[name]) for name in names) + "\n")
    return counter.written


def write_json_lines(scores: Iterable[SentenceScore], write: Write) -> Written:
    """Write an object per sentence, on a line each."""
    counter = _Counter(scores)
    for line, score in counter:
        write(json.dumps({"line": line, **as_json(score)}, ensure_ascii=False) + "\n")
    return counter.written


def write_scores(
    scores: Iterable[SentenceScore],
    path: str | Path,
    *,
    rows: str = "tokens",
    ends: bool = False,
    force: bool = False,
) -> Written:
    """Write scores to a file, which appears when it is whole.

    Args:
        scores: Of a text, line after line.
        path: `.tsv`, `.jsonl` or `.parquet`.
        rows: Whether a row is for one of the `tokens` or one of the `sentences`; JSON lines hold
            both.
        ends: As for `token_rows`.
        force: Whether to replace a file.

    Raises:
        FileExistsError: If the file exists, unless forced.
        FileNotFoundError: If its folder does not.
        ImportError: If Parquet is wanted, but pyarrow is not there.
        ValueError: If the name ends in something else, or `rows` is no choice.
    """
    path = Path(path)
    check_rows(rows)
    write = _writer(path, rows, ends)
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists; choose another name, or replace it with --force")
    check_writable(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        written = write(scores, beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return written


def check_rows(rows: str) -> None:
    """Refuse what is no choice of rows."""
    if rows not in ROWS:
        raise ValueError(f"rows is {rows!r}, but expected one of {', '.join(ROWS)}")


def _writer(
    path: Path, rows: str, ends: bool
) -> Callable[[Iterable[SentenceScore], Path], Written]:
    def tsv(scores: Iterable[SentenceScore], to: Path) -> Written:
        with to.open("w", encoding="utf-8", newline="\n") as file:
            return write_tsv(scores, file.write, rows, ends)

    def json_lines(scores: Iterable[SentenceScore], to: Path) -> Written:
        with to.open("w", encoding="utf-8", newline="\n") as file:
            return write_json_lines(scores, file.write)

    def parquet(scores: Iterable[SentenceScore], to: Path) -> Written:
        return _write_parquet(scores, to, rows, ends)

    suffixes = {".tsv": tsv, ".jsonl": json_lines, ".parquet": parquet}
    try:
        return suffixes[path.suffix.lower()]
    except KeyError:
        raise ValueError(
            f"{path} ends in {path.suffix!r}, which names no format; choose one of "
            f"{', '.join(suffixes)}"
        ) from None


def _write_parquet(scores: Iterable[SentenceScore], to: Path, rows: str, ends: bool) -> Written:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            '.parquet needs pyarrow; install it with: pip install "elmo-torch[parquet]"'
        ) from None
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in _types(rows).items()])
    counter = _Counter(scores)
    with pq.ParquetWriter(to, schema, compression="zstd") as writer:
        waiting: list[Row] = []
        for row in _rows(counter, rows, ends):
            waiting.append(row)
            if len(waiting) == ROW_GROUP:
                writer.write_table(pa.Table.from_pylist(waiting, schema))
                waiting = []
        writer.write_table(pa.Table.from_pylist(waiting, schema))
    return counter.written


class _Counter:
    """Numbers sentences from 1, and counts what is in them."""

    def __init__(self, scores: Iterable[SentenceScore]) -> None:
        self._scores = scores
        self.written = Written(0, 0, 0)

    def __iter__(self) -> Iterator[tuple[int, SentenceScore]]:
        for line, score in enumerate(self._scores, start=1):
            sentences, tokens, unknown = self.written
            self.written = Written(
                sentences + 1, tokens + len(score.tokens), unknown + score.n_unknown
            )
            yield line, score


def _rows(scores: Iterable[tuple[int, SentenceScore]], rows: str, ends: bool) -> Iterator[Row]:
    for line, score in scores:
        if rows == "sentences":
            yield sentence_row(line, score)
        else:
            yield from token_rows(line, score, ends=ends)


def _types(rows: str) -> dict[str, type]:
    check_rows(rows)
    if rows == "tokens":
        surprisals = dict.fromkeys(DIRECTIONS, float)
        return {"line": int, "place": int, "token": str, "known": bool, **surprisals}
    measures = [f"{name}_{measure}" for name in DIRECTIONS for measure in MEASURES]
    return {"line": int, "tokens": int, "unknown": int, **dict.fromkeys(measures, float)}


def _row(line: int, place: int, token: str, known: bool, values: Mapping[str, float]) -> Row:
    surprisals = {name: values.get(name) for name in DIRECTIONS}
    return {"line": line, "place": place, "token": token, "known": known, **surprisals}


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
