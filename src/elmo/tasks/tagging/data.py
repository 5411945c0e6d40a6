"""Tagged sentences as the tagger needs them: spans repaired, predictions written.

`.gz`, `.xz` and `.zst` are compressed.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from elmo.tagged import TaggedSentence
from elmo.tasks.tag_spans import are_span_tags, readable_by_conlleval, rewritten, tag_spans
from elmo.text import write_lines

CONLLEVAL_BOUNDARY = "-X-"
"""A token that conlleval takes for the end of a sentence."""


def repaired(sentences: Sequence[TaggedSentence]) -> tuple[list[TaggedSentence], int]:
    """Write tags of spans as BIO, and count the sentences in which that changes any.

    A training file in IOB1 or BIOES, or with an `I-` where `B-` should be, keeps its spans as
    conlleval reads them.

    Raises:
        ValueError: If a tag writes no span.
    """
    as_bio = [
        sentence
        if sentence.tags is None
        else replace(sentence, tags=tuple(rewritten(sentence.tags)))
        for sentence in sentences
    ]
    n_changed = sum(before != after for before, after in zip(sentences, as_bio, strict=True))
    return as_bio, n_changed


def span_labels(sentences: Iterable[TaggedSentence]) -> list[str]:
    """What the spans of the sentences are called, sorted."""
    return sorted({span.label for s in sentences for span in tag_spans(s.tags or ())})


def unknown_tags(sentences: Iterable[TaggedSentence], known: Iterable[str]) -> Counter[str]:
    """Tags of the sentences that are not among the known, and of how many tokens they are.

    A model cannot predict them, so each such token counts as wrong.
    """
    known = frozenset(known)
    return Counter(tag for s in sentences for tag in s.tags or () if tag not in known)


def write_tagged(
    path: str | Path, sentences: Sequence[TaggedSentence], predicted: Sequence[Sequence[str]]
) -> None:
    """Write what conlleval reads: `token right-tag predicted-tag`, a blank line after a sentence.

    Where the right tags are not known, lines are `token predicted-tag`. White space in a token
    becomes `_`, as a space would begin a column; a token `-X-`, which conlleval takes for the end
    of a sentence, becomes `_X_`. Tags in BIOES, which it does not know, become BIO. Sentences that
    kept their lines of CoNLL-U are written as these, with the predicted tags in their column. The
    file is written beside and then renamed.

    Raises:
        ValueError: If there are not as many predicted tags as tokens.
    """
    guessed = [replace(s, tags=tuple(tags)) for s, tags in zip(sentences, predicted, strict=True)]
    if guessed and all(sentence.conllu is not None for sentence in guessed):
        write_lines(path, chain.from_iterable(map(_conllu_lines, guessed)))
        return
    spans = are_span_tags({tag for s in (*sentences, *guessed) for tag in s.tags or ()})

    def lines() -> Iterator[str]:
        for sentence, guess in zip(sentences, guessed, strict=True):
            tags = [of.tags for of in (sentence, guess) if of.tags is not None]
            if spans:
                tags = [tuple(readable_by_conlleval(of)) for of in tags]
            tokens = map(_conlleval_token, sentence.tokens)
            yield from (" ".join(row) for row in zip(tokens, *tags, strict=True))
            yield ""

    write_lines(path, lines())


def _conllu_lines(sentence: TaggedSentence) -> Iterator[str]:
    """The lines it was read from, with its tags in their column, all else as it was."""
    assert sentence.conllu is not None and sentence.tags is not None
    tags = iter(sentence.tags)
    for line in sentence.conllu.lines:
        values = line.split("\t")
        if values[0].isdecimal():
            values[sentence.conllu.column] = next(tags)
        yield "\t".join(values)
    yield ""


def _conlleval_token(token: str) -> str:
    return "_X_" if token == CONLLEVAL_BOUNDARY else re.sub(r"\s", "_", token)
