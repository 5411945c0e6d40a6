"""Shorter numbers against float32, with the default model on real sentences."""

import gzip

import numpy as np
import pytest
import torch

from elmo import Elmo

pytestmark = pytest.mark.parity
N_SENTENCES = 250
ENOUGH = {torch.bfloat16: 0.999, torch.float16: 0.9999, torch.int8: 0.995}


@pytest.fixture(scope="module")
def sentences(shared):
    path = shared / "datasets" / "pos" / "ud-english-ewt" / "en_ewt-ud-test.conllu.gz"
    found, tokens = [], []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            columns = line.rstrip("\n").split("\t")
            if columns[0].isdigit():
                tokens.append(columns[1])
            elif columns == [""]:
                found.append(tokens)
                tokens = []
    return found[:: len(found) // N_SENTENCES]


@pytest.fixture(scope="module")
def exact(sentences):
    return Elmo.from_pretrained().encode_layers(sentences)


@pytest.mark.parametrize("dtype", ENOUGH, ids=str)
@pytest.mark.parametrize("alone", [False, True], ids=["together", "one at a time"])
def test_every_token_points_where_it_does_in_float32(sentences, exact, dtype, alone):
    elmo = Elmo.from_pretrained(dtype=dtype)
    if alone:
        vectors = [elmo.encode_layers([sentence])[0] for sentence in sentences[:60]]
    else:
        vectors = elmo.encode_layers(sentences)
    for ours, theirs in zip(vectors, exact, strict=False):
        lengths = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
        assert ((ours * theirs).sum(axis=-1) / lengths).min() > ENOUGH[dtype]
