"""Pairs of sentences: does the second, the hypothesis, follow from the first, the premise?

Read are SNLI's and MultiNLI's JSON lines, and tables with a header, such as SNLI's and SICK's own:

| what | JSON lines and SNLI's table | SICK's table |
|---|---|---|
| name of the pair | `pairID` | `pair_ID` |
| premise | `sentence1_binary_parse` or `sentence1` | `sentence_A` |
| hypothesis | `sentence2_binary_parse` or `sentence2` | `sentence_B` |
| label | `gold_label` | `entailment_judgment` or `entailment_label`, in lower case |
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elmo.json_files import field, read_json_lines
from elmo.text import Tokenizer, read_lines, write_lines

NO_CONSENSUS = "-"
"""In place of a gold label where the annotators did not agree; such pairs are not scored."""

BRACKETS: Mapping[str, str] = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
"""How parses write brackets that belong to the sentence."""

SICK_COLUMNS: Mapping[str, str] = {
    "pair_ID": "pairID",
    "sentence_A": "sentence1",
    "sentence_B": "sentence2",
    "entailment_judgment": "gold_label",
    "entailment_label": "gold_label",
}


@dataclass(frozen=True)
class Pair:
    """A premise and a hypothesis.

    Attributes:
        label: `entailment`, `neutral`, `contradiction` or what else the data have; None where
            there is none, or the annotators did not agree.
        id: As the data have it, or else the number of the line.
    """

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None
    id: str = ""


class Agreed(NamedTuple):
    """Pairs with a label, and how many others were left out."""

    pairs: list[Pair]
    n_left_out: int


def read_pairs(
    path: str | Path, tokenizer: Tokenizer | None = None, *, labelled: bool = True
) -> list[Pair]:
    """Pairs of a file, in order; `.gz` is decompressed. None is left out.

    A sentence is split as its parse is, where the file has one, or else by the tokenizer.

    Args:
        path: JSON lines, or a table with a header and tabs between its columns.
        tokenizer: English by default; `Tokenizer("whitespace")` where sentences are split already.
        labelled: Whether labels are wanted; otherwise they are passed over, and may lack.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line lacks what is wanted, or a sentence has no token, with the line; if
            there is no pair at all.
    """
    tokenizer = Tokenizer() if tokenizer is None else tokenizer
    pairs = [_pair(record, tokenizer, where, labelled) for record, where in _records(path)]
    if not pairs:
        raise ValueError(f"{path}: has no pairs of sentences, but at least one is wanted")
    return pairs


def read_text_pairs(path: str | Path, tokenizer: Tokenizer) -> list[Pair]:
    """Pairs of plain text: premise, tab and hypothesis on each line; empty lines are none.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is no pair, or a sentence has no token, with the line.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where, sentences = f"{path}, line {number}", line.split("\t")
        if len(sentences) != 2:
            raise ValueError(
                f"{where}: has {len(sentences) - 1} tabs, but one between premise and hypothesis "
                "is wanted"
            )
        record = dict(zip(("sentence1", "sentence2"), sentences, strict=True))
        pairs.append(_pair({**record, "pairID": str(number)}, tokenizer, where, False))
    return pairs


def agreed(pairs: Sequence[Pair]) -> Agreed:
    """The pairs that have a label; SNLI's others, marked `-`, are neither learned nor scored."""
    kept = [pair for pair in pairs if pair.label is not None]
    return Agreed(kept, len(pairs) - len(kept))


def write_pairs(path: str | Path, pairs: Sequence[Pair], predicted: Sequence[str]) -> None:
    """Write pairs as SNLI's JSON lines, tokens with spaces between, with a `predicted_label`."""
    write_lines(
        path,
        (
            json.dumps(
                {
                    "pairID": pair.id,
                    "sentence1": " ".join(pair.premise),
                    "sentence2": " ".join(pair.hypothesis),
                    **({} if pair.label is None else {"gold_label": pair.label}),
                    "predicted_label": label,
                },
                ensure_ascii=False,
            )
            for pair, label in zip(pairs, predicted, strict=True)
        ),
    )


def parsed_tokens(parse: str) -> list[str]:
    """The leaves of a binary parse, with brackets as they were.

    Example:
        >>> parsed_tokens("( ( Two people ) ( -LRB- ( outside -RRB- ) ) )")
        ['Two', 'people', '(', 'outside', ')']
    """
    return [BRACKETS.get(leaf, leaf) for leaf in parse.split() if leaf not in ("(", ")")]


def _pair(record: Mapping[str, Any], tokenizer: Tokenizer, where: str, labelled: bool) -> Pair:
    premise, hypothesis = (
        _tokens(record, name, tokenizer, where) for name in ("sentence1", "sentence2")
    )
    label = field(record, "gold_label", str, where).strip() if labelled else None
    if label == "":
        raise ValueError(
            f'{where}: "gold_label" is empty: give a label, or "{NO_CONSENSUS}" for none'
        )
    return Pair(
        premise,
        hypothesis,
        label=None if label == NO_CONSENSUS else label,
        id=field(record, "pairID", str, where),
    )


def _tokens(
    record: Mapping[str, Any], name: str, tokenizer: Tokenizer, where: str
) -> tuple[str, ...]:
    parse = f"{name}_binary_parse"
    if parse in record:
        name = parse
        tokens = parsed_tokens(field(record, parse, str, where))
    else:
        tokens = [token.text for token in tokenizer(field(record, name, str, where))]
    if not tokens:
        raise ValueError(
            f'{where}: "{name}" is {record[name]!r}, but a sentence of at least one token is wanted'
        )
    return tuple(tokens)


def _records(path: str | Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Each pair's fields by SNLI's names, and where they are."""
    first = next((line for line in read_lines(path) if line.strip()), "")
    if first.lstrip().startswith("{"):
        lines: Iterator[tuple[str, dict[str, Any]]] = read_json_lines(path)
    else:
        lines = _rows(path)
    for where, record in lines:
        yield {"pairID": where.rpartition(" ")[2], **record}, where


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    columns: list[str] = []
    is_sick = False
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        cells = line.split("\t")
        if not columns:
            columns = [SICK_COLUMNS.get(name, name) for name in cells]
            is_sick = columns != cells
            for wanted in ("sentence1", "sentence2"):
                if wanted not in columns:
                    raise ValueError(
                        f'{where}: is neither a JSON object nor a header with "{wanted}", but '
                        "SNLI's JSON lines or a table of SNLI or SICK is wanted"
                    )
            continue
        if len(cells) != len(columns):
            raise ValueError(
                f"{where}: has {len(cells)} columns, but the header has {len(columns)}: put one "
                "tab between columns, and none within"
            )
        record = dict(zip(columns, cells, strict=True))
        if is_sick and "gold_label" in record:
            record["gold_label"] = record["gold_label"].lower()
        yield where, record
