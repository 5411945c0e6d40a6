"""Text of two domains as files that `elmo adapt` reads: a part to adapt to, a part to measure on.

    python benchmarks/adaptation.py biomedical DATASETS/bioner/ncbi-disease [--out FOLDER]
    python benchmarks/adaptation.py captions DATASETS/nli/snli-small [--out FOLDER]

`biomedical` is the text of PubMed abstracts (NCBI Disease; its labels are not read); `captions` are
descriptions of photographs and sentences about them (SNLI). No sentence of the part to measure on
occurs in the part to adapt to.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from elmo.text import read_lines


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


def main() -> None:
    """Write the text of a domain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("domain", choices=list(DOMAINS))
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_text(arguments.domain, arguments.source, arguments.out)


if __name__ == "__main__":
    main()
