"""What an index of usages costs, and how often the nearest usage of a word has the same sense.

    python benchmarks/neighbours.py TEXT... [--tokens 1000000] [--senses FOLDER] [--encoder elmo]
        [--layers all] [--threads N] [--out FILE.json]

TEXT has a sentence on each line, tokens between white space. Its first tokens are indexed in a
process of its own; another one opens the index and asks for the nearest usages of words in their
sentences: of any word, and of the same word. Peak memory is of the whole process, the mapped file
included. `--senses` is a folder with `train.jsonl.gz` and `test.jsonl.gz` as that of MASC with NOAD
senses: each tagged word of the test part is compared with all usages of its lemma (of the same part
of speech) in the training part, at each layer.
"""

import argparse
import gzip
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from alone import alone
from circumstances import circumstances

from elmo.compare import Place
from elmo.encoders import Encoder, open_encoders
from elmo.json_files import write_json
from elmo.probes.layers import Layers, encode
from elmo.probes.neighbors import neighbors, query_vector, same_sense
from elmo.probes.usages import UsageIndex, build_index, name_of
from elmo.text import read_lines

QUERY_EVERY = 997
"""Sentences of the text itself between two that are asked with."""
N_QUERIES = 20
N_NEIGHBOURS = 10
PARTS = ("train", "test")


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--senses", type=Path)
    parser.add_argument("--encoder", default="elmo")
    parser.add_argument("--layers", default="all")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not arguments.texts and arguments.senses is None:
        parser.error("nothing to measure: give text, --senses or both")
    result: dict[str, Any] = {
        "what": "an index of usages: seconds to build, milliseconds to ask, peak memory; and the "
        "share of nearest usages of the same word that have the same sense",
        "encoder": arguments.encoder,
    }
    if arguments.texts:
        result["index"] = measure_index(arguments.texts, arguments)
        built, asked = result["index"]["build"], result["index"]["ask"]
        print(
            f"{built['tokens']:,} tokens: {built['seconds']:,.1f} s to build, at most "
            f"{built['peak_mib']:,} MiB; {asked['any_ms']:.0f} ms to ask for any word, "
            f"{asked['same_ms']:.0f} ms for the same one, at most {asked['peak_mib']:,} MiB",
            flush=True,
        )
    if arguments.senses is not None:
        result["senses"] = measure_senses(arguments.senses, arguments.encoder, arguments.layers)
        for name, row in result["senses"]["layers"].items():
            print(f"{name:20} {row['nearest']:6.2f} %, at random {row['random']:6.2f} %")
    result.update(circumstances(arguments.threads))
    if arguments.out:
        write_json(arguments.out, result)


# -------------------------------------------------------------------------------------- the index


def measure_index(texts: list[Path], arguments: argparse.Namespace) -> dict[str, Any]:
    """What it costs to build an index of the mean of layers, and to ask it."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        with text.open("w", encoding="utf-8") as file:
            n_left = arguments.tokens
            for line in (line for path in texts for line in read_lines(path)):
                if n_left <= 0:
                    break
                file.write(f"{line}\n")
                n_left -= len(line.split())
        given = (str(text), str(Path(folder) / "index"), arguments.encoder)
        rows = {}
        for name, work in (("build", build), ("ask", ask)):
            rows[name] = alone(work, arguments.threads, *given)
            if "failed" in rows[name]:
                sys.exit(f"{name}: {rows[name]['failed']}")
    return {"texts": [path.name for path in texts], **rows}


def build(text: str, index: str, encoder: str) -> dict[str, Any]:
    """Build an index."""
    (opened,) = open_encoders(encoder)
    begun = time.perf_counter()
    built = build_index([text], index, opened)
    seconds = time.perf_counter() - begun
    size = sum(path.stat().st_size for path in Path(index).iterdir())
    return {
        "tokens": built.n_tokens,
        "sentences": built.n_sentences,
        "seconds": round(seconds, 1),
        "disk_mb": size // 10**6,
    }


def ask(text: str, index: str, encoder: str) -> dict[str, Any]:
    """Ask for usages like some of the text itself."""
    (opened,) = open_encoders(encoder)
    begun = time.perf_counter()
    built = UsageIndex.open(index)
    seconds = time.perf_counter() - begun
    times: dict[str, list[float]] = {"encode": [], "any": [], "same": []}
    for k in range(N_QUERIES + 1):
        sentence = (k * QUERY_EVERY) % built.n_sentences
        usage = built.usage(int(built.starts[sentence]))
        place = Place(usage.tokens, len(usage.tokens) // 2)
        begun = time.perf_counter()
        query = query_vector(opened, place)
        times["encode"].append(time.perf_counter() - begun)
        for name, forms in (("any", None), ("same", [place.tokens[place.position]])):
            begun = time.perf_counter()
            neighbors(built, query, n=N_NEIGHBOURS, forms=forms, but=place)
            times[name].append(time.perf_counter() - begun)
    of = {f"{name}_ms": round(1000 * median(all_[1:]), 1) for name, all_ in times.items()}
    return {"open_seconds": round(seconds, 2), "n_queries": N_QUERIES, **of}


# ------------------------------------------------------------------------------------- the senses


class Tagged(NamedTuple):
    """Words whose senses are known: vectors (layers, words, dim), lemma and part of speech."""

    vectors: np.ndarray
    words: list[tuple[str, str]]
    senses: list[str]


def measure_senses(folder: Path, encoder: str, layers: str) -> dict[str, Any]:
    """The share of nearest usages with the query's sense, and of those drawn at random.

    Once of all words, once of those that have several senses in the training part.
    """
    (opened,) = open_encoders(encoder)
    chosen = Layers.read(layers, opened.n_layers)
    train, test = (read_tagged(folder / f"{part}.jsonl.gz", opened, chosen) for part in PARTS)
    known: dict[tuple[str, str], set[str]] = {}
    for word, sense in zip(train.words, train.senses, strict=True):
        known.setdefault(word, set()).add(sense)
    every = list(range(len(test.words)))
    several = [i for i in every if len(known.get(test.words[i], ())) > 1]
    rows: dict[str, Any] = {}
    for k, layer in enumerate(chosen.chosen):
        rows[name_of(layer)] = of_layer = {}
        for name, asked in (("", every), ("_of_several", several)):
            shares = same_sense(
                train.vectors[k],
                train.words,
                train.senses,
                test.vectors[k][asked],
                [test.words[i] for i in asked],
                [test.senses[i] for i in asked],
            )
            of_layer[f"nearest{name}"] = round(100 * shares.nearest, 2)
            of_layer[f"random{name}"] = round(100 * shares.random, 2)
            of_layer[f"n_queries{name}"] = shares.n_queries
    return {"data": folder.resolve().name, "n_usages": len(train.words), "layers": rows}


def read_tagged(path: Path, encoder: Encoder, layers: Layers) -> Tagged:
    """The tagged words of a file, with their vectors at the layers that are looked at."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = [json.loads(line) for line in file]
    sentences = [sentence for sentence in sentences if sentence["senses"]]
    encoded = encode(encoder, [sentence["tokens"] for sentence in sentences], layers)
    vectors, words, senses = [], [], []
    for sentence, of_sentence in zip(sentences, encoded, strict=True):
        vectors.append(of_sentence[:, [word["index"] for word in sentence["senses"]]])
        words += [(word["lemma"], word["pos"]) for word in sentence["senses"]]
        senses += [word["sense"] for word in sentence["senses"]]
    return Tagged(np.concatenate(vectors, axis=1), words, senses)


if __name__ == "__main__":
    main()
