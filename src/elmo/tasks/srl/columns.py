"""Frames written in CoNLL-2012's columns, or in those that `srl-eval.pl` takes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from elmo.tasks.conll_columns import check_words
from elmo.tasks.srl.data import NONE, Argument, Frame, SrlSentence
from elmo.text import COMPRESSED, write_lines

CONLL_2012_SUFFIX = ".conll"
DOCUMENT = "document"
"""What a sentence without one is written as being of."""


def write_srl(
    path: str | Path, sentences: Sequence[SrlSentence], frames: Sequence[Sequence[Frame]]
) -> None:
    """Write sentences with frames that were found in them.

    Args:
        path: `.conll`, also compressed (`.conll.gz`), for CoNLL-2012's columns; anything else for
            the columns that `srl-eval.pl` takes: lemma of the predicate or `-`, and a column of
            role brackets per predicate. Of CoNLL-2012's, those of parts of speech, trees, names
            and coreference are left empty.
        sentences: With their words.
        frames: Of each sentence, in any order.

    Raises:
        ValueError: If arguments of a frame cross, which brackets cannot say; if one lies outside of
            its sentence; or if a sentence has no tokens.
    """
    path = Path(path)
    plain = path.with_suffix("") if path.suffix in COMPRESSED else path
    lines = _conll_2012_lines if plain.suffix == CONLL_2012_SUFFIX else _props_lines
    write_lines(path, lines(list(zip(sentences, frames, strict=True))))


def role_cells(arguments: Iterable[Argument], n_tokens: int) -> list[str]:
    """A column of role brackets: `(ARG0*`, `*)`, `(V*)`, `*`.

    Raises:
        ValueError: If two arguments cross, or one is empty or leaves the sentence.
    """
    opened, closed = [""] * n_tokens, [0] * n_tokens
    ends: list[int] = []
    for role, start, end in sorted(arguments, key=lambda a: (a.start, -a.end)):
        if not 0 <= start < end <= n_tokens:
            raise ValueError(f"{role} is tokens {start} to {end} of a sentence of {n_tokens}")
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and ends[-1] < end:
            raise ValueError(
                f"{role}, tokens {start} to {end}, crosses an argument that ends at {ends[-1]}; a "
                "column can hold arguments within others, but none that cross"
            )
        ends.append(end)
        opened[start] += f"({role}"
        closed[end - 1] += 1
    return [f"{before}*{')' * n}" for before, n in zip(opened, closed, strict=True)]


def _props_lines(given: Iterable[tuple[SrlSentence, Sequence[Frame]]]) -> Iterator[str]:
    for number, (sentence, frames) in enumerate(given):
        for i, row in enumerate(_role_rows(number, sentence, frames)):
            lemma = next((_lemma(sentence, f) for f in frames if f.predicate == i), NONE)
            yield "\t".join([lemma, *row])
        yield ""


def _conll_2012_lines(given: Iterable[tuple[SrlSentence, Sequence[Frame]]]) -> Iterator[str]:
    before: tuple[str, str] | None = None
    for number, (sentence, frames) in enumerate(given):
        name, part = sentence.document or DOCUMENT, sentence.part
        if (name, part) != before:
            if before is not None:
                yield "#end document"
            before = name, part
            yield f"#begin document ({name}); part {part}"
        check_words(sentence.tokens, f"sentence {number}")
        of_token = {frame.predicate: frame for frame in frames}
        for i, row in enumerate(_role_rows(number, sentence, frames)):
            frame = of_token.get(i)
            lemma = NONE if frame is None else _lemma(sentence, frame)
            # A predicate is marked by its roleset, so that one without gets its lemma's first.
            sense = NONE if frame is None else frame.roleset
            sense = f"{lemma}.01" if frame is not None and sense == NONE else sense
            word = sentence.tokens[i]
            of = [name, str(int(part)), str(i), word]
            yield "\t".join([*of, NONE, "*", lemma, sense, NONE, NONE, "*", *row, NONE])
        yield ""
    if before is not None:
        yield "#end document"


def _role_rows(
    number: int, sentence: SrlSentence, frames: Sequence[Frame]
) -> Iterator[tuple[str, ...]]:
    """For each token its brackets, a column per frame."""
    n_tokens = len(sentence.tokens)
    if not n_tokens:
        raise ValueError(f"sentence {number} has no tokens, which a file of columns cannot say")
    places = [frame.predicate for frame in frames]
    if len(set(places)) < len(places) or not all(0 <= place < n_tokens for place in places):
        raise ValueError(
            f"sentence {number}, of {n_tokens} tokens, has predicates at {places}, but expected "
            "different places within it"
        )
    columns = []
    for frame in sorted(frames, key=lambda frame: frame.predicate):
        try:
            columns.append(role_cells(frame.arguments or (), n_tokens))
        except ValueError as error:
            raise ValueError(
                f"sentence {number}, predicate {frame.lemma!r} at {frame.predicate}: {error}"
            ) from None
    return zip(*columns, strict=True) if columns else iter([()] * n_tokens)


def _lemma(sentence: SrlSentence, frame: Frame) -> str:
    """What marks a predicate in a column where `-` marks all else."""
    for name in frame.lemma, sentence.tokens[frame.predicate].lower():
        lemma = "_".join(name.split())
        if lemma not in ("", NONE):
            return lemma
    return "_"
