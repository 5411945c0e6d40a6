"""Cost of more and more text: seconds, remembered tokens and peak memory from 10,000 tokens to 1M.

Each amount of text is read by a fresh process, sentence vectors only kept for a moment. Cost that
grows linearly shows as one and the same speed; a bounded cache as a number that never exceeds it.

    python benchmarks/growth.py TEXT.txt.xz [--model default] [--out FILE.json]

TEXT has one sentence per line, tokens between white space.
"""

import argparse
import os
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from alone import alone
from circumstances import circumstances

from elmo import Elmo
from elmo.json_files import write_json
from elmo.text import read_lines

AT_ONCE = 2_000
"""Sentences per call of `encode_tokens`."""


def main() -> None:
    """Measure, print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--tokens", default="10000,100000,1000000")
    parser.add_argument("--cache-tokens", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for n_tokens in map(int, arguments.tokens.split(",")):
        given = (arguments.model, arguments.text, n_tokens, arguments.cache_tokens)
        row = alone(read, arguments.threads, *given)
        if "failed" in row:
            sys.exit(f"{n_tokens:,} tokens: {row['failed']}")
        rows.append(row)
        print(
            f"{row['n_tokens']:9,} tokens {row['seconds']:8.1f} s {row['tokens_per_second']:7,} "
            f"tokens/s  {row['remembered']:6,} remembered  {row['peak_mib']:5,} MiB",
            flush=True,
        )
    if arguments.out:
        result = {
            "what": "reading more and more text: seconds, remembered tokens, MiB",
            "data": arguments.text.name,
            "model": arguments.model,
            "cache_tokens": arguments.cache_tokens,
            "rows": rows,
            **circumstances(arguments.threads),
        }
        write_json(arguments.out, result)


def read(model: str, text: Path, n_tokens: int, cache_tokens: int) -> dict[str, Any]:
    """The first sentences of the text that have so many tokens together."""
    elmo = Elmo.from_pretrained(model, cache_tokens=cache_tokens, device="cpu")
    elmo.encode_tokens([["ready"]])
    sentences = filter(None, (line.split() for line in read_lines(text)))
    n_read, seconds, largest = 0, 0.0, 0
    while n_read < n_tokens:
        some = list(islice(sentences, AT_ONCE))
        if not some:
            raise ValueError(f"{text} has only {n_read:,} tokens")
        while sum(map(len, some[:-1])) + n_read >= n_tokens:
            some.pop()
        started = time.perf_counter()
        elmo.encode_tokens(some)
        seconds += time.perf_counter() - started
        n_read += sum(map(len, some))
        largest = max(largest, len(elmo._reader.token_vectors))
    return {
        "n_tokens": n_read,
        "seconds": round(seconds, 2),
        "tokens_per_second": round(n_read / seconds),
        "remembered": largest,
    }


if __name__ == "__main__":
    main()
