"""How well `elmo senses` divides usages by their senses, with the words around them and without.

    python benchmarks/sense_clusters.py FILE.jsonl.gz [--encoders elmo ...] [--contexts 0 8]
        [--most 200] [--threads N] [--out FILE.json]

FILE is as those of CoarseWSD-20: a JSON object on each line, with `word`, `tokens`, `index` and
`sense`. The usages of each word, `--most` of them, are divided into as many clusters as there are
senses, and into as many as the silhouette chooses. The score is the adjusted Rand index (Hubert and
Arabie, 1985): 1 if clusters are the senses, 0 on average if they have nothing to do with them; of
the words, the mean.
"""

import argparse
import random
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from circumstances import circumstances
from sklearn.metrics import adjusted_rand_score

from elmo.json_files import write_json
from elmo.probes.found_usages import in_context, surprisals
from elmo.probes.layers import Layers, encode, open_one
from elmo.probes.senses import cluster_usages
from elmo.probes.usages import Usage, name_of
from elmo.probes.word_in_context_data import SenseUse, read_sense_uses


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--encoders", nargs="+", default=["elmo"])
    parser.add_argument("--contexts", nargs="+", type=float, default=[0.0, 8.0])
    parser.add_argument("--most", type=int, default=200, help="usages of a word")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    words = drawn(read_sense_uses(arguments.file), arguments.most)
    result: dict[str, Any] = {
        "what": "clusters of usages beside their senses: mean adjusted Rand index of the words, "
        "in percent",
        "data": arguments.file.name,
        "n_words": len(words),
        "n_usages": sum(map(len, words.values())),
        "rows": [],
    }
    for spec in arguments.encoders:
        encoder = open_one(spec)
        layers = Layers.read("all", encoder.n_layers)
        uses = [use for of_word in words.values() for use in of_word]
        sentences = list(encode(encoder, [use.use.tokens for use in uses], layers))
        for k, layer in enumerate(layers.chosen):
            for context in arguments.contexts:
                row = measured(words, [of[k] for of in sentences], context)
                row = {"encoder": encoder.name, "layer": name_of(layer), "context": context, **row}
                result["rows"].append(row)
                print(*row.values(), sep="  ", flush=True)
    result.update(circumstances(arguments.threads))
    if arguments.out:
        write_json(arguments.out, result)


def drawn(uses: list[SenseUse], most: int) -> dict[str, list[SenseUse]]:
    """Of each word that has several senses, so many usages."""
    words: dict[str, list[SenseUse]] = {}
    for use in sorted(uses, key=lambda use: use.word):
        words.setdefault(use.word, []).append(use)
    draw = random.Random(0)
    for of_word in words.values():
        draw.shuffle(of_word)
        del of_word[most:]
    return {
        word: of_word for word, of_word in words.items() if len({use.sense for use in of_word}) > 1
    }


def measured(
    words: dict[str, list[SenseUse]], vectors: list[np.ndarray], context: float
) -> dict[str, float]:
    """The index with as many clusters as senses, and with as many as are chosen."""
    tokens = (use.use.tokens for of_word in words.values() for use in of_word)
    told = surprisals(Counter(token.lower() for sentence in tokens for token in sentence))
    given, chosen, n_clusters, done = [], [], [], 0
    for word, uses in words.items():
        points = []
        for use, of_tokens in zip(uses, vectors[done : done + len(uses)], strict=True):
            usage = Usage(0, use.use.places[0], use.use.tokens)
            points.append(in_context(of_tokens, usage, told, [word], context))
        done += len(uses)
        senses = [use.sense for use in uses]
        n_distinct = len(np.unique(np.round(points, 5), axis=0))
        wanted = min(len(set(senses)), n_distinct)
        for scores, n in ((given, wanted), (chosen, None)):
            clusters = cluster_usages(np.stack(points), n_clusters=n)
            scores.append(100 * adjusted_rand_score(senses, clusters.labels))
        n_clusters.append(clusters.n)
    return {
        "as_many_as_senses": round(mean(given), 1),
        "chosen": round(mean(chosen), 1),
        "mean_clusters_chosen": round(mean(n_clusters), 1),
    }


if __name__ == "__main__":
    main()
