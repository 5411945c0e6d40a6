"""What is the best way to guess a word from both directions? Held-out text says.

    python benchmarks/combining_directions.py HELDOUT... --counts TRAIN... [--out FILE.json]

Files are tokenized, a sentence on each line. The same number of sentences is drawn from each
held-out file; every token is guessed, the words of the vocabulary ranked. Counted frequencies are
of the first lines of each training file.
"""

import argparse
import math
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from circumstances import circumstances

from elmo import WordPredictor
from elmo.json_files import write_json
from elmo.predict.place import log_frequencies
from elmo.pretrain.corpus import read_sentences
from elmo.pretrain.outputs import Outputs, read_group
from elmo.reader import Reader

COUNTED_LINES, RARE = 20_000, 300
"""Lines of each training file that are counted; rank from which on a word is called rare."""
Way = tuple[float, float, float, str]
"""Weights of log p forward, log p backward, and the log of the frequency that is subtracted."""
WAYS: dict[str, Way] = {
    "forward": (1, 0, 0, "rank"),
    "backward": (0, 1, 0, "rank"),
    "product": (1, 1, 0, "rank"),
    "geometric mean": (0.5, 0.5, 0, "rank"),
    **{
        f"product / {source} frequency{power}": (1, 1, weight, source)
        for source in ("rank", "counted", "bias")
        for weight, power in ((0.5, "^0.5"), (1, ""))
    },
}


def main() -> None:
    """Guess every token in every way; print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heldout", type=Path, nargs="+")
    parser.add_argument("--counts", type=Path, nargs="+", required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    predictor = WordPredictor.from_pretrained(arguments.model, device="cpu")
    rng = random.Random(arguments.seed)
    of_each = math.ceil(arguments.sentences / len(arguments.heldout))
    sentences = []
    for path in arguments.heldout:
        lines = list(read_sentences([path]))
        sentences += rng.sample(lines, min(of_each, len(lines)))
    rng.shuffle(sentences)
    sentences = sentences[: arguments.sentences]
    found = guess(predictor, sentences, frequencies(predictor, arguments.counts))
    for name, row in found.items():
        print(f"{name:32s}", *(f"{key} {value:.4g}" for key, value in row.items()), sep="  ")
    if arguments.out:
        result = {
            "what": "guessing every token of held-out sentences from what stands around it",
            "model": arguments.model,
            "sentences": len(sentences),
            "tokens": sum(map(len, sentences)),
            "seed": arguments.seed,
            "rare": f"from rank {RARE} of the vocabulary on",
            "ways": {
                name: {key: round(value, 4) for key, value in row.items()}
                for name, row in found.items()
            },
            **circumstances(arguments.threads),
        }
        write_json(arguments.out, result)


def frequencies(predictor: WordPredictor, files: list[Path]) -> dict[str, torch.Tensor]:
    """Log of each word's frequency: by its rank, counted, and as the softmax's bias has it."""
    vocabulary = predictor.vocabulary
    counts = np.full(len(vocabulary), 0.5)
    for file in files:
        for sentence in islice(read_sentences([file]), COUNTED_LINES):
            for token in sentence:
                counts[vocabulary.id(token)] += 1
    return {
        "rank": log_frequencies(len(vocabulary)),
        "counted": torch.from_numpy(np.log(counts / counts.sum())).float(),
        "bias": torch.log_softmax(predictor.model.softmax.bias.detach(), dim=0),
    }


@torch.inference_mode()
def guess(
    predictor: WordPredictor, sentences: list[list[str]], log_frequency: dict[str, torch.Tensor]
) -> dict[str, dict[str, float]]:
    """Of each way: mean reciprocal rank of the true word, if known; perplexity of all tokens."""
    vocabulary = predictor.vocabulary
    boundaries = torch.tensor([vocabulary.begin, vocabulary.end])
    words, losses, ranks = [], {n: [] for n in WAYS}, {n: [] for n in WAYS}
    for outputs in outputs_of(predictor, sentences):
        for start, length in zip(outputs.starts, outputs.lengths, strict=True):
            of = outputs.forward_words[start : start + length]
            words.append(of)
            forward_lm, backward_lm = (
                predictor.model.softmax.log_probabilities(hidden)
                for hidden in (
                    outputs.forward_lm[start : start + length],
                    outputs.backward_lm[start + 1 : start + 1 + length],
                )
            )
            for name, (left, right, less, source) in WAYS.items():
                scores = left * forward_lm + right * backward_lm - less * log_frequency[source]
                log_p = torch.log_softmax(scores.index_fill(1, boundaries, -torch.inf), dim=1)
                losses[name].append(-log_p.gather(1, of[:, None])[:, 0])
                log_p[:, vocabulary.unknown] = -torch.inf
                ranks[name].append((log_p > log_p.gather(1, of[:, None])).sum(dim=1) + 1)
    word = torch.cat(words)
    known, rare = word != vocabulary.unknown, word >= RARE
    result = {}
    for name in WAYS:
        rank, loss = torch.cat(ranks[name]).double(), torch.cat(losses[name]).double()
        result[name] = {
            "mrr": float((1 / rank)[known].mean()),
            "mrr_rare": float((1 / rank)[rare].mean()),
            "first": float((rank == 1)[known].double().mean()),
            "among_10": float((rank <= 10)[known].double().mean()),
            "median_rank_rare": float(rank[rare].median()),
            "perplexity": math.exp(loss.mean()),
            "perplexity_rare": math.exp(loss[rare].mean()),
        }
    return result


def outputs_of(predictor: WordPredictor, sentences: list[list[str]]) -> Iterator[Outputs]:
    """What words are predicted from."""
    reader = Reader(predictor.model.bilm, 50_000)
    yield from read_group(reader, predictor.vocabulary, sentences)


if __name__ == "__main__":
    main()
