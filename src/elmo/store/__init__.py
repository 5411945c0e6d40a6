"""Vectors on disk: sentences in order, each one float32 array (layers, tokens, dim).

The suffix of the file chooses its format; all are read without this package:

- `.hdf5`, `.h5`: as bilm-tf writes, a dataset (layers, tokens, dim) per sentence, named "0", "1", …
- `.npz`: for `numpy.load`, an array (layers, tokens, dim) per sentence, named "0", "1", …
- `.parquet`: a row per sentence: its index, its tokens, its vectors flattened in C order.

How a file grows is told in `partial`; what each format rests on, in its own file.
"""

from elmo.store.reading import read_sentences, read_vectors
from elmo.store.writer import VectorWriter, check_room

__all__ = ["VectorWriter", "check_room", "read_sentences", "read_vectors"]
