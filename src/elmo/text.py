"""Raw text → tokens with character offsets; tokens → character ids; vocabulary; batches.

A token is read as the bytes of its UTF-8 form between a begin-of-word and an end-of-word id, padded
to `max_chars` (50 in every released model). Ids are those of the originals at inference: byte + 1,
so that 0 stands for "no token here".
"""

import gzip
import io
import lzma
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from elmo.config import MAX_CHARS, suggest

BEGIN_SENTENCE_CHAR, END_SENTENCE_CHAR, BEGIN_WORD_CHAR, END_WORD_CHAR, PADDING_CHAR = range(
    257, 262
)
BEGIN_SENTENCE, END_SENTENCE, UNKNOWN = "<S>", "</S>", "<UNK>"
SPECIALS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
WHITESPACE = "whitespace"
"""Instead of a language: the text is tokenized already, with white space between tokens."""

Errors = str
"""One of `ERRORS`."""
ERRORS = ("strict", "replace")
REPLACEMENT = "\ufffd"
BYTE_ORDER_MARK = "\ufeff"
MAX_TERM_ID = "!!!MAXTERMID"
"""A line of vocabulary files that is no word; bilm-tf passes over it."""


def _open_zstd(path: str | Path, mode: str, **text: Any) -> Any:
    if "t" in mode:
        return io.TextIOWrapper(_open_zstd(path, mode.replace("t", "b")), **text)
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(
            f"{path}: .zst needs pyarrow, which is not installed: pip install elmo-torch[parquet]"
        ) from None
    # A file of Python's own: its place says how much has been read.
    kind = pa.CompressedInputStream if mode == "rb" else pa.CompressedOutputStream
    return kind(pa.PythonFile(open(path, mode), mode=mode[0]), "zstd")


COMPRESSED: Mapping[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".zst": _open_zstd}


class Token(NamedTuple):
    """A token and where it stands: `text[start:end]` is the token."""

    text: str
    start: int
    end: int


MAX_REMEMBERED = 2_000_000
"""Characters of raw text after which a tokenizer forgets what it remembers of its words."""


class Tokenizer:
    """Split raw text into tokens that know their character offsets.

    Args:
        language: A language code that spaCy knows (`en`, `de`, `pt`, …, `xx` for any), whose rules
            split the text; or `whitespace` for text that is tokenized already.

    Raises:
        ValueError: If spaCy has no such language, or the language needs a package of its own.
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._nlp = None if language == WHITESPACE else _blank_pipeline(language)
        self._n_read = 0

    @cached_property
    def _sentences(self) -> Any:
        nlp = _blank_pipeline("xx" if self._nlp is None else self.language)
        return nlp, nlp.add_pipe("sentencizer")

    def __call__(self, text: str) -> list[Token]:
        """Tokens of `text` in order; white space is never a token. Empty text has none.

        Raises:
            TypeError: If the text is not a string.
            ValueError: If it holds a lone surrogate or a NUL, and is to be split by rules.
        """
        if not isinstance(text, str):
            raise TypeError(f"text is {text!r} ({type(text).__name__}), but expected a string")
        if self._nlp is None:
            return _split_on_whitespace(text)
        check_text(text)
        # spaCy keeps every new word for ever, which makes it several times as fast as to forget
        # each text; beginning anew now and then bounds its memory.
        self._n_read += len(text)
        if self._n_read > MAX_REMEMBERED:
            self._nlp, self._n_read = _blank_pipeline(self.language), len(text)
        return [
            Token(token.text, token.idx, token.idx + len(token.text))
            for token in self._nlp.tokenizer(text)
            if not token.is_space
        ]

    def sentences(self, text: str) -> list[list[str]]:
        """Sentences of running text, as lists of tokens; a sentence ends at `.`, `!`, `?` and such.

        Raises:
            TypeError: As for calling it.
            ValueError: Likewise.
        """
        tokens = [token.text for token in self(text)]
        if not tokens:
            return []
        from spacy.tokens import Doc

        nlp, sentencizer = self._sentences
        with nlp.memory_zone():
            doc = sentencizer(Doc(nlp.vocab, words=tokens))
            return [tokens[sentence.start : sentence.end] for sentence in doc.sents]


def char_ids(
    tokens: Sequence[str], max_chars: int = MAX_CHARS, *, errors: Errors = "strict"
) -> Int[np.ndarray, "tokens chars"]:
    """Character ids of tokens, as the originals make them.

    `<S>` and `</S>` become the begin and end of a sentence. A token of more than `max_chars` − 2
    bytes is cut there, even within a character.

    Args:
        tokens: Tokens of one sentence or any others.
        max_chars: Ids per token, begin and end of word included.
        errors: What to do with lone surrogates and NUL characters, which no text has: `strict`
            refuses them, `replace` reads U+FFFD in their place.

    Raises:
        TypeError: If a token is not a string.
        ValueError: If a token holds a lone surrogate or a NUL, with `errors="strict"`; or if
            `errors` is no choice.

    Source:
        `UnicodeCharsVocabulary` and `Batcher` in `allenai/bilm-tf`.
    """
    _check_errors(errors)
    encoded = [_bytes(token, errors)[: max_chars - 2] for token in tokens]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    ids = np.full((len(encoded), max_chars), PADDING_CHAR, dtype=np.int64)
    rows = np.repeat(np.arange(len(encoded)), lengths)
    starts = np.cumsum(lengths) - lengths
    columns = np.arange(len(rows)) - np.repeat(starts, lengths) + 1
    ids[:, 0] = BEGIN_WORD_CHAR
    ids[rows, columns] = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64) + 1
    ids[np.arange(len(encoded)), lengths + 1] = END_WORD_CHAR
    for row, token in enumerate(tokens):
        if token in (BEGIN_SENTENCE, END_SENTENCE):
            ids[row] = _sentence_boundary(token == BEGIN_SENTENCE, max_chars)
    return ids


def batch_char_ids(
    sentences: Sequence[Sequence[str]],
    max_chars: int = MAX_CHARS,
    *,
    boundaries: bool = True,
    errors: Errors = "strict",
) -> Int[np.ndarray, "batch tokens chars"]:
    """Character ids of a batch, padded with zeros to the longest sentence.

    Args:
        sentences: Tokenized sentences.
        max_chars: Ids per token.
        boundaries: Whether each sentence is put between `<S>` and `</S>`, as the biLM reads it.
        errors: As for `char_ids`.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
        ValueError: As `char_ids`.
    """
    _check_errors(errors)
    edge = int(boundaries)
    n_tokens = max((len(sentence) for sentence in sentences), default=0) + 2 * edge
    ids = np.zeros((len(sentences), n_tokens, max_chars), dtype=np.int64)
    for i, sentence in enumerate(sentences):
        check_tokens(sentence, i)
        inner = char_ids(sentence, max_chars, errors=errors)
        ids[i, edge : edge + len(inner)] = inner
        if boundaries:
            ids[i, 0] = _sentence_boundary(True, max_chars)
            ids[i, len(inner) + 1] = _sentence_boundary(False, max_chars)
    return ids


def check_text(text: str, name: str = "the text") -> None:
    """Refuse what no text has: lone surrogates and NUL characters."""
    if "\0" in text:
        raise ValueError(f"{name} holds a NUL character, which no text has: remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} holds a lone surrogate at character {error.start}, which is no character: "
            "decode the text anew"
        ) from None


def check_tokens(sentence: object, i: int) -> None:
    """Refuse what is no sequence of tokens, naming `sentences[i]`."""
    if isinstance(sentence, str):
        raise TypeError(
            f"sentences[{i}] is the string {_short(sentence)}, but a sentence is a sequence of "
            f"tokens. To split it on spaces, pass sentences[{i}].split()."
        )
    if not isinstance(sentence, Sequence):
        raise TypeError(
            f"sentences[{i}] is {type(sentence).__name__}, but a sentence is a sequence of tokens"
        )


class Vocabulary:
    """The words that a language model predicts; a line of the file is a word, its number the id.

    Args:
        words: All words in the order of their ids, with `<S>`, `</S>` and `<UNK>` among them.

    Raises:
        ValueError: If one of the specials is absent.

    Source:
        The vocabulary files of `allenai/bilm-tf`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        absent = [special for special in SPECIALS if special not in self._ids]
        if absent:
            raise ValueError(
                f"the vocabulary has no {', '.join(absent)}: a line each with "
                f"{', '.join(SPECIALS)} is wanted"
            )
        self.begin, self.end, self.unknown = (self._ids[special] for special in SPECIALS)

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """The id of `word`, or that of `<UNK>`."""
        return self._ids.get(word, self.unknown)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], *, max_words: int | None = None, min_count: int = 1
    ) -> "Vocabulary":
        """The most frequent words first, after the specials; equal counts by the alphabet.

        Args:
            counts: How often each word occurs.
            max_words: Size at most, specials included; None for no bound.
            min_count: Rarer words are left out.
        """
        no_words = ("", MAX_TERM_ID, *SPECIALS)
        words = [w for w, n in counts.items() if n >= min_count and w not in no_words]
        words.sort(key=lambda word: (-counts[word], word))
        if max_words is not None:
            if max_words <= len(SPECIALS):
                raise ValueError(
                    f"max_words is {max_words}, but the specials alone are {len(SPECIALS)}"
                )
            words = words[: max_words - len(SPECIALS)]
        return cls([*SPECIALS, *words])

    @classmethod
    def read(cls, path: str | Path) -> "Vocabulary":
        """Read a vocabulary file of `bilm-tf`: UTF-8, a word per line."""
        words = [line.strip() for line in read_lines(path)]
        try:
            return cls([word for word in words if word != MAX_TERM_ID])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def write(self, path: str | Path) -> None:
        """Write a vocabulary file of `bilm-tf`, compressed where its name says so.

        It is written beside and then renamed.

        Raises:
            ValueError: If `read` would not give a word back as it is: one with a newline in it,
                with white space around it, or what no text has.
        """
        for i, word in enumerate(self.words):
            _check_word(word, i)
        write_lines(path, self.words)


def check_writable(path: Path) -> None:
    """Refuse a path where no file can be written, before there is anything to write.

    Raises:
        FileNotFoundError: If the folder is missing.
        NotADirectoryError: If that is a file.
        IsADirectoryError: If it is a folder itself.
    """
    if not path.parent.exists():
        raise FileNotFoundError(f"{path.parent} does not exist; create it first")
    if not path.parent.is_dir():
        raise NotADirectoryError(f"{path.parent} is a file, but a folder is wanted to write into")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a file is to be written")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, compressed where the name says so; beside, and then renamed."""
    path = Path(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        opened = COMPRESSED.get(path.suffix, open)
        with opened(beside, "wt", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def open_text(path: str | Path, errors: str = "strict") -> io.TextIOWrapper:
    """Open a text file, compressed (`.gz`, `.xz`, `.zst`) or not, for reading lines as UTF-8.

    Lines end at newlines only; other separators that Unicode knows stay in the line. A byte order
    mark at the start is dropped.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a text file was expected")
    try:
        raw = COMPRESSED.get(path.suffix, open)(path, "rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors=errors, newline="\n")


def read_lines(path: str | Path, errors: Errors = "strict") -> Iterator[str]:
    """Lines of a text file without their ends, one at a time.

    Args:
        path: UTF-8 text; `.gz`, `.xz` and `.zst` are decompressed.
        errors: `strict` refuses invalid UTF-8 and NUL characters, naming the line; `replace` puts
            U+FFFD in their place.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is not UTF-8 or holds a NUL, or the compressed file is damaged.
    """
    _check_errors(errors)
    number = 0
    with open_text(path, "replace" if errors == "replace" else "surrogateescape") as file:
        while True:
            try:
                line = file.readline()
            except (EOFError, OSError, lzma.LZMAError) as error:
                raise ValueError(
                    f"{path}: damaged or not of the kind its name says, after line {number} "
                    f"({error})"
                ) from None
            if not line:
                return
            number += 1
            line = line.rstrip("\r\n") if line.endswith("\n") else line
            if errors == "replace":
                line = line.replace("\0", REPLACEMENT)
            else:
                check_line(line, path, number)
            yield line


def count_lines(path: str | Path) -> int | None:
    """Lines of a text file, quickly; None for a compressed one, which would have to be read."""
    if Path(path).suffix in COMPRESSED:
        return None
    n_lines, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            n_lines += block.count(b"\n")
            last = block[-1:]
    return n_lines + (last != b"\n")


def length_sorted_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Group sentences of similar length: indices, longest first, in batches within a budget.

    Args:
        lengths: Tokens in each sentence.
        batch_tokens: Tokens per batch at most, padding included; a longer sentence stands alone.
    """
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}, but a batch has at least 1 token")
    batches: list[list[int]] = []
    room = 0
    # Equal lengths stay in input order, so that batches do not depend on the sort's whims.
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if room == 0:
            batches.append([])
            room = max(1, batch_tokens // max(1, lengths[i]))
        batches[-1].append(i)
        room -= 1
    return batches


def _check_errors(errors: Errors) -> None:
    if errors not in ERRORS:
        raise ValueError(f"errors is {errors!r}, but expected one of {', '.join(ERRORS)}")


def _bytes(token: str, errors: Errors) -> bytes:
    if not isinstance(token, str):
        raise TypeError(f"a token is {token!r} ({type(token).__name__}), but expected a string")
    if errors == "replace":
        clean = token.replace("\0", REPLACEMENT).encode("utf-16", "surrogatepass")
        return clean.decode("utf-16", "replace").encode()
    if "\0" in token:
        raise ValueError(f'token {_short(token)} holds a NUL: remove it, or pass errors="replace"')
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"token {_short(token)} holds a lone surrogate, which is no character: decode the "
            'text anew, or pass errors="replace"'
        ) from None


def _check_word(word: str, i: int) -> None:
    """Refuse a word that a vocabulary file cannot hold."""
    where = f"word {i} of the vocabulary is {_short(word)}, which a file with a word on each line"
    if "\n" in word or word != word.strip():
        raise ValueError(f"{where} cannot hold: leave out newlines, and white space around words")
    if word == MAX_TERM_ID or (i == 0 and word.startswith(BYTE_ORDER_MARK)):
        raise ValueError(f"{where} cannot hold: readers pass over it")
    check_text(word, f"word {i} of the vocabulary")


def check_line(line: str, path: str | Path, number: int) -> None:
    """Refuse a line, read with `errors="surrogateescape"`, that is no text."""
    if "\0" in line:
        raise ValueError(
            f"{path}, line {number}: holds a NUL character, so this may not be UTF-8 text; convert "
            'the file, or, where errors can be chosen, choose "replace"'
        )
    if not line.isascii() and any("\ud800" <= char <= "\udfff" for char in line):
        raise ValueError(
            f"{path}, line {number}: is not valid UTF-8; convert the file, or, where errors can be "
            'chosen, choose "replace"'
        )


def _sentence_boundary(begin: bool, max_chars: int) -> Int[np.ndarray, " chars"]:
    ids = np.full(max_chars, PADDING_CHAR, dtype=np.int64)
    ids[:3] = BEGIN_WORD_CHAR, BEGIN_SENTENCE_CHAR if begin else END_SENTENCE_CHAR, END_WORD_CHAR
    return ids


def _split_on_whitespace(text: str) -> list[Token]:
    tokens, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        tokens.append(Token(word, start, end))
    return tokens


def _blank_pipeline(language: str):  # type: ignore[no-untyped-def]
    import spacy
    from spacy.util import registry

    try:
        return spacy.blank(language)
    except ImportError as error:
        known = sorted(registry.languages.get_all()) if "find" in str(error) else []
        raise ValueError(
            f'no tokenizer for language "{language}": give a language that spaCy knows, or '
            f'"{WHITESPACE}" for text that is tokenized already.{suggest(language, known)} '
            f"({' '.join(str(error).split())[:200]})"
        ) from None


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
