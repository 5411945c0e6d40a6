"""Uses of words whose senses are known: WiC (pairs, same sense or not) and CoarseWSD-20."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from elmo.json_files import checked, field, read_json_lines
from elmo.text import check_text, read_lines

DATA, GOLD = ".data.txt", ".gold.txt"
SAME = {"T": True, "F": False}


class Use(NamedTuple):
    """A word in a sentence.

    Attributes:
        tokens: Of the sentence.
        places: Of the word; more than one where it has several tokens.
    """

    tokens: Sequence[str]
    places: tuple[int, ...]


class Pair(NamedTuple):
    """A word in two sentences.

    Attributes:
        word: Its lemma.
        uses: One per sentence.
        same: Whether it means the same in both.
    """

    word: str
    uses: tuple[Use, Use]
    same: bool


class SenseUse(NamedTuple):
    """A word in a sentence, and its sense there.

    Attributes:
        word: Whose senses these are.
        use: Where it stands.
        sense: Its name.
    """

    word: str
    use: Use
    sense: str


def read_pairs(path: str | Path) -> list[Pair]:
    """Pairs of WiC: `….data.txt`, and `….gold.txt` beside it, compressed or not.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If a line is no pair, or the files have different numbers of lines.
    """
    path = Path(path)
    if DATA not in path.name:
        raise ValueError(f"{path} is no name of WiC's pairs: they are in NAME{DATA}")
    beside = path.with_name(path.name.replace(DATA, GOLD))
    answers = []
    for number, line in enumerate(read_lines(beside), start=1):
        if line.strip() not in SAME:
            raise ValueError(f"{beside}, line {number}: is {line.strip()!r}, but expected T or F")
        answers.append(SAME[line.strip()])
    lines = list(read_lines(path))
    if len(lines) != len(answers):
        raise ValueError(
            f"{path} has {len(lines)} pairs, but {beside} has {len(answers)} answers: one each"
        )
    return [
        _pair(line, same, f"{path}, line {number}")
        for number, (line, same) in enumerate(zip(lines, answers, strict=True), start=1)
    ]


def read_sense_uses(path: str | Path) -> list[SenseUse]:
    """Uses of CoarseWSD-20, one JSON object per line, compressed or not.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is no such object, or its index lies outside the tokens.
    """
    uses = []
    for where, record in read_json_lines(path):
        tokens = field(record, "tokens", list, where)
        for i, token in enumerate(tokens):
            checked(token, str, f'{where}: "tokens"[{i}]')
        place = _place(field(record, "index", int, where), tokens, where)
        word, sense = field(record, "word", str, where), field(record, "sense", str, where)
        uses.append(SenseUse(word, Use(tokens, (place,)), sense))
    if not uses:
        raise ValueError(f"{path} holds no use of a word")
    return uses


def _pair(line: str, same: bool, where: str) -> Pair:
    check_text(line, where)
    fields = line.split("\t")
    if len(fields) != 5:
        raise ValueError(
            f"{where}: has {len(fields)} fields, but expected 5: lemma, part of speech, places, "
            "and two sentences"
        )
    word, _, places, *texts = fields
    numbers = places.split("-")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"{where}: the places are {places!r}, but expected two numbers, as 2-0")
    uses = []
    for number, text in zip(numbers, texts, strict=True):
        tokens = text.split()
        uses.append(Use(tokens, (_place(int(number), tokens, where),)))
    return Pair(word, (uses[0], uses[1]), same)


def _place(place: int, tokens: Sequence[str], where: str) -> int:
    if not 0 <= place < len(tokens):
        raise ValueError(f"{where}: token {place} is meant, but the sentence has {len(tokens)}")
    return place
