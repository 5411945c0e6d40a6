"""What gensim's own `save` wrote: pickles, read without running what they name.

A pickle may name any function to be called as it is read. Here only those that make arrays are;
in the place of every other, and of every class, comes an empty shell that holds what was stored of
it. Large arrays lie in files beside, `<file>.<attribute>.npy`.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from elmo.encoders.encoder import extra
from elmo.encoders.ngrams import Ngrams


class _Stored:
    """What was stored of an object, of whatever class."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)


_ARRAYS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy.core.multiarray", "scalar"): np.float32(0).__reduce__()[0],
    ("numpy.core.numeric", "_frombuffer"): np.empty(1).__reduce_ex__(5)[0],
    ("collections", "OrderedDict"): dict,
    ("collections", "defaultdict"): lambda *_: {},
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # bytes, as Python 2 stored them
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _ARRAYS.get((module.replace("numpy._core", "numpy.core"), name), _Stored)


def read_gensim(
    path: Path,
) -> tuple[list[str], Float[np.ndarray, "words dim"], Ngrams | None]:
    """Words, vectors and n-grams of a `.kv` or `.model` of gensim 4: Word2Vec or FastText.

    Raises:
        FileNotFoundError: If a file with an array that belongs to it is missing.
        ImportError: If it is FastText's, and gensim is not installed.
        ValueError: If it is something else, or damaged.
    """
    advice = "save the vectors with save_word2vec_format(…, binary=True) and give that file"
    try:
        with path.open("rb") as file:
            stored = _Unpickler(file).load()
    except (
        AttributeError, EOFError, IndexError, KeyError, MemoryError, TypeError, ValueError,
        pickle.UnpicklingError,
    ) as error:  # fmt: skip
        said = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path}: cannot be read as a file of gensim ({said}): {advice}") from None
    prefix = str(path)
    if hasattr(stored, "wv"):
        stored, prefix = stored.wv, f"{path}.wv"
    words = getattr(stored, "index_to_key", None)
    if not isinstance(stored, _Stored) or not isinstance(words, list):
        raise ValueError(f"{path} holds no word vectors of gensim 4: {advice}")

    def array(name: str) -> np.ndarray:
        found = getattr(stored, name, None)
        if found is None and name in getattr(stored, "__numpys", ()):
            beside = Path(f"{prefix}.{name}.npy")
            if not beside.exists():
                raise FileNotFoundError(f"{path} needs {beside}, which does not exist")
            try:
                found = np.load(beside, allow_pickle=False)
            except (ValueError, EOFError, OSError) as error:
                raise ValueError(f"{beside} is damaged: {error}") from None
        if not isinstance(found, np.ndarray) or found.ndim != 2:
            raise ValueError(f"{path} has no {name}: {advice}")
        return found.astype(np.float32, copy=False)

    if not hasattr(stored, "min_n"):
        vectors, ngrams = array("vectors"), None
    else:
        min_n, max_n = (int(getattr(stored, name)) for name in ("min_n", "max_n"))
        ngrams = Ngrams(array("vectors_ngrams"), min_n, max_n)
        with extra("compare", str(path)):
            vectors = _with_ngrams(words, array("vectors_vocab"), ngrams)
    if len(vectors) != len(words):
        raise ValueError(f"{path} has {len(words):,} words but {len(vectors):,} vectors: {advice}")
    if not np.isfinite(vectors).all():
        raise ValueError(f"{path}: a vector is not finite")
    return words, vectors, ngrams


def _with_ngrams(words: list[str], own: np.ndarray, ngrams: Ngrams) -> np.ndarray:
    """A known word is the mean of its own vector and those of its n-grams."""
    vectors = own.copy()
    for row, word in enumerate(words):
        buckets = ngrams.buckets(word)
        vectors[row] += ngrams.vectors[buckets].sum(axis=0)
        vectors[row] /= len(buckets) + 1
    return vectors
