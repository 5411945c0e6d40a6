"""Precision, recall and F1 of arguments, as `srl-eval.pl` of CoNLL-2005 counts them.

An argument is right if its role and its extent are. `C-X` continues the last `X` before it:
together they are one argument in pieces, right if all its pieces are. `C-X` without an `X` is an
`X`. `R-X` is a role of its own. The verb, `V`, is no argument. An argument around others of the
same predicate, which predictions never have, counts as if the inner ones were its pieces, as they
do there. Frames are matched by place and lemma; a predicted one that has no match is not counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from elmo.tasks.srl.data import VERB, Argument, Frame

CONTINUES = "C-"

Span = tuple[int, int]


class Counts(NamedTuple):
    """How often a role was found where it is, found where it is not, and not found."""

    correct: int
    excess: int
    missed: int

    @property
    def precision(self) -> float:
        """In percent; 0 of nothing found."""
        return _percent(self.correct, self.correct + self.excess)

    @property
    def recall(self) -> float:
        """In percent; 0 of nothing to be found."""
        return _percent(self.correct, self.correct + self.missed)

    @property
    def f1(self) -> float:
        """In percent."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True)
class SrlCounts:
    """What `srl-eval.pl` counts.

    Attributes:
        roles: Counts of each role, `V` included.
        n_frames: Of the reference.
        n_perfect: Those in which all arguments, and no others, were found.
    """

    roles: dict[str, Counts]
    n_frames: int
    n_perfect: int

    @property
    def overall(self) -> Counts:
        """All roles together but `V`."""
        counted = [counts for role, counts in self.roles.items() if role != VERB]
        return Counts(*(sum(column) for column in zip(*counted, strict=True))) if counted else NONE


NONE = Counts(0, 0, 0)


def score(
    gold: Iterable[Sequence[Frame]], predicted: Iterable[Sequence[Frame]]
) -> dict[str, float]:
    """Scores in percent: `f1`, `precision`, `recall`, `perfect_frames`, and `f1/ROLE` of each role.

    Args:
        gold: Frames of each sentence.
        predicted: Likewise, of the same sentences.

    Raises:
        ValueError: If there are not as many sentences, or arguments of the gold are not known.
    """
    counts = count(gold, predicted)
    overall = counts.overall
    return {
        "f1": overall.f1,
        "precision": overall.precision,
        "recall": overall.recall,
        "perfect_frames": _percent(counts.n_perfect, counts.n_frames),
        **{f"f1/{role}": counts.roles[role].f1 for role in sorted(counts.roles)},
    }


def count(gold: Iterable[Sequence[Frame]], predicted: Iterable[Sequence[Frame]]) -> SrlCounts:
    """Count arguments that were found, invented and missed; arguments as for `score`."""
    found: dict[bool | None, Counter[str]] = {True: Counter(), False: Counter(), None: Counter()}
    n_frames = n_perfect = 0
    for in_gold, in_predicted in zip(gold, predicted, strict=True):
        by_place = {frame.predicate: frame for frame in in_predicted}
        for frame in in_gold:
            if frame.arguments is None:
                raise ValueError(
                    f"the arguments of {frame.lemma!r}, token {frame.predicate}, are not known, so "
                    "that there is nothing to score against"
                )
            match = by_place.get(frame.predicate)
            matches = match is not None and match.lemma == frame.lemma
            arguments = match.arguments if match is not None and matches else None
            perfect = True
            for role, right in compare(frame.arguments, arguments or ()):
                found[right][role] += 1
                perfect &= right is True or role == VERB
            n_frames += 1
            n_perfect += perfect
    roles = {
        role: Counts(found[True][role], found[False][role], found[None][role])
        for role in set().union(*found.values())
    }
    return SrlCounts(roles, n_frames, n_perfect)


def compare(
    gold: Iterable[Argument], predicted: Iterable[Argument]
) -> Iterator[tuple[str, bool | None]]:
    """Roles that were found, and whether rightly: True, False, or None if missed."""
    # Of several over the same extent, as pieces may have it, the last counts.
    wanted = {whole.extent: whole for whole in whole_arguments(gold)}
    for whole in whole_arguments(predicted):
        gold_whole = wanted.get(whole.extent)
        right = gold_whole is not None and _same(gold_whole, whole)
        if right:
            del wanted[whole.extent]
        yield whole.role, right
    for whole in wanted.values():
        yield whole.role, None


class WholeArgument(NamedTuple):
    """An argument with its continuations.

    Attributes:
        role: Without `C-`.
        extent: From its first token to after its last.
        pieces: Where they are, if there are several.
    """

    role: str
    extent: Span
    pieces: tuple[Span, ...]


@dataclass
class _Part:
    """An argument as it is read: what continues it moves its end, also where it is a piece."""

    role: str
    start: int
    end: int
    pieces: list["_Part"] = field(default_factory=list)

    @property
    def span(self) -> Span:
        return self.start, self.end


def whole_arguments(arguments: Iterable[Argument]) -> list[WholeArgument]:
    """Arguments with their continuations, in the order of their first pieces."""
    wholes: list[_Part] = []
    latest: dict[str, _Part] = {}
    for part in _nested(arguments):
        kind = part.role.removeprefix(CONTINUES)
        continued = latest.get(kind) if part.role.startswith(CONTINUES) else None
        if continued is None:
            part.role = kind
            latest[kind] = part
            wholes.append(part)
            continue
        if not continued.pieces:
            continued.pieces.append(_Part(kind, continued.start, continued.end))
        continued.pieces.append(part)
        continued.end = part.end
    return [
        WholeArgument(whole.role, whole.span, tuple(piece.span for piece in whole.pieces))
        for whole in wholes
    ]


def _same(gold: WholeArgument, predicted: WholeArgument) -> bool:
    """Whether role and pieces are the same; a piece that is predicted twice is wrong."""
    return (
        gold.role == predicted.role
        and set(gold.pieces) == set(predicted.pieces)
        and len(predicted.pieces) == len(set(predicted.pieces))
    )


def _nested(arguments: Iterable[Argument]) -> list[_Part]:
    """Arguments, outer before inner, those right within one as its pieces.

    Of two over the same span the inner one counts.
    """
    parts: list[_Part] = []
    around: list[_Part] = []
    for argument in sorted(arguments, key=lambda a: (a.start, -a.end)):
        part = _Part(*argument)
        while around and around[-1].end <= part.start:
            around.pop()
        if around:
            around[-1].pieces.append(part)
        around.append(part)
        if parts and parts[-1].span == part.span:
            parts.pop()
        parts.append(part)
    return parts


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
