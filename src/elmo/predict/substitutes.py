"""Which words could stand in a place of a sentence? Axes: places, words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch

from elmo.compare import Place
from elmo.predict.place import DIRECTIONS, admitted, chunk_tokens
from elmo.predict.score import check_no_boundary
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.outputs import GROUP_SENTENCES, check_reading, check_vocabulary, read_group
from elmo.pretrain.perplexity import CACHE_TOKENS
from elmo.reader import Reader
from elmo.text import Vocabulary, check_tokens


class Candidate(NamedTuple):
    """A word, and how likely it is in that place."""

    word: str
    probability: float


@dataclass(frozen=True)
class Substitutes:
    """Words that could stand in a place.

    Attributes:
        tokens: The sentence.
        position: Which token is asked for; it is not read itself.
        candidates: The likeliest words, likeliest first. Boundaries and `<UNK>` are never among
            them: probabilities of all words of the vocabulary without those make 1.
        rank: Which place the token itself has among all words, from 1; None if it is outside the
            vocabulary.
        probability: Of the token itself; None likewise.
    """

    tokens: Sequence[str]
    position: int
    candidates: Sequence[Candidate]
    rank: int | None
    probability: float | None

    @property
    def word(self) -> str:
        """What stands there."""
        return self.tokens[self.position]


def substitutes(
    model: LanguageModel,
    vocabulary: Vocabulary,
    places: Iterable[Place],
    *,
    n: int = 10,
    direction: str = "both",
    batch_tokens: int = 4096,
    reader: Reader | None = None,
) -> Iterator[Substitutes]:
    """The likeliest words in each place in turn, reading ahead a little.

    Args:
        model: The model; nothing is dropped out. Each sentence is read on its own.
        vocabulary: The words of its softmax.
        places: Read once, streaming.
        n: How many words; fewer if the vocabulary has no more.
        direction: `forward` looks at what stands left of the place, `backward` at what stands
            right, `both` combines them as `elmo.predict.place` says.
        batch_tokens: Tokens per forward pass, padding included.
        reader: Of the model's biLM, where there is one that remembers its tokens.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
        ValueError: If a position is not in its sentence, a token is `<S>` or `</S>`, the direction
            is no choice, no word is wanted, or the vocabulary is not that of the softmax.
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction is {direction!r}, but expected one of {', '.join(DIRECTIONS)}")
    if n < 1:
        raise ValueError(f"n is {n}, but at least 1 word is wanted")
    check_reading("zero", batch_tokens)
    check_vocabulary(vocabulary, model.softmax.n_words)
    reader = reader or Reader(model.bilm, CACHE_TOKENS)
    return _substitutes(model, vocabulary, places, n, direction, batch_tokens, reader)


def _substitutes(
    model: LanguageModel,
    vocabulary: Vocabulary,
    places: Iterable[Place],
    n: int,
    direction: str,
    batch_tokens: int,
    reader: Reader,
) -> Iterator[Substitutes]:
    remaining, n_before = iter(places), 0
    while group := list(islice(remaining, GROUP_SENTENCES)):
        for i, place in enumerate(group, start=n_before):
            _check_place(place, i)
        n_before += len(group)
        found: list[Substitutes | None] = [None] * len(group)
        sentences = [place.tokens for place in group]
        for outputs in read_group(reader, vocabulary, sentences, batch_tokens=batch_tokens):
            at = torch.tensor(
                [
                    start + group[i].position
                    for i, start in zip(outputs.numbers, outputs.starts, strict=True)
                ],
                device=outputs.forward_words.device,
            )
            size = chunk_tokens(model.softmax.n_words)
            for first in range(0, len(at), size):
                some = at[first : first + size]
                rows = _likeliest(
                    model,
                    vocabulary,
                    (outputs.forward_lm[some], outputs.backward_lm[some + 1]),
                    [group[i] for i in outputs.numbers[first : first + size]],
                    n,
                    direction,
                )
                for i, row in zip(outputs.numbers[first : first + size], rows, strict=True):
                    found[i] = row
        for result in found:
            assert result is not None
            yield result


@torch.inference_mode()
def _likeliest(
    model: LanguageModel,
    vocabulary: Vocabulary,
    outputs: tuple[torch.Tensor, torch.Tensor],
    places: Sequence[Place],
    n: int,
    direction: str,
) -> list[Substitutes]:
    specials = (vocabulary.begin, vocabulary.end, vocabulary.unknown)
    log_p = admitted(model.softmax, *outputs, direction, specials)
    top = log_p.topk(min(n, len(vocabulary) - len(specials)), dim=1)
    own = torch.tensor([vocabulary.id(place.tokens[place.position]) for place in places])
    of_own = log_p.gather(1, own.to(log_p.device).unsqueeze(1))
    ranks = (log_p > of_own).sum(dim=1) + 1
    results = []
    for place, words, values, word, mine, rank in zip(
        places, top.indices.tolist(), top.values.exp().tolist(), own.tolist(),
        of_own.exp().squeeze(1).tolist(), ranks.tolist(), strict=True,
    ):  # fmt: skip
        known = word not in specials
        results.append(
            Substitutes(
                place.tokens,
                place.position,
                [Candidate(vocabulary.words[w], p) for w, p in zip(words, values, strict=True)],
                rank if known else None,
                mine if known else None,
            )
        )
    return results


def _check_place(place: Place, i: int) -> None:
    check_tokens(place.tokens, i)
    if not 0 <= place.position < len(place.tokens):
        raise ValueError(
            f"position is {place.position}, but sentences[{i}] has {len(place.tokens)} tokens, "
            "numbered from 0"
        )
    check_no_boundary(place.tokens, i)


def as_json(found: Substitutes) -> dict[str, Any]:
    """Substitutes as JSON can hold them."""
    return {
        "tokens": list(found.tokens),
        "position": found.position,
        "word": found.word,
        "rank": found.rank,
        "probability": found.probability,
        "substitutes": [candidate._asdict() for candidate in found.candidates],
    }
