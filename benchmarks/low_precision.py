"""How far vectors of bfloat16, float16 and int8 are from those of float32, token by token.

    python benchmarks/low_precision.py SENTENCES.conllu.gz [--model default] [--out FILE.json]

Cosine similarity to the float32 vector of the same token and layer, whole file in batches and its
first sentences one at a time: the mean, and the smallest of all tokens.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from circumstances import circumstances
from inference import read_conllu

from elmo import Elmo
from elmo.json_files import write_json

N_ALONE = 300
"""Sentences that are read one at a time as well."""


def main() -> None:
    """Measure, print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conllu", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sentences = list(read_conllu(arguments.conllu))
    exact = Elmo.from_pretrained(arguments.model, device="cpu").encode_layers(sentences)
    rows = []
    for dtype in (torch.bfloat16, torch.float16, torch.int8):
        elmo = Elmo.from_pretrained(arguments.model, dtype=dtype, device="cpu")
        for how, vectors in (
            ("batches", elmo.encode_layers(sentences)),
            ("one at a time", [elmo.encode_layers([s])[0] for s in sentences[:N_ALONE]]),
        ):
            for layer, cosines in enumerate(cosines_by_layer(vectors, exact)):
                rows.append(
                    {
                        "dtype": str(dtype).removeprefix("torch."),
                        "how": how,
                        "layer": layer,
                        "mean": round(float(cosines.mean()), 6),
                        "smallest": round(float(cosines.min()), 6),
                    }
                )
                row = rows[-1]
                print(
                    f"{row['dtype']:9} {how:14} layer {layer}: mean {row['mean']:.6f}, "
                    f"smallest {row['smallest']:.6f}"
                )
    if arguments.out:
        result = {
            "what": "cosine similarity to the float32 vector, over tokens",
            "data": arguments.conllu.name,
            "model": arguments.model,
            "n_tokens": sum(map(len, sentences)),
            "rows": rows,
            **circumstances(arguments.threads),
        }
        write_json(arguments.out, result)


def cosines_by_layer(ours: list[np.ndarray], exact: list[np.ndarray]) -> list[np.ndarray]:
    """One number per token, a list over layers; what is longer is cut to what is shorter."""
    pairs = list(zip(ours, exact, strict=False))
    a, b = (np.concatenate([pair[i] for pair in pairs], axis=1) for i in range(2))
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return list((a * b).sum(axis=-1) / lengths)


if __name__ == "__main__":
    main()
