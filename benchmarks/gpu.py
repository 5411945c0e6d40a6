"""Speed on one GPU: reading and training, beside cuDNN and the GPU's own limit, in one run.

Random weights, official sizes and filters. Reading: what `CudaReader` does with and without graphs,
the packed reading step by step, and a `torch.nn.LSTM` of the same size as an upper bound (it clips
nothing). Training: whole steps on windows of synthetic text. The limit is that of one large matrix
product, measured here; a percentage says how much of it the products that are needed come to.

    python benchmarks/gpu.py [inference] [training] [--sizes small,original] [--sentences FILE]
        [--out FILE.json] [--profile FILE.txt]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from circumstances import circumstances
from needed import config_of, lstm_flops, training_flops
from torch import Tensor, nn

from elmo import BiLM, BiLMState, LstmConfig
from elmo.json_files import write_json
from elmo.model.bilm_packed import PackedBiLM
from elmo.model.lstm import LayerState
from elmo.model.lstm_cuda import CudaReader
from elmo.model.lstm_window import read_window
from elmo.model.lstm_window_cuda import WindowGraphs
from elmo.model.softmax import Softmax, draw_negatives
from elmo.pretrain.corpus import build_corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.shuffle import Shuffled
from elmo.pretrain.windows import Windows
from elmo.reader import Reader
from elmo.text import length_sorted_batches, read_lines
from elmo.training import Optimiser, OptimiserConfig

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
N_STEPS, N_WORDS, N_NEGATIVES = 20, 50_000, 8192
GEMM = 8192
"""Rows and columns of the product that measures the limit."""


def main() -> None:
    """Measure, print tables, and write them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["inference", "training"])
    parser.add_argument("--sizes", default="small,medium,original")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--sentences", type=Path, help="tokenized, one per line; else synthetic")
    parser.add_argument("--n-sentences", type=int, default=20_000)
    parser.add_argument("--batch-tokens", default="4096,32768", help="tokens per batch")
    parser.add_argument("--rows", default="128,512,2048", help="rows of a training window")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--steps", type=int, default=10, help="training steps per run")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--profile", type=Path, help="add tables of kernels to this")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gpu.py measures a GPU, but PyTorch sees no CUDA device here")
    device = torch.device("cuda")
    result = measure(arguments, device)
    if arguments.out:
        write_json(arguments.out, result)


def measure(arguments: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """All that was asked for."""
    rng = np.random.default_rng(0)
    if arguments.sentences:
        lines = (line.split() for line in read_lines(arguments.sentences))
        sentences = list(islice(filter(None, lines), arguments.n_sentences))
    else:
        sentences = synthetic_sentences(rng, arguments.n_sentences)
    limits = {name: gemm_limit(DTYPES[name], device) for name in arguments.dtypes.split(",")}
    result: dict[str, Any] = {
        "what": "tokens per second on a GPU (median); percent of the limit of one large product",
        "data": arguments.sentences.name if arguments.sentences else "synthetic",
        "n_sentences": len(sentences),
        "n_tokens": sum(map(len, sentences)),
        "limit_tflops": {name: round(limit / 1e12, 1) for name, limit in limits.items()},
        "rows": [],
        **circumstances(os.cpu_count() or 1, device),
    }
    print(f"{result['hardware']}; limits in TFLOP/s: {result['limit_tflops']}")
    measuring = Measuring(device, arguments.repeat, arguments.profile)
    for size in arguments.sizes.split(","):
        for dtype, limit in limits.items():
            rows = []
            if "inference" in arguments.what:
                for n in map(int, arguments.batch_tokens.split(",")):
                    rows += inference(size, dtype, sentences, n, measuring)
            if "training" in arguments.what:
                for n in map(int, arguments.rows.split(",")):
                    rows += training(size, dtype, sentences, n, arguments.steps, measuring)
            for row in rows:
                row["percent_of_limit"] = round(100 * row.pop("flops_per_second") / limit, 1)
                print_row(row)
            result["rows"] += rows
    return result


def print_row(row: dict[str, Any]) -> None:
    """One line of the table."""
    if "failed" in row:
        print(f"{row['name']:60} failed: {row['failed']}")
        return
    print(
        f"{row['name']:60} {row['tokens_per_second']:12,} tokens/s {row['percent_of_limit']:5.1f} %"
        f"  {row['peak_mib']:8,} MiB"
    )


def synthetic_sentences(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Words by Zipf's law, of lengths as in English; sentences of 19 tokens in the middle."""
    lengths = rng.integers(1, 12, N_WORDS)
    letters = rng.choice(list("etaoinshrdlu"), (N_WORDS, 12))
    # A number at the end makes each a word of its own.
    words = [f"{''.join(letters[i, : lengths[i]])}{i}" for i in range(N_WORDS)]
    sizes = np.clip(rng.lognormal(np.log(19), 0.6, n), 1, 120).astype(int)
    drawn = np.minimum(np.exp(rng.random(sizes.sum()) * np.log(N_WORDS)).astype(int), N_WORDS) - 1
    return [[words[i] for i in part] for part in np.split(drawn, np.cumsum(sizes)[:-1])]


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Measuring(NamedTuple):
    """Where and how often to measure, and the file that tables of kernels are added to."""

    device: torch.device
    n_runs: int
    profile: Path | None

    def timed(self, run: Callable[[], object]) -> tuple[float, int]:
        """Median seconds, and the most memory in MiB, after one run that does not count."""
        run()
        wait(self.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        seconds = []
        for _ in range(self.n_runs):
            started = time.perf_counter()
            run()
            wait(self.device)
            seconds.append(time.perf_counter() - started)
        on_gpu = self.device.type == "cuda"
        peak = torch.cuda.max_memory_allocated(self.device) if on_gpu else 0
        return sorted(seconds)[len(seconds) // 2], round(peak / 2**20)

    def kernels(self, name: str, run: Callable[[], object]) -> None:
        """Add what a short run launches to the file, if there is one."""
        if self.profile is None:
            return
        kinds, on_gpu = torch.profiler.ProfilerActivity, self.device.type == "cuda"
        activities = [kinds.CPU, kinds.CUDA] if on_gpu else [kinds.CPU]
        with torch.profiler.profile(activities=activities) as profiled:
            run()
            wait(self.device)
        key = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
        table = profiled.key_averages().table(sort_by=key, row_limit=25)
        with self.profile.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n{table}\n\n")


def gemm_limit(dtype: torch.dtype, device: torch.device) -> float:
    """FLOP/s of one large product."""
    a, b = (torch.randn(GEMM, GEMM, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    measuring = Measuring(device, 5, None)
    seconds, _ = measuring.timed(lambda: [torch.mm(a, b, out=out) for _ in range(10)])
    return 10 * 2 * GEMM**3 / seconds


# Reading.


@torch.inference_mode()
def inference(
    size: str,
    dtype: str,
    sentences: Sequence[list[str]],
    batch_tokens: int,
    measuring: Measuring,
) -> list[dict[str, Any]]:
    """Every way of reading, on token vectors that are there already; then from text on."""
    torch.manual_seed(0)
    device = measuring.device
    bilm = BiLM(config_of(size))
    bilm.reset_parameters()
    bilm = bilm.eval().requires_grad_(False).to(device, DTYPES[dtype])
    reader = Reader(bilm, cache_tokens=2 * N_WORDS)
    batches = [
        [sentences[i] for i in batch]
        for batch in length_sorted_batches([len(s) + 2 for s in sentences], batch_tokens)
    ]
    n_tokens, n_read = sum(map(len, sentences)), sum(len(s) + 2 for s in sentences)

    def inputs(batch: list[list[str]]) -> tuple[Tensor, Tensor, BiLMState]:
        tokens, mask = reader.batch(batch)
        return tokens, mask, bilm.zero_state(len(batch))

    ready = [inputs(batch) for batch in batches]
    packed, graphs, no_graphs = PackedBiLM(bilm), CudaReader(bilm), CudaReader(bilm, graphs=False)
    host = torch.empty(0)

    def from_text(some: slice, to_host: bool) -> None:
        nonlocal host
        for batch in batches[some]:
            layers = graphs.read(*inputs(batch)).layers
            if to_host:
                if host.numel() < layers.numel():
                    pinned = device.type == "cuda"
                    host = torch.empty(layers.numel(), dtype=layers.dtype, pin_memory=pinned)
                host[: layers.numel()].view(layers.shape).copy_(layers)

    stack = cudnn_stack(bilm.config.lstm, device, DTYPES[dtype])
    ways: dict[str, Callable[[slice], object]] = {
        "torch.nn.LSTM, no clips": lambda some: read_by_cudnn(stack, ready[some]),
        "packed, step by step": lambda some: [packed.read(*x) for x in ready[some]],
        "CudaReader without graphs": lambda some: [no_graphs.read(*x) for x in ready[some]],
        "CudaReader": lambda some: [graphs.read(*x) for x in ready[some]],
        "CudaReader, from text": partial(from_text, to_host=False),
        "CudaReader, from text to host": partial(from_text, to_host=True),
    }
    everything, few = slice(None), slice(2)
    rows = []
    for name, run in ways.items():
        row = {"name": f"{size} {dtype} batch {batch_tokens}: {name}", "flops_per_second": 0.0}
        try:
            if name.startswith("CudaReader"):
                run(everything)  # a shape is recorded when it comes again
            seconds, peak = measuring.timed(partial(run, everything))
            measuring.kernels(row["name"], partial(run, few))
        except RuntimeError as error:  # cuDNN may lack a dtype, and a GPU memory
            rows.append({**row, "failed": str(error).splitlines()[0]})
            continue
        row |= {"tokens_per_second": round(n_tokens / seconds), "peak_mib": peak}
        row["flops_per_second"] = n_read * lstm_flops(bilm.config.lstm) / seconds
        rows.append(row)
    return rows


def cudnn_stack(config: LstmConfig, device: torch.device, dtype: torch.dtype) -> list[nn.LSTM]:
    """Both directions as a user would write them."""
    sizes = (config.dim, config.hidden_dim, config.n_layers)
    return [
        nn.LSTM(*sizes, proj_size=config.dim, batch_first=True).to(device, dtype) for _ in range(2)
    ]


def read_by_cudnn(stack: list[nn.LSTM], ready: list[tuple[Tensor, Tensor, BiLMState]]) -> None:
    """As a user would: packed, one direction after the other; mirroring is left out."""
    for tokens, mask, _ in ready:
        lengths = mask.sum(dim=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(tokens, lengths, batch_first=True)
        for lstm in stack:
            lstm(packed)


# Training.


def training(
    size: str,
    dtype: str,
    sentences: list[list[str]],
    n_rows: int,
    n_steps: int,
    measuring: Measuring,
) -> list[dict[str, Any]]:
    """Whole steps: windows to changed weights, with graphs and without."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    corpus = build_corpus(sentences, max_words=N_WORDS, min_count=1)
    n_words = len(corpus.vocabulary)
    n_negatives = min(N_NEGATIVES, n_words)
    config = config_of(size)
    bilm, softmax = BiLM(config), Softmax(N_WORDS, config.lstm.dim)
    bilm.reset_parameters()
    softmax.reset_parameters()
    model = LanguageModel(bilm, softmax).to(measuring.device).train()
    order = Shuffled(corpus.n_sentences, 0)
    made = Windows(corpus, order, n_rows=n_rows, n_steps=N_STEPS)
    given = [(next(made), draw_negatives(N_WORDS, n_negatives, rng)) for _ in range(n_steps)]
    flops = sum(
        training_flops(config, corpus.types, window.inputs, n_negatives) for window, _ in given
    )
    rows = []
    for name, read in (("without graphs", read_window), ("graphs", WindowGraphs())):
        optimiser = Optimiser(OptimiserConfig(), bilm.parameters(), softmax.parameters())
        state = model.zero_state(n_rows)

        def steps(some: slice, read: Any = read, optimiser: Optimiser = optimiser) -> None:
            nonlocal state
            for window, negatives in given[some]:
                losses = model(
                    window,
                    corpus.char_ids,
                    state,
                    negatives=negatives,
                    dtype=DTYPES[dtype],
                    read=read,
                )
                (losses.total * N_STEPS).backward()
                state = [LayerState(h.detach(), c.detach()) for h, c in losses.state]
                optimiser.step(0.5)

        row = {"name": f"{size} {dtype} training {n_rows}×{N_STEPS}: {name}"}
        try:
            seconds, peak = measuring.timed(partial(steps, slice(None)))
            measuring.kernels(row["name"], partial(steps, slice(1)))
        except torch.cuda.OutOfMemoryError as error:
            rows.append({**row, "flops_per_second": 0.0, "failed": str(error).splitlines()[0]})
            continue
        rows.append(
            {
                **row,
                "tokens_per_second": round(n_steps * n_rows * N_STEPS / seconds),
                "peak_mib": peak,
                "flops_per_second": flops / seconds,
            }
        )
    return rows


if __name__ == "__main__":
    main()
