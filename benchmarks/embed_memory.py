"""Peak memory of `elmo embed` on files of more and more short lines: it must not grow with them.

python benchmarks/embed_memory.py [--lines 10000 100000 1000000] [--suffix .parquet]
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from circumstances import circumstances

from elmo.json_files import write_json
from elmo.memory import of_usage


def main() -> None:
    """Embed files of each size in a process of its own; print, and write as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--words", type=int, default=3, help="per line")
    parser.add_argument("--suffix", default=".parquet", help=".parquet, .hdf5 or .npz")
    parser.add_argument("--layers", default="mix")
    parser.add_argument("--model", default="default")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    words = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in ("", "n", "r", "st", "l")]
    rows = []
    for n_lines in arguments.lines:
        with tempfile.TemporaryDirectory() as folder:
            text, vectors = Path(folder, "lines.txt"), Path(folder, f"out{arguments.suffix}")
            rng = random.Random(1)
            with text.open("w", encoding="utf-8") as file:
                for _ in range(n_lines):
                    file.write(" ".join(rng.choices(words, k=arguments.words)) + "\n")
            command = [sys.executable, "-m", "elmo", "embed", str(text), str(vectors)]
            command += ["--tokenized", "--layers", arguments.layers, "--model", arguments.model]
            started = time.perf_counter()
            process = os.spawnv(os.P_NOWAIT, sys.executable, command)
            _, status, usage = os.wait4(process, 0)
            seconds = time.perf_counter() - started
            if status:
                sys.exit(f"elmo embed failed with status {os.waitstatus_to_exitcode(status)}")
            row = {
                "lines": n_lines,
                "seconds": round(seconds, 1),
                "peak_rss_mib": of_usage(usage) // 2**20,
                "output_mb": round(vectors.stat().st_size / 1e6),
            }
            rows.append(row)
            print(row, flush=True)
    if arguments.out:
        result = {
            "what": f"elmo embed, {arguments.words} words per line, {arguments.suffix}",
            "model": arguments.model,
            "runs": rows,
            **circumstances(os.cpu_count() or 1),
        }
        write_json(arguments.out, result)


if __name__ == "__main__":
    main()
