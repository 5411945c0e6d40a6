"""Held-out perplexity of a model, beside n-gram models of the same training text.

    python benchmarks/perplexity_baselines.py MODEL RECIPE --ngrams NGRAMS.json [--out FILE.json]

NGRAMS.json is what `benchmarks/kneser_ney.py` wrote for the same recipe and vocabulary: it is
estimated once, and serves every model that has learned from that text. The n-gram models have read
all of it, however much of it the model saw.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from circumstances import circumstances
from kneser_ney import digest, part_names

from elmo.checkpoints.sources import load
from elmo.json_files import write_json
from elmo.pretrain.corpus import build_corpus, find_files, read_sentences
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import Perplexity, perplexity
from elmo.pretrain.recipe import read_recipe

MODEL = "biLM"


def main() -> None:
    """Measure on each held-out file and on all together; print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--ngrams", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = read_recipe(arguments.recipe)
    checkpoint = load(arguments.model, softmax=True)
    vocabulary, softmax = checkpoint.vocabulary, checkpoint.softmax
    if vocabulary is None or softmax is None:
        raise SystemExit(f"{arguments.model} has no softmax and vocabulary")
    ngrams = json.loads(arguments.ngrams.read_text(encoding="utf-8"))
    if ngrams["vocabulary_sha256"] != digest(vocabulary):
        raise SystemExit(
            f"{arguments.ngrams} is of another vocabulary than {arguments.model}: estimate its "
            "n-gram models by benchmarks/kneser_ney.py"
        )
    train = [path.name for path in find_files(recipe.corpus.train)]
    if ngrams["train"] != train:
        raise SystemExit(
            f"{arguments.ngrams} is of {len(ngrams['train'])} files of text, but "
            f"{arguments.recipe} has {len(train)}, or others: estimate its n-gram models anew"
        )
    model = LanguageModel(checkpoint.bilm, softmax).eval()
    files = find_files(recipe.corpus.heldout)
    rows: dict[str, dict[str, Any]] = {}
    measured = []
    for part, path in zip(part_names(files), files, strict=True):
        corpus = build_corpus(read_sentences([path]), vocabulary)
        of_part = perplexity(model, vocabulary, corpus.texts())
        row = ngrams["parts"].get(part)
        if row is None or row["predictions"] != of_part.n_tokens:
            raise SystemExit(f"{arguments.ngrams} has not measured the text of {path}")
        measured.append(of_part)
        rows[part] = {**row, MODEL: rounded(of_part)}
        print(part, of_part, flush=True)
    orders = [name for name in rows[next(iter(rows))] if name.endswith("-gram")]
    whole = together(measured)
    rows["all"] = {
        "predictions": whole.n_tokens,
        "unknown": whole.n_unknown,
        **{name: joined(rows, name) for name in orders},
        MODEL: rounded(whole),
    }
    result = {
        "what": "held-out perplexity, full softmax, forward and backward",
        "model": arguments.model,
        "recipe": str(arguments.recipe),
        "n_train_tokens": ngrams["n_train_tokens"],
        "vocabulary": len(vocabulary),
        "seed": recipe.seed,
        "parts": rows,
        **circumstances(arguments.threads),
    }
    print(markdown(result))
    for name in orders:
        ahead = [part for part, row in rows.items() if np.less(row[MODEL], row[name]).all()]
        behind = ", ".join(part for part in rows if part not in ahead) or "none"
        print(f"ahead of the {name} model on {len(ahead)} of {len(rows)}, not on: {behind}")
    if arguments.out:
        write_json(arguments.out, result)


def rounded(of: Perplexity) -> list[float]:
    """Forward and backward."""
    return [round(of.forward_lm, 2), round(of.backward_lm, 2)]


def joined(rows: dict[str, dict[str, Any]], name: str) -> list[float]:
    """Perplexities of all parts as one text."""
    n = np.array([row["predictions"] for row in rows.values()])
    losses = np.log([row[name] for row in rows.values()])
    return [round(float(p), 2) for p in np.exp(n @ losses / n.sum())]


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


def markdown(result: dict[str, Any]) -> str:
    """A table: forward / backward."""
    rows = result["parts"]
    names = [name for name, of in rows["all"].items() if isinstance(of, list)]
    titles = ["this model" if name == MODEL else name for name in names]
    lines = [
        f"| held-out part | predictions | `<UNK>` | {' | '.join(titles)} |",
        "|---|---:|---:|" + "---:|" * len(names),
    ]
    for part, row in rows.items():
        numbers = " | ".join("{:.1f} / {:.1f}".format(*row[name]) for name in names)
        unknown = row["unknown"] / row["predictions"]
        title = f"**{part}**" if part == "all" else part
        lines.append(f"| {title} | {row['predictions']:,} | {unknown:.1%} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
