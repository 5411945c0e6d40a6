"""How much better a model that was adapted to a domain predicts it (table 7 of the paper).

    python benchmarks/adaptation.py biomedical DATASETS/bioner/ncbi-disease --out FOLDER
    python benchmarks/adaptation.py captions DATASETS/nli/snli-small --out FOLDER --model default

The first writes the text into FOLDER/biomedical: `adapt.txt`, and `measure.txt` to measure on. With
a model it is adapted beside them in a folder of its name (again: goes on), as `elmo adapt` does,
and --result gets the perplexities.

`biomedical` is the text of PubMed abstracts (NCBI Disease; its labels are not read); `captions` are
descriptions of photographs and sentences about them (SNLI). No sentence of the part to measure on
occurs in the part to adapt to.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from circumstances import circumstances

from elmo.config import config_to_dict
from elmo.json_files import write_json
from elmo.pretrain.recipe import adaptation_recipe
from elmo.pretrain.run import pretrain
from elmo.text import read_lines
from elmo.training_state import STATE_FILE


class Domain(NamedTuple):
    """Where the text of a domain is, and how a file of it is read."""

    adapt: tuple[str, ...]
    measure: tuple[str, ...]
    read: Callable[[Path], Iterator[list[str]]]


def conll_sentences(path: Path) -> Iterator[list[str]]:
    """Tokens of a file with a token and its tag on each line, and a blank line after a sentence."""
    sentence: list[str] = []
    for line in read_lines(path):
        if line.strip():
            sentence.append(line.split()[0])
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def pair_sentences(path: Path) -> Iterator[list[str]]:
    """Tokens of both sentences of each pair, a JSON object on each line; each sentence once."""
    seen = set()
    for line in read_lines(path):
        pair = json.loads(line)
        for text in (pair["sentence1"], pair["sentence2"]):
            if text not in seen:
                seen.add(text)
                yield text.split()


DOMAINS = {
    "biomedical": Domain(("train.txt.gz", "dev.txt"), ("test.txt",), conll_sentences),
    "captions": Domain(("train.jsonl.gz",), ("dev.jsonl",), pair_sentences),
}


class Text(NamedTuple):
    """A domain's text in two files."""

    adapt: Path
    measure: Path


def write_text(domain: str, source: Path, folder: Path) -> Text:
    """Write a domain's text into `adapt.txt` and `measure.txt`, and say how much it is."""
    files = DOMAINS[domain]
    text = Text(folder / "adapt.txt", folder / "measure.txt")
    known = set()

    def lines(names: Iterable[str]) -> Iterator[str]:
        for name in names:
            yield from (" ".join(tokens) for tokens in files.read(source / name))

    counts: dict[str, list[int]] = {}
    n_both = 0
    for path, names in ((text.adapt, files.adapt), (text.measure, files.measure)):
        n_sentences = n_tokens = 0
        with path.open("w", encoding="utf-8") as out:
            for line in lines(names):
                if path == text.adapt:
                    known.add(line)
                elif line in known:
                    n_both += 1
                    continue
                out.write(f"{line}\n")
                n_sentences += 1
                n_tokens += line.count(" ") + 1
        counts[path.name] = [n_sentences, n_tokens]
    for name, (n_sentences, n_tokens) in counts.items():
        print(f"{domain}: {name}: {n_sentences:,} sentences, {n_tokens:,} tokens")
    print(f"{domain}: {n_both:,} sentences were in both parts and are not measured on")
    return text


def adapt(
    domain: str, text: Text, model: str, folder: Path, overrides: list[str]
) -> dict[str, Any]:
    """Adapt a model, or go on with it; the perplexities before and after."""
    recipe = adaptation_recipe(
        model, [str(text.adapt)], folder, heldout=[str(text.measure)], overrides=overrides
    )
    made = pretrain(recipe, resume=(folder / STATE_FILE).exists())
    assert made.before is not None and made.heldout is not None
    for when, measured in (("before", made.before), ("after", made.heldout)):
        print(f"{domain}: {when}: {measured.forward_lm:.1f} / {measured.backward_lm:.1f}")
    return {
        "model": model,
        "before": asdict(made.before),
        "after": asdict(made.heldout),
        "steps": made.n_steps,
        "best_step": made.best_step,
        "minutes": made.seconds / 60,
        "recipe": config_to_dict(recipe) | {"output": folder.name, "corpus": domain},
        "circumstances": circumstances(torch.get_num_threads()),
    }


def main() -> None:
    """Write the text of a domain, and adapt a model to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("domain", choices=list(DOMAINS))
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--model", help="adapt this one")
    parser.add_argument("--set", action="append", default=[], help="key=value for the recipe")
    parser.add_argument("--result", type=Path, default=Path("results/adaptation.json"))
    arguments = parser.parse_args()
    folder = arguments.out / arguments.domain
    folder.mkdir(parents=True, exist_ok=True)
    text = write_text(arguments.domain, arguments.source, folder)
    if arguments.model is None:
        return
    output = folder / Path(arguments.model).name
    row = adapt(arguments.domain, text, arguments.model, output, arguments.set)
    results = json.loads(arguments.result.read_text()) if arguments.result.exists() else {}
    write_json(arguments.result, results | {arguments.domain: row})


if __name__ == "__main__":
    main()
