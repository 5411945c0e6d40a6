"""Precision, recall and F1 of spans, and accuracy of tags: the numbers of conlleval.

Source: `conlleval.pl` of the shared tasks of CoNLL-2000 to 2003 (E. Tjong Kim Sang, S. Buchholz).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmo.tasks.tag_spans import (
    are_span_tags,
    is_broken,
    readable_by_conlleval,
    split_tag,
    tag_spans,
)


@dataclass(frozen=True)
class SpanCounts:
    """How many spans are right, predicted, and both; the scores that follow, in percent."""

    n_right: int = 0
    n_predicted: int = 0
    n_correct: int = 0

    @property
    def precision(self) -> float:
        """Share of the predicted that are right; 0 where none is predicted."""
        return _percent(self.n_correct, self.n_predicted)

    @property
    def recall(self) -> float:
        """Share of the right that are predicted; 0 where none is right."""
        return _percent(self.n_correct, self.n_right)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        # Not 2·correct / (right + predicted), which is the same but for the last digit.
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True)
class TagScore:
    """How well tags are predicted.

    Attributes:
        n_tokens: Tokens.
        n_correct: Tokens whose tag is right.
        of_label: Counts of the spans of each label, sorted; None of tags that write no spans.
        n_repaired: Sentences whose right tags are neither BIO nor BIOES, so that their spans are
            those that conlleval reads.
        n_repaired_predicted: Likewise of the predicted tags.
    """

    n_tokens: int
    n_correct: int
    of_label: Mapping[str, SpanCounts] | None = None
    n_repaired: int = 0
    n_repaired_predicted: int = 0

    @property
    def accuracy(self) -> float:
        """Share of the tokens whose tag is right, in percent."""
        return _percent(self.n_correct, self.n_tokens)

    @property
    def spans(self) -> SpanCounts:
        """Counts of all spans; of none, where tags write no spans."""
        counts = (self.of_label or {}).values()
        return SpanCounts(
            sum(c.n_right for c in counts),
            sum(c.n_predicted for c in counts),
            sum(c.n_correct for c in counts),
        )

    def metrics(self) -> dict[str, float]:
        """All scores in percent: `f1`, `precision`, `recall`, `accuracy`, `f1/PER` and so on.

        Of tags that write no spans there is `accuracy` alone.
        """
        if self.of_label is None:
            return {"accuracy": self.accuracy}
        scores = {**_metrics(self.spans), "accuracy": self.accuracy}
        for label, counts in self.of_label.items():
            scores |= {f"{name}/{label}": value for name, value in _metrics(counts).items()}
        return scores

    def report(self) -> str:
        """The scores as conlleval prints them."""
        spans = self.spans
        lines = [
            f"processed {self.n_tokens} tokens with {spans.n_right} phrases; "
            f"found: {spans.n_predicted} phrases; correct: {spans.n_correct}."
        ]
        if self.n_tokens:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {_line(spans)}")
        for label, counts in (self.of_label or {}).items():
            lines.append(f"{label:>17}: {_line(counts)}  {counts.n_predicted}")
        return "\n".join(lines)


def score_tags(
    right: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    spans: bool | None = None,
) -> TagScore:
    """Count what is right in the predicted tags of sentences.

    Where tags write spans, spans are counted. They may be IOB1, IOB2 or any mixture: the
    counts are those of conlleval for lines `token right predicted`. Sentences in BIOES, which it
    does not know, are counted as if written in BIO, accuracy included.

    Args:
        right: Tags of each sentence.
        predicted: Likewise.
        spans: Whether tags write spans; None where all right ones can be read so.

    Raises:
        ValueError: If a sentence has not as many predicted tags as right ones; if tags write spans,
            but one does not.
    """
    if len(right) != len(predicted):
        raise ValueError(f"{len(predicted)} sentences are predicted, but {len(right)} are given")
    for i, (tags, guessed) in enumerate(zip(right, predicted, strict=True)):
        if len(tags) != len(guessed):
            raise ValueError(
                f"sentence {i} has {len(tags)} tags, but {len(guessed)} are predicted: one each"
            )
    if spans is None:
        spans = are_span_tags({tag for tags in right for tag in tags})
    if not spans:
        return _accuracy(right, predicted)
    n_repaired = sum(map(is_broken, right))
    n_repaired_predicted = sum(map(is_broken, predicted))
    right, predicted = (
        [*map(readable_by_conlleval, right)],
        [*map(readable_by_conlleval, predicted)],
    )
    counts = [Counter[str]() for _ in range(3)]
    for tags, guessed in zip(right, predicted, strict=True):
        given, found = set(tag_spans(tags)), set(tag_spans(guessed))
        for counter, kind in zip(counts, (given, found, given & found), strict=True):
            counter.update(span.label for span in kind)
    of_label = {
        label: SpanCounts(*(counter[label] for counter in counts))
        for label in sorted(counts[0] | counts[1])
    }
    accuracy = _accuracy(
        [list(map(split_tag, tags)) for tags in right],
        [list(map(split_tag, tags)) for tags in predicted],
    )
    return TagScore(
        accuracy.n_tokens, accuracy.n_correct, of_label, n_repaired, n_repaired_predicted
    )


def _accuracy(right: Sequence[Sequence[object]], predicted: Sequence[Sequence[object]]) -> TagScore:
    same = [
        tag == guess
        for tags, guessed in zip(right, predicted, strict=True)
        for tag, guess in zip(tags, guessed, strict=True)
    ]
    return TagScore(len(same), sum(same))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _metrics(counts: SpanCounts) -> dict[str, float]:
    return {"f1": counts.f1, "precision": counts.precision, "recall": counts.recall}


def _line(counts: SpanCounts) -> str:
    return (
        f"precision: {counts.precision:6.2f}%; recall: {counts.recall:6.2f}%; FB1: {counts.f1:6.2f}"
    )
