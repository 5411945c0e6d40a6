"""Speed of a pre-training step on a CPU: ours beside a plain one and `torch.nn.LSTM`, in one run.

A step is a window of text in both directions, another one each time: character CNN, LSTMs, sampled
softmax, gradients, clipping, Adam. The plain step is the definition (each token through the CNN,
each LSTM step through autograd, scores of all tokens at once). Each way in a process of its own;
tokens are counted once, though each is predicted in both directions. The limit is that of one large
product, measured in the same run, for the products that are needed: backward passes cost two
forward ones. Ours also drops out and carries state, which the others are spared.

    python benchmarks/training.py TEXT.txt.xz [--size small] [--out FILE.json]

TEXT has one sentence per line, tokens between white space.
"""

import argparse
import os
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from alone import alone, timed
from circumstances import circumstances
from limit import gemm_limits
from needed import config_of, training_flops
from torch import Tensor, nn

from elmo import BiLM
from elmo.json_files import write_json
from elmo.model.lstm import LayerState
from elmo.model.softmax import Negatives, Softmax, draw_negatives
from elmo.pretrain.corpus import build_corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.learner import compiled_cells
from elmo.pretrain.shuffle import Shuffled
from elmo.pretrain.windows import Window, Windows
from elmo.text import char_ids, read_lines
from elmo.training import Optimiser, OptimiserConfig

N_ROWS, N_STEPS, N_WORDS, N_NEGATIVES = 128, 20, 50_000, 8192
N_SENTENCES = 120_000
"""Of the text, so many that their vocabulary has `N_WORDS` words."""
N_WINDOWS = {"plain": 1, "torch.nn.LSTM": 2}
"""Windows per run of the slow ways; of ours as many as asked for."""


class Given(NamedTuple):
    """What is trained on, the same for every way."""

    size: str
    types: list[str]
    char_table: np.ndarray
    n_words: int
    windows: list[tuple[Window, Negatives]]


def main() -> None:
    """Measure, print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", default="small")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--windows", type=int, default=8, help="per run")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_windows = arguments.windows * (1 + arguments.repeat)  # the first run does not count
    given = prepare(arguments.text, arguments.size, n_windows)
    limits = alone(gemm_limits, arguments.threads)
    limits.pop("peak_mib", None)
    print(
        f"{arguments.size}, windows of {N_ROWS}×{N_STEPS}, vocabulary of {given.n_words:,}; limits"
    )
    print(", ".join(f"{name} {limit / 1e9:,.0f} GFLOP/s" for name, limit in limits.items()))
    rows, plain = [], None
    for name, dtype, work in WAYS:
        row: dict[str, Any] = {"way": name}
        row |= alone(work, arguments.threads, given, name, dtype, arguments.repeat)
        if "failed" in row:
            print(f"{name:55} failed: {row['failed']}", flush=True)
        else:
            plain = row["tokens_per_second"] if name == "plain" else plain
            row["times_plain"] = round(row["tokens_per_second"] / plain, 1) if plain else 0.0
            share = 100 * row.pop("flops_per_second") / limits.get(dtype, limits["float32"])
            row["percent_of_limit"] = round(share, 1)
            print(
                f"{name:55} {row['tokens_per_second']:7,} tokens/s {row['times_plain']:6.1f}× "
                f"{row['percent_of_limit']:5.1f} % {row['peak_mib']:6,} MiB",
                flush=True,
            )
        rows.append(row)
    if arguments.out:
        result = {
            "what": "training steps: tokens per second (median), MiB, percent of the limit",
            "data": arguments.text.name,
            "size": arguments.size,
            "window": [N_ROWS, N_STEPS],
            "vocabulary": given.n_words,
            "negatives": N_NEGATIVES,
            "limit_gflops": {name: round(limit / 1e9) for name, limit in limits.items()},
            "rows": rows,
            **circumstances(arguments.threads),
        }
        write_json(arguments.out, result)


def prepare(text: Path, size: str, n_windows: int) -> Given:
    """Windows of the text, and negatives for each."""
    lines = (line.split() for line in read_lines(text))
    corpus = build_corpus(islice(filter(None, lines), N_SENTENCES), max_words=N_WORDS, min_count=1)
    rng = np.random.default_rng(0)
    n_words = len(corpus.vocabulary)
    made = Windows(corpus, Shuffled(corpus.n_sentences, 0), n_rows=N_ROWS, n_steps=N_STEPS)
    drawn = [
        (window, draw_negatives(n_words, min(N_NEGATIVES, n_words), rng))
        for window in islice(made, n_windows)
    ]
    return Given(size, list(corpus.types), corpus.char_ids, n_words, drawn)


def train(given: Given, name: str, dtype: str, n_runs: int) -> dict[str, Any]:
    """Our steps."""
    model = new_model(given)
    optimiser = Optimiser(OptimiserConfig(), model.bilm.parameters(), model.softmax.parameters())
    state = model.zero_state(N_ROWS)

    def step(window: Window, negatives: Negatives) -> None:
        nonlocal state
        losses = model(
            window, given.char_table, state, negatives=negatives, dtype=getattr(torch, dtype)
        )
        (losses.total * N_STEPS).backward()
        state = [LayerState(h.detach(), c.detach()) for h, c in losses.state]
        optimiser.step(0.5)

    with compiled_cells() if "compiled" in name else nullcontext():
        return measured(given, name, step, n_runs)


def train_plainly(given: Given, name: str, dtype: str, n_runs: int) -> dict[str, Any]:
    """The definition, or a `torch.nn.LSTM` in place of its LSTMs, through autograd."""
    model = new_model(given)
    config = model.bilm.config.lstm
    if name.startswith("torch.nn.LSTM"):
        stacks: Any = nn.ModuleList(
            nn.LSTM(config.dim, config.hidden_dim, config.n_layers, proj_size=config.dim)
            for _ in range(2)
        )
        dense = [*model.bilm.char_cnn.parameters(), *stacks.parameters()]
    else:
        stacks, dense = None, [*model.bilm.parameters()]
    optimiser = torch.optim.Adam([*dense, *model.softmax.parameters()], 1e-3)
    everything = torch.ones(N_ROWS, N_STEPS, dtype=torch.bool)

    def hidden(d: int, x: Tensor) -> Tensor:
        """(steps, rows, dim), in reading order, of one direction."""
        if stacks is not None:
            return stacks[d](x)[0]
        x, zero = x.transpose(0, 1), model.bilm.zero_state(N_ROWS)
        for k, lstm in enumerate((model.bilm.forward_lm, model.bilm.backward_lm)[d]):
            out, _ = lstm(x, everything, LayerState(zero.h[d, k], zero.c[d, k]))
            x = out + x if k > 0 and config.skip_connections else out
        return x.transpose(0, 1)

    def step(window: Window, negatives: Negatives) -> None:
        loss = torch.zeros(())
        for d in range(2):
            tokens = [given.types[i] for i in window.inputs[d].ravel()]
            x = model.bilm.char_cnn(torch.from_numpy(char_ids(tokens)))
            out = hidden(d, x.view(N_STEPS, N_ROWS, -1)).flatten(0, 1)
            targets = torch.from_numpy(window.targets[d].reshape(-1))
            loss = loss + model.softmax.sampled_loss(out, targets, negatives).mean() / 2
        (loss * N_STEPS).backward()
        nn.utils.clip_grad_norm_([*dense, *model.softmax.parameters()], 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return measured(given, name, step, n_runs)


def new_model(given: Given) -> LanguageModel:
    """Random weights, the same for every way."""
    torch.manual_seed(0)
    config = config_of(given.size)
    bilm, softmax = BiLM(config), Softmax(given.n_words, config.lstm.dim)
    bilm.reset_parameters()
    softmax.reset_parameters()
    return LanguageModel(bilm, softmax).train()


def measured(
    given: Given, name: str, step: Callable[[Window, Negatives], None], n_runs: int
) -> dict[str, Any]:
    """A row of the table."""
    # As text goes on: windows that come again have sizes that libraries have prepared for.
    n_windows = N_WINDOWS.get(name, len(given.windows) // (1 + n_runs))
    runs = (given.windows[i * n_windows : (i + 1) * n_windows] for i in range(1 + n_runs))
    seconds = timed(lambda: [step(*window) for window in next(runs)], n_runs)
    config = config_of(given.size)
    flops = [
        training_flops(config, given.types, window.inputs, len(negatives.words))
        for window, negatives in given.windows
    ]
    return {
        "tokens_per_second": round(n_windows * N_ROWS * N_STEPS / seconds),
        "flops_per_second": n_windows * sum(flops) / len(flops) / seconds,
    }


WAYS = (
    ("plain", "float32", train_plainly),
    ("torch.nn.LSTM", "float32", train_plainly),
    ("float32", "float32", train),
    ("float32, compiled cells", "float32", train),
    ("bfloat16", "bfloat16", train),
    ("bfloat16, compiled cells", "bfloat16", train),
)

if __name__ == "__main__":
    main()
