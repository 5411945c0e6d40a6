"""Labelled texts: trees of the Stanford Sentiment Treebank, tab-separated values, JSON lines.

`.gz`, `.xz` and `.zst` are decompressed.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.json_files import parsed
from elmo.text import COMPRESSED, Tokenizer, check_text, read_lines, write_lines

TEXT_HEADERS, LABEL_HEADERS = ("text", "sentence"), ("label", "labels")
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True)
class LabelledText:
    """A text, its tokens and, where they are known, its labels.

    Attributes:
        tokens: The text, tokenized.
        labels: One, several or none; None where they are not known.
        text: The text as it was given.
        id: What its file calls it, if anything.

    Raises:
        ValueError: If it has no tokens.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    text: str = ""
    id: str | None = None

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ValueError(f"the text {self.text!r} has no tokens: leave it out")


def read_texts(
    path: str | Path,
    *,
    labelled: bool = True,
    several: bool | None = None,
    phrases: bool = False,
    tokenizer: Tokenizer | None = None,
) -> list[LabelledText]:
    """Read a file of labelled texts, in the format that its name says.

    - `.tsv`: text, labels (several between commas) and, if wanted, an id, between tabs. A header
      `text`/`sentence`, `label`/`labels` is passed over. White space around a label is none of it.
    - `.jsonl`: objects with `text` (or `tokens`, a list), `label` (or `labels`, a list), and `id`.
    - `.txt`, `.tree`, `.trees`: a tree on each line, `(3 (2 It) (4 works))`; what the treebank
      writes otherwise, as `-LRB-` for a bracket, is put back.

    Args:
        path: The file.
        labelled: Whether labels are wanted. If not, they are passed over, and may be absent.
        several: Whether a text may have several, so that none is an answer too: `"labels": []`, or
            an empty column.
        phrases: Whether each phrase of a tree is a text of its own, and not the sentence alone.
        tokenizer: What splits raw text; None for English.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is not what it should be, naming file and line; if the name says no
            format; if the file has no texts.
    """
    path = Path(path)
    suffix = (path.with_suffix("") if path.suffix in COMPRESSED else path).suffix
    if suffix not in _FORMATS:
        raise ValueError(
            f"{path}: its name says no format of labelled texts: expected {', '.join(_FORMATS)} "
            "(--format of standard input)"
        )
    if phrases and _FORMATS[suffix] is not _trees:
        raise ValueError(f"{path}: has no phrases, as trees have ({', '.join(_TREES)})")
    tokenizer = tokenizer or Tokenizer()
    texts = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            found = _FORMATS[suffix](line, tokenizer, labelled, number)
            if labelled and not several:
                _check_labels(found)
            # A tree gives its phrases, the whole of it first.
            texts.extend(found if phrases else found[:1])
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    if not texts:
        raise ValueError(f"{path} has no texts, but at least one is needed")
    return texts


def known_labels(texts: Iterable[LabelledText]) -> list[str]:
    """All labels of the texts, in order."""
    return in_order(label for text in texts for label in text.labels or ())


def in_order(labels: Iterable[str]) -> list[str]:
    """Each label once: by size if all are whole numbers, else by the alphabet."""
    distinct = set(labels)
    if all(re.fullmatch("[0-9]+", label) for label in distinct):
        return sorted(distinct, key=lambda label: (int(label), label))
    return sorted(distinct)


def have_several_labels(texts: Iterable[LabelledText]) -> bool:
    """Whether any text has more than one label, so that each label is a decision of its own."""
    return any(len(text.labels or ()) > 1 for text in texts)


def unknown_labels(texts: Iterable[LabelledText], known: Iterable[str]) -> Counter[str]:
    """Labels of the texts that are not among the known, and of how many texts they are.

    A model cannot predict them, so each counts as wrong.
    """
    known = frozenset(known)
    return Counter(label for t in texts for label in t.labels or () if label not in known)


def write_texts(
    path: str | Path, texts: Sequence[LabelledText], predicted: Sequence[Sequence[str]]
) -> None:
    """Write texts with their predicted labels.

    A file `.jsonl` has an object on each line, with `text` and `predicted`, and with `labels` and
    `id` where they are known. Any other has lines of text, predicted labels between commas, and the
    id if there is one, between tabs; white space in a text or an id becomes a space. `read_texts`
    reads these where their name ends in `.tsv`, unless a label holds a comma itself. It is written
    beside and then renamed.
    """
    path = Path(path)
    kept = path.with_suffix("") if path.suffix in COMPRESSED else path
    line_of = _json_line if kept.suffix == ".jsonl" else _tsv_line
    write_lines(
        path, (line_of(text, labels) for text, labels in zip(texts, predicted, strict=True))
    )


def _check_labels(texts: Iterable[LabelledText]) -> None:
    for text in texts:
        if not text.labels:
            raise ValueError(
                f"the text {text.text[:40]!r} has no label: give one, leave it out, or set "
                "model.several = true if none is an answer"
            )


def _json_line(text: LabelledText, predicted: Sequence[str]) -> str:
    values: dict[str, Any] = {"text": text.text or " ".join(text.tokens)}
    values["predicted"] = list(predicted)
    if text.labels is not None:
        values["labels"] = list(text.labels)
    if text.id is not None:
        values["id"] = text.id
    return json.dumps(values, ensure_ascii=False)


def _tsv_line(text: LabelledText, predicted: Sequence[str]) -> str:
    columns = [" ".join((text.text or " ".join(text.tokens)).split()), ",".join(predicted)]
    return "\t".join(columns if text.id is None else [*columns, " ".join(text.id.split())])


def _tsv(line: str, tokenizer: Tokenizer, labelled: bool, number: int) -> list[LabelledText]:
    text, *others = line.split("\t")
    if number == 1 and _is_header(text, *others[:1], labelled=labelled):
        return []
    if len(others) > 2 or (labelled and not others):
        raise ValueError(
            f"{line[:80]!r} has {1 + len(others)} columns between tabs, but expected a text, its "
            "labels and, if wanted, an id"
        )
    labels = None
    if labelled:
        parts = (part.strip() for part in others[0].split(","))
        labels = tuple(dict.fromkeys(label for label in parts if label))
    return [_text(text, labels, others[1] if len(others) == 2 else None, tokenizer)]


def _is_header(text: str, *label: str, labelled: bool) -> bool:
    """Whether a first line names the columns; without labels there may be one alone."""
    named = text.lower() in TEXT_HEADERS and all(name.lower() in LABEL_HEADERS for name in label)
    return named and bool(label or not labelled)


def _json(line: str, tokenizer: Tokenizer, labelled: bool, number: int) -> list[LabelledText]:
    try:
        values = parsed(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error})") from None
    if not isinstance(values, dict):
        raise ValueError(f"holds {type(values).__name__}, but a JSON object was expected")
    labels = None
    if labelled:
        given = values.get("labels", values.get("label"))
        given = given if isinstance(given, list) else [given]
        if not all(type(label) in (str, int) for label in given):
            raise ValueError(
                f'"label" is {given!r}, but expected a string or a whole number '
                '(in "labels", a list)'
            )
        labels = tuple(dict.fromkeys(map(str, given)))
        check_text(" ".join(labels), '"label"')
    name = None if values.get("id") is None else str(values["id"])
    tokens, text = values.get("tokens"), values.get("text")
    if tokens is not None:
        _check_tokens(tokens)
        text = " ".join(tokens) if text is None else text
    if not isinstance(text, str):
        raise ValueError(f'"text" is {text!r}, but expected a string, or "tokens", a list of them')
    if tokens is None:
        return [_text(text, labels, name, tokenizer)]
    return [LabelledText(tuple(tokens), labels, text, name)]


def _check_tokens(tokens: object) -> None:
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError(f'"tokens" is {tokens!r}, but expected a list of strings')
    if not all(token.strip() for token in tokens):
        raise ValueError(f'"tokens" is {tokens!r}, but each holds more than white space')
    check_text(" ".join(tokens), '"tokens"')


def _text(
    text: str, labels: tuple[str, ...] | None, name: str | None, tokenizer: Tokenizer
) -> LabelledText:
    return LabelledText(tuple(token.text for token in tokenizer(text)), labels, text, name)


def _trees(line: str, tokenizer: Tokenizer, labelled: bool, number: int) -> list[LabelledText]:
    return [
        LabelledText(tokens, (label,) if labelled else None, " ".join(tokens))
        for label, tokens in _phrases(line)
    ]


def _phrases(tree: str) -> list[tuple[str, tuple[str, ...]]]:
    """Label and tokens of each phrase of a tree: the whole of it, then others from the left."""
    tokens: list[str] = []
    phrases: list[tuple[str, int, int]] = []
    unfinished: list[int] = []  # numbers of the phrases around
    # On plain spaces alone: a word may hold another.
    for piece in re.findall(r"\(|\)|[^() ]+", tree):
        if piece == "(":
            if phrases and not unfinished:
                raise ValueError(f"has more than one tree: {tree[:80]!r}")
            unfinished.append(len(phrases))
            phrases.append(("", len(tokens), 0))
        elif not unfinished:
            raise ValueError(f"{piece!r} stands outside the brackets of a tree: {tree[:80]!r}")
        elif piece == ")":
            number = unfinished.pop()
            label, start, _ = phrases[number]
            if not label or start == len(tokens):
                lacks = "tokens" if label else "label"
                raise ValueError(f"a phrase has no {lacks}: {tree[:80]!r}")
            phrases[number] = label, start, len(tokens)
        elif not phrases[unfinished[-1]][0]:
            label, start, end = phrases[unfinished[-1]]
            if (unfinished[-1], start) != (len(phrases) - 1, len(tokens)):
                raise ValueError(f"a phrase has no label: {tree[:80]!r}")
            phrases[unfinished[-1]] = piece, start, end
        else:
            tokens.append(BRACKETS.get(piece, piece.replace("\\/", "/").replace("\\*", "*")))
    if unfinished or not phrases:
        raise ValueError(f"{len(unfinished)} brackets are not closed: {tree[:80]!r}")
    return [(label, tuple(tokens[start:end])) for label, start, end in phrases]


_Format = Callable[[str, Tokenizer, bool, int], list[LabelledText]]
_TREES = (".txt", ".tree", ".trees")
_FORMATS: dict[str, _Format] = {".tsv": _tsv, ".jsonl": _json, **dict.fromkeys(_TREES, _trees)}
