"""Files of word vectors, told apart by what is in them.

- text: a word and its numbers on each line, as GloVe and Word2Vec write (the latter with a first
  line that says how many words and numbers); `.gz`, `.xz`, `.zst` too;
- Word2Vec's binary form, also in `.gz`;
- FastText's `.bin`, with n-grams;
- what gensim's own `save` wrote, of which no code is run (see `gensim_files`).

Axes: words, dim.
"""

import logging
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elmo.encoders.encoder import extra
from elmo.encoders.gensim_files import read_gensim
from elmo.encoders.ngrams import Ngrams
from elmo.text import COMPRESSED, read_lines

logger = logging.getLogger(__name__)

FASTTEXT_MAGIC = struct.pack("<i", 793712314)
FASTTEXT_HEADER = "<2i12id3iq"
FASTTEXT_UNSUPERVISED = (1, 2)
PICKLE = b"\x80"


class StaticFile(NamedTuple):
    """What a file of word vectors holds."""

    words: list[str]
    vectors: Float[np.ndarray, "words dim"]
    ngrams: Ngrams | None


def read(path: Path) -> StaticFile:
    """Read a file of word vectors.

    Raises:
        FileNotFoundError: If there is no such file, or one that belongs to it is missing.
        IsADirectoryError: If it is a folder.
        ImportError: If its kind needs gensim, which is not installed.
        ValueError: If it is damaged, or of none of these kinds; of text, the line is named.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a file of word vectors is wanted")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give a file of word vectors")
    start = _start(path)
    if not start:
        raise ValueError(f"{path} is empty, but a file of word vectors was expected")
    fasttext, stored = start.startswith(FASTTEXT_MAGIC), start.startswith(PICKLE)
    if path.suffix in COMPRESSED and (
        fasttext or stored or (_is_binary(start) and path.suffix != ".gz")
    ):
        raise ValueError(
            f"{path} is neither text nor Word2Vec's binary form in .gz: decompress it first"
        )
    if fasttext:
        return _read_fasttext(path)
    if stored:
        return StaticFile(*read_gensim(path))
    if _is_binary(start):
        return _read_binary(path)
    return _read_text(path)


def _start(path: Path) -> bytes:
    opened: Any = COMPRESSED.get(path.suffix, open)
    try:
        with opened(path, "rb") as file:
            return bytes(file.read(1 << 14))
    except ImportError:
        raise
    except Exception as error:  # each kind of compression has errors of its own
        raise ValueError(f"{path}: damaged or not of the kind its name says ({error})") from None


def _is_binary(start: bytes) -> bool:
    """Whether numbers follow a first line `words dim` as bytes, not as digits."""
    first, _, rest = start.partition(b"\n")
    sizes = first.split()
    if len(sizes) != 2 or not all(size.isdigit() for size in sizes):
        return False
    numbers = rest.partition(b" ")[2].partition(b"\n")[0]
    return not all(byte in b"0123456789+-.eEnaNifIF \t\r" for byte in numbers[:24])


def _read_text(path: Path) -> StaticFile:
    words: list[str] = []
    rows: list[np.ndarray] = []
    n_words = dim = None
    separator = " "
    n_repeated, seen = 0, set[str]()
    for number, line in enumerate(read_lines(path), start=1):
        line = line.rstrip(" \t\r")
        if number == 1:
            separator = "\t" if "\t" in line else " "
            sizes = line.split()
            if len(sizes) == 2 and all(size.isdigit() for size in sizes):
                n_words, dim = map(int, sizes)
                continue
        if not line:
            raise ValueError(
                f"{path}, line {number}: is empty, but a word and numbers were expected"
            )
        if dim is None:
            dim = line.count(separator)
            if dim == 0:
                raise ValueError(
                    f"{path}, line {number}: {line[:40]!r} is no word with numbers behind it, as "
                    "files of word vectors have"
                )
        # From the right: words of some files have spaces in them.
        word, *fields = line.rsplit(separator, dim)
        vector = _numbers(fields)
        if len(fields) < dim or vector is None:
            raise ValueError(
                f"{path}, line {number}: {_count(line, separator)} numbers behind "
                f"{line.split(separator)[0][:40]!r}, but {dim} were expected"
            )
        if not np.isfinite(vector).all():
            raise ValueError(f"{path}, line {number}: the vector of {word[:40]!r} is not finite")
        if word in seen:
            n_repeated += 1
            continue
        # One number too many looks like a word with a space in it; such words have no digits last.
        if separator in word and _numbers(word.split(separator)[1:]) is not None:
            raise ValueError(
                f"{path}, line {number}: {_count(line, separator)} numbers behind "
                f"{word.split(separator)[0][:40]!r}, but {dim} were expected"
            )
        seen.add(word)
        words.append(word)
        rows.append(vector)
    if not words:
        raise ValueError(f"{path} has no word vectors")
    if n_words is not None and n_words != len(words) + n_repeated:
        raise ValueError(
            f"{path} says that it has {n_words:,} words, but has {len(words) + n_repeated:,}: it "
            "may have been cut short"
        )
    _tell_repeated(path, n_repeated)
    return StaticFile(words, np.stack(rows), None)


def _numbers(fields: list[str]) -> np.ndarray | None:
    try:
        return np.array([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None


def _count(line: str, separator: str) -> int:
    """Numbers at the end of a line."""
    n = 0
    for field in reversed(line.split(separator)[1:]):
        if _numbers([field]) is None:
            break
        n += 1
    return n


def _read_binary(path: Path) -> StaticFile:
    with extra("compare", str(path)):
        from gensim.models import KeyedVectors
    try:
        loaded = KeyedVectors.load_word2vec_format(str(path), binary=True)
    except (EOFError, ValueError, UnicodeDecodeError, MemoryError) as error:
        raise _damaged(path, "Word2Vec's binary form", error) from None
    words = list(loaded.index_to_key)
    vectors = np.asarray(loaded.vectors, dtype=np.float32)
    _check_finite(path, words, vectors)
    return StaticFile(words, vectors, None)


def _read_fasttext(path: Path) -> StaticFile:
    _check_fasttext(path)
    with extra("compare", str(path)):
        from gensim.models.fasttext import load_facebook_vectors
    try:
        loaded = load_facebook_vectors(str(path))
    except (AssertionError, EOFError, ValueError, struct.error, MemoryError) as error:
        raise _damaged(path, "a .bin of FastText", error) from None
    words = list(loaded.index_to_key)
    vectors = np.asarray(loaded.vectors, dtype=np.float32)
    _check_finite(path, words, vectors)
    ngrams = np.asarray(loaded.vectors_ngrams, dtype=np.float32)
    return StaticFile(words, vectors, Ngrams(ngrams, int(loaded.min_n), int(loaded.max_n)))


def _check_fasttext(path: Path) -> None:
    """Refuse what gensim would read for ever, or misread: it trusts the sizes in a file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(struct.calcsize(FASTTEXT_HEADER))
    if len(head) < struct.calcsize(FASTTEXT_HEADER):
        raise _damaged(path, "a .bin of FastText", "it ends within its settings")
    fields = struct.unpack(FASTTEXT_HEADER, head)
    dim, model, n_buckets = fields[2], fields[9], fields[10]
    n_entries, n_words, n_labels = fields[15:18]
    if model not in FASTTEXT_UNSUPERVISED or n_labels:
        raise ValueError(
            f"{path} is a classifier of FastText, but vectors trained without labels are wanted"
        )
    if min(dim, n_words) < 1 or n_buckets < 0:
        raise _damaged(path, "a .bin of FastText", "its sizes cannot be")
    least = len(head) + 11 * n_entries + 4 * dim * (2 * n_words + n_buckets)
    if size < least:
        raise _damaged(
            path,
            "a .bin of FastText",
            f"it has {size:,} bytes, but at least {least:,} are expected; quantised ones (.ftz) "
            "cannot be read",
        )


def _check_finite(path: Path, words: list[str], vectors: np.ndarray) -> None:
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise ValueError(f"{path}: the vector of {words[int(finite.argmin())]!r} is not finite")


def _tell_repeated(path: Path, n_repeated: int) -> None:
    if n_repeated:
        logger.warning("%s: %d words stand there again; the first of each counts", path, n_repeated)


def _damaged(path: Path, kind: str, error: object) -> ValueError:
    said = " ".join(str(error).split()) or type(error).__name__
    return ValueError(f"{path} is {kind}, but damaged or cut short: {said}")
