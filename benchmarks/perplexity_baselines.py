"""Held-out perplexity of a model, beside a unigram and a trigram model of the same training text.

    python benchmarks/perplexity_baselines.py MODEL RECIPE [--out FILE.json]

The n-gram models read all of the recipe's training text, however much of it the model saw.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from circumstances import circumstances

from elmo.checkpoints.sources import load
from elmo.pretrain.corpus import build_corpus, find_files, read_sentences
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.ngram import NGram, ngram_perplexity
from elmo.pretrain.perplexity import Perplexity, perplexity
from elmo.pretrain.recipe import read_recipe


def main() -> None:
    """Measure on each held-out file and on all together; print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = read_recipe(arguments.recipe)
    checkpoint = load(arguments.model, softmax=True)
    vocabulary, softmax = checkpoint.vocabulary, checkpoint.softmax
    if vocabulary is None or softmax is None:
        raise SystemExit(f"{arguments.model} has no softmax and vocabulary")
    files = find_files(recipe.corpus.heldout)
    heldout = {
        name: build_corpus(read_sentences([path]), vocabulary)
        for name, path in zip(part_names(files), files, strict=True)
    }
    started = time.perf_counter()
    train = build_corpus(read_sentences(find_files(recipe.corpus.train)), vocabulary)
    print(f"{train.n_tokens:,} tokens of training text in {time.perf_counter() - started:.0f} s")
    table: dict[str, dict[str, Perplexity]] = {name: {} for name in heldout}
    for name, order in (("unigram", 1), ("trigram", 3)):
        started = time.perf_counter()
        both = NGram(train, order=order), NGram(train, order=order, reverse=True)
        for part, corpus in heldout.items():
            table[part][name] = ngram_perplexity(*both, corpus)
        del both
        print(f"{name}: {time.perf_counter() - started:.0f} s")
    n_train = train.n_tokens
    del train
    model = LanguageModel(checkpoint.bilm, softmax).eval()
    for part, corpus in heldout.items():
        table[part]["biLM"] = perplexity(model, vocabulary, corpus.texts())
        print(part, table[part]["biLM"], flush=True)
    table["all"] = {
        name: together([row[name] for row in table.values()]) for name in table[next(iter(table))]
    }
    show(table)
    if arguments.out:
        result = {
            "what": "held-out perplexity, full softmax, forward and backward",
            "model": arguments.model,
            "recipe": str(arguments.recipe),
            "n_train_tokens": n_train,
            "vocabulary": len(vocabulary),
            "seed": recipe.seed,
            "parts": {
                part: {
                    "predictions": row["biLM"].n_tokens,
                    "unknown": row["biLM"].n_unknown,
                    **{
                        name: [round(p.forward_lm, 2), round(p.backward_lm, 2)]
                        for name, p in row.items()
                    },
                }
                for part, row in table.items()
            },
            **circumstances(arguments.threads),
        }
        arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def part_names(files: list[Path]) -> list[str]:
    """A name for each file, short where that tells it from the others."""
    short = [path.name.partition(".")[0] for path in files]
    return [
        str(path) if short.count(name) > 1 else name
        for path, name in zip(files, short, strict=True)
    ]


def together(parts: list[Perplexity]) -> Perplexity:
    """The perplexity of all parts as one text."""
    n = np.array([part.n_tokens for part in parts])
    losses = np.log([[part.forward_lm, part.backward_lm] for part in parts])
    forward_lm, backward_lm = np.exp((losses * n[:, None]).sum(axis=0) / n.sum())
    return Perplexity(
        float(forward_lm),
        float(backward_lm),
        int(n.sum()),
        sum(part.n_sentences for part in parts),
        sum(part.n_unknown for part in parts),
    )


def show(table: dict[str, dict[str, Perplexity]]) -> None:
    """Print a table in Markdown: forward / backward."""
    names = list(next(iter(table.values())))
    print("| held-out part | predictions | `<UNK>` | " + " | ".join(names) + " |")
    print("|---|---:|---:|" + "---:|" * len(names))
    for part, row in table.items():
        first = row[names[0]]
        n_words = first.n_tokens - first.n_sentences
        numbers = (f"{row[name].forward_lm:.1f} / {row[name].backward_lm:.1f}" for name in names)
        print(
            f"| {part} | {first.n_tokens:,} | {first.n_unknown / n_words:.1%} | "
            + " | ".join(numbers)
            + " |"
        )


if __name__ == "__main__":
    main()
