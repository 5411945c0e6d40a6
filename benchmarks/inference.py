"""Speed of `Elmo` on real sentences, beside a plain reading of the same model in the same run.

The plain reading is the definition: batches of 32 in input order, padded, the character CNN for
every token, every LSTM step on every row. Also checked: token counts, no NaN, equal vectors.

    python benchmarks/inference.py en_ewt-ud-test.conllu.gz [--model default] [--out FILE.json]
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from circumstances import circumstances

from elmo import BiLM, Elmo, batch_char_ids
from elmo.text import read_lines

PLAIN_BATCH = 32


def main() -> None:
    """Measure, print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conllu", type=Path, help="sentences: CoNLL-U, .gz or not")
    parser.add_argument("--model", default="default")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sentences = list(read_conllu(arguments.conllu))
    n_tokens = sum(map(len, sentences))
    elmo = Elmo.from_pretrained(arguments.model)
    print(f"{len(sentences):,} sentences, {n_tokens:,} tokens; model {arguments.model}")

    rows = {}
    plain, rows["plain, padded, no cache"] = timed(
        lambda: read_plainly(elmo.bilm, sentences), arguments.repeat, n_tokens
    )

    def cold() -> list[np.ndarray]:
        elmo_cold = Elmo(elmo.bilm)
        return elmo_cold.encode_layers(sentences)

    vectors, rows["Elmo, empty token cache"] = timed(cold, arguments.repeat, n_tokens)
    elmo.encode_layers(sentences)
    _, rows["Elmo, tokens remembered"] = timed(
        lambda: elmo.encode_layers(sentences), arguments.repeat, n_tokens
    )
    some = sentences[:200]
    _, rows["Elmo, one sentence at a time"] = timed(
        lambda: [elmo.encode_layers([sentence]) for sentence in some],
        arguments.repeat,
        sum(map(len, some)),
    )
    assert [len(s) for s in sentences] == [v.shape[1] for v in vectors], "token counts differ"
    assert all(np.isfinite(v).all() for v in vectors), "NaN or infinity"
    difference = max(float(np.abs(a - b).max()) for a, b in zip(plain, vectors, strict=True))
    slowest = rows["plain, padded, no cache"]
    for name, speed in rows.items():
        print(f"{name:32} {speed:10,.0f} tokens/s  {speed / slowest:6.1f}×")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"largest difference from the plain reading {difference:.1e}; peak memory {peak:,.0f} MiB"
    )
    if arguments.out:
        result = {
            "what": "inference, tokens per second (median)",
            "data": arguments.conllu.name,
            "n_sentences": len(sentences),
            "n_tokens": n_tokens,
            "model": str(arguments.model),
            "tokens_per_second": {name: round(speed) for name, speed in rows.items()},
            "largest_difference": difference,
            "peak_memory_mib": round(peak),
            **circumstances(arguments.threads),
        }
        arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def read_conllu(path: Path) -> Iterator[list[str]]:
    """Forms of the syntactic words of each sentence."""
    tokens: list[str] = []
    for line in chain(read_lines(path), [""]):
        columns = line.split("\t")
        if columns[0].isdigit():
            tokens.append(columns[1])
        elif columns == [""] and tokens:
            yield tokens
            tokens = []


@torch.no_grad()
def read_plainly(bilm: BiLM, sentences: list[list[str]]) -> list[np.ndarray]:
    """Vectors of every sentence by the definition alone."""
    vectors = []
    for start in range(0, len(sentences), PLAIN_BATCH):
        batch = sentences[start : start + PLAIN_BATCH]
        char_ids = torch.from_numpy(batch_char_ids(batch, bilm.config.char_cnn.max_chars))
        mask = (char_ids > 0).any(dim=-1)
        tokens = bilm.char_cnn(char_ids.flatten(0, 1)).unflatten(0, mask.shape)
        tokens = tokens * mask.unsqueeze(-1)
        layers, _ = bilm._read_plain(tokens, mask, bilm.zero_state(len(batch)))
        vectors += [layers[:, i, 1 : len(s) + 1].clone().numpy() for i, s in enumerate(batch)]
    return vectors


def timed(run, n_runs: int, n_tokens: int):  # type: ignore[no-untyped-def]
    """The result, and the median of tokens per second."""
    seconds = []
    for _ in range(n_runs):
        started = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - started)
    return result, n_tokens / sorted(seconds)[len(seconds) // 2]


if __name__ == "__main__":
    main()
