"""What the cache of layers saves: seconds until a run can start, the first time and again.

Each start is a fresh process, as a run is: the encoder is opened, and the cache asked for the
layers of all sentences. A run that starts again then reads the layers of every sentence once, as
an epoch does; its memory tells whether the cache stays on disk.

    python benchmarks/layer_cache.py TEXT.txt.xz [--encoder elmo] [--sentences 3000,12000]

TEXT has one sentence per line, tokens between white space.
"""

import argparse
import os
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from alone import alone
from circumstances import circumstances

from elmo.encoders import cached_layers, open_encoders
from elmo.json_files import write_json
from elmo.text import read_lines

MAX_BYTES = 50_000_000_000


def main() -> None:
    """Measure, print a line per amount of text, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--encoder", default="elmo")
    parser.add_argument("--sentences", default="3000,12000")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for n in map(int, arguments.sentences.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            given = (arguments.text, arguments.encoder, n, folder)
            starts = [alone(start, arguments.threads, *given) for _ in range(2)]
        for row in starts:
            if "failed" in row:
                sys.exit(f"{n:,} sentences: {row['failed']}")
        first, again = starts
        if first.pop("sum") != again.pop("sum"):
            sys.exit(f"{n:,} sentences: the layers differ when they are read again")
        rows.append(
            {
                "sentences": n,
                "tokens": again["tokens"],
                "disk_mb": again["disk_mb"],
                "first": rounded(first),
                "again": rounded(again),
                "times_faster": round(first["seconds"] / again["seconds"], 1),
            }
        )
        print(
            f"{n:7,} sentences, {again['tokens']:9,} tokens, {again['disk_mb']:6,} MB on disk: "
            f"{first['seconds']:6.1f} s to start, {again['seconds']:5.1f} s again "
            f"({rows[-1]['times_faster']:.1f} times faster), an epoch of reading "
            f"{again['seconds_reading']:5.1f} s; at most {again['peak_mib']:,} MiB of which "
            f"{again['own_mib']:,} are not the file's",
            flush=True,
        )
    result = {
        "what": "seconds until layers of all sentences are at hand, computed and again from disk",
        "encoder": arguments.encoder,
        "text": arguments.text.name,
        "rows": rows,
        **circumstances(arguments.threads),
    }
    if arguments.out:
        write_json(arguments.out, result)


def start(text: Path, encoder_name: str, n: int, folder: str) -> dict[str, Any]:
    """What a process does before its first step, and one pass over the layers."""
    sentences = [line.split() for line in islice(read_lines(text), n)]
    begun = time.perf_counter()
    (encoder,) = open_encoders(encoder_name)
    layers = cached_layers(encoder, sentences, folder, max_bytes=MAX_BYTES)
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    total = sum(float(layers.layers(sentence).sum()) for sentence in sentences)
    return {
        "sum": total,
        "seconds": seconds,
        "seconds_reading": time.perf_counter() - begun,
        "tokens": sum(map(len, sentences)),
        "disk_mb": sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()) // 10**6,
        "own_mib": own_memory() // 2**20,
    }


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Seconds to the tenth of a millisecond."""
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}


def own_memory() -> int:
    """Bytes that the process holds and that are not a file's, which the system may take back."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


if __name__ == "__main__":
    main()
