"""Words with their senses, in the format of the unified evaluation framework, in and out.

An XML file has the sentences; in it, `instance` elements are the words to disambiguate, `wf` the
others. A file of keys beside it has a line per instance: its id and one right sense or several. An
inventory has a line per lemma and part of speech, its senses between spaces, the most frequent
first; the three columns stand between tabs. Any of them may be compressed.

Source:
    A. Raganato, J. Camacho-Collados, R. Navigli (2017): Word sense disambiguation: a unified
    evaluation framework and empirical comparison. EACL.
"""

import lzma
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from elmo.text import COMPRESSED, read_lines, write_lines

DATA, KEYS = ".data.xml", ".gold.key.txt"
"""How the names of the two files of a set end, before `.gz` or the like."""
QUOTES = {"``": '"', "''": '"', "`": "'"}
"""The Penn Treebank's signs → those of running text, which is what encoders have read."""
NAMED = 3
"""Ids that a message names before it counts the rest."""

Word = tuple[str, str]
"""A lemma, in lower case with `_` for spaces, and its part of speech."""
Keys = Mapping[str, tuple[str, ...]]
"""The senses of each instance, by its id."""
Inventory = Mapping[Word, tuple[str, ...]]
"""The senses of each word, the most frequent first."""


@dataclass(frozen=True)
class Instance:
    """A word to disambiguate: `tokens[start:end]` of its sentence.

    Attributes:
        id: Of no other instance of its file.
        start: Its first token.
        end: Behind its last one.
        word: What its senses belong to.
        senses: The right ones; none where they are not known.
    """

    id: str
    start: int
    end: int
    word: Word
    senses: tuple[str, ...] = ()


@dataclass(frozen=True)
class WsdSentence:
    """The tokens of a sentence, and the words in it whose sense is asked for."""

    tokens: tuple[str, ...]
    instances: tuple[Instance, ...]


def read_wsd(path: str | Path, keys: Keys | None = None) -> list[WsdSentence]:
    """The sentences of an XML file, those without instances included.

    An element of several words (`stands still`) is as many tokens.

    Args:
        path: The file.
        keys: The senses of all of its instances and of no others; None if they are not known.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no XML of this kind, two instances have the same id, an instance has no
            key or a key no instance; the message names them.
    """
    path = Path(path)
    sentences: list[WsdSentence] = []
    seen: set[str] = set()
    keyless: list[str] = []
    for element in _elements(path):
        tokens: list[str] = []
        instances: list[Instance] = []
        for part in element:
            start = len(tokens)
            tokens += [QUOTES.get(token, token) for token in (part.text or "").split()]
            if part.tag != "instance":
                continue
            name, word = _instance(path, part)
            if start == len(tokens):
                raise ValueError(f"{path}: instance {name} has no text")
            if name in seen:
                raise ValueError(f"{path}: two instances have the id {name}, but each has its own")
            seen.add(name)
            if keys is not None and name not in keys:
                keyless.append(name)
                continue
            instances.append(Instance(name, start, len(tokens), word, (keys or {}).get(name, ())))
        if tokens:
            sentences.append(WsdSentence(tuple(tokens), tuple(instances)))
    if not seen:
        raise ValueError(f"{path} has no instance elements within sentences: nothing to look at")
    if keyless:
        raise ValueError(f"{path}: {_named(keyless, 'instance')} without a key in the file of keys")
    if keys is not None and (stray := [name for name in keys if name not in seen]):
        raise ValueError(
            f"{path}: {_named(stray, 'key')} without an instance: are the keys those of this file?"
        )
    return sentences


def read_set(path: str | Path, keys: str | Path | None = None) -> list[WsdSentence]:
    """The sentences of an XML file with the senses in a file of keys.

    Args:
        path: The XML file.
        keys: By default the file beside it with `.gold.key.txt` in place of `.data.xml`.

    Raises:
        FileNotFoundError: If one of them does not exist.
        ValueError: As `read_wsd` and `read_keys`.
    """
    return read_wsd(path, read_keys(find_keys(path) if keys is None else keys))


def find_keys(path: str | Path) -> Path:
    """The file of keys beside an XML file, compressed or not.

    Raises:
        FileNotFoundError: If there is none, or the name does not tell what it would be called.
    """
    path = Path(path)
    plain = path.with_suffix("") if path.suffix in COMPRESSED else path
    if not plain.name.endswith(DATA):
        raise FileNotFoundError(
            f"{path} does not end in {DATA}, so its keys have to be named: give their file"
        )
    beside = plain.with_name(plain.name.removesuffix(DATA) + KEYS)
    for suffix in ("", *COMPRESSED):
        if (found := beside.with_name(beside.name + suffix)).exists():
            return found
    raise FileNotFoundError(f"{beside} does not exist: name the file with the keys of {path}")


def read_keys(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The senses of each instance in a file of keys.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: Naming the line, if an id has no sense or stands twice; if there is no line.
    """
    keys: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        name, *senses = line.split()
        if not senses:
            raise ValueError(f"{path}, line {number}: {name} has no sense behind it")
        if name in keys:
            raise ValueError(f"{path}, line {number}: {name} has a line before this one already")
        keys[name] = tuple(dict.fromkeys(senses))
    if not keys:
        raise ValueError(f"{path} has no keys, but at least one is needed")
    return keys


def write_keys(path: str | Path, keys: Mapping[str, Sequence[str]]) -> None:
    """Write senses as `read_keys` and the framework's scorer read them, an instance per line.

    An instance without a sense is left out, as the scorer expects of what was not answered.
    """
    write_lines(path, (" ".join((name, *senses)) for name, senses in keys.items() if senses))


def read_inventory(path: str | Path) -> dict[Word, tuple[str, ...]]:
    """The senses of each lemma and part of speech, in their order.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: Naming the line, if it has not three columns, no sense, or a word that another
            line has.
    """
    inventory: dict[Word, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 3 or not columns[2].split():
            raise ValueError(
                f"{path}, line {number}: {line[:60]!r} is not lemma, part of speech and senses "
                "between tabs"
            )
        word = as_word(columns[0], columns[1])
        if word in inventory:
            raise ValueError(
                f"{path}, line {number}: {' '.join(word)} has a line before this one already"
            )
        inventory[word] = tuple(columns[2].split())
    if not inventory:
        raise ValueError(f"{path} has no senses, but at least one line is needed")
    return inventory


def as_word(lemma: str, pos: str) -> Word:
    """A lemma and part of speech as instances and inventories are compared."""
    return "_".join(lemma.lower().split()), pos


def instances_of(sentences: Iterable[WsdSentence]) -> list[Instance]:
    """All instances, in order."""
    return [instance for sentence in sentences for instance in sentence.instances]


def _elements(path: Path) -> Iterator[Any]:
    """The `sentence` elements of a file, one in memory at a time."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but an XML file was expected")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        with COMPRESSED.get(path.suffix, open)(path, "rb") as file:
            for _, element in ElementTree.iterparse(file):
                if element.tag == "sentence":
                    yield element
                    element.clear()
    except (ElementTree.ParseError, LookupError) as error:  # of an unknown encoding
        raise ValueError(f"{path} is no XML: {error}") from None
    except PermissionError:
        raise
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        raise ValueError(f"{path}: damaged or not of the kind its name says ({error})") from None


def _instance(path: Path, element: Any) -> tuple[str, Word]:
    name = element.get("id")
    for attribute in ("id", "lemma", "pos"):
        if not element.get(attribute):
            which = f"instance {name}" if name else f"the instance {element.text!r}"
            raise ValueError(f"{path}: {which} has no {attribute}")
    return name, as_word(element.get("lemma"), element.get("pos"))


def _named(names: Sequence[str], what: str) -> str:
    """Some of the names, and how many there are: `2 keys (a, b)`."""
    listed = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    return f"{len(names):,} {what}{'s' if len(names) > 1 else ''} ({listed})"
