"""Questions side by side, with the windows of their paragraphs in which answers are looked for.

A paragraph of up to a limit of tokens is one window, a longer one several that overlap by half.
Encoders read the paragraph whole, as one sequence, as the authors' code does by default
(`per_sentence=False` of `allenai/document-qa`): what is said two sentences ago tells who "she" is,
and all questions about a paragraph share what is kept of it. Only those that learn with the task
read windows.

Axes: windows, tokens; pairs (of a question and a window of its paragraph), spans (of one question's
answers).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from elmo.tasks.features import Features, SentenceBatch
from elmo.tasks.squad.data import Question
from elmo.tasks.squad.decode import windows

NO_TOKEN = -1


@dataclass(frozen=True)
class SquadBatch:
    """Questions, windows, and which belong together.

    Attributes:
        questions: The questions.
        queries: Their tokens.
        windows: Of their paragraphs; questions about the same paragraph share them.
        question_of: The question of each pair, the first one's pairs first.
        window_of: Its window.
        starts: Where in the paragraph its window starts.
        spans: Every place of an answer, in its window: the first and the last token. `NO_TOKEN` in
            padding, and everywhere but in one window of each question: the one in which an answer
            has most tokens on both sides.
    """

    questions: tuple[Question, ...]
    queries: SentenceBatch
    windows: SentenceBatch
    question_of: Int[Tensor, " pairs"]
    window_of: Int[Tensor, " pairs"]
    starts: Int[Tensor, " pairs"]
    spans: Int[Tensor, "pairs spans 2"]

    @classmethod
    def of(
        cls, questions: Sequence[Question], features: Features, *, max_context: int
    ) -> "SquadBatch":
        """Windows of at most `max_context` tokens."""
        paragraphs = list(
            {id(question.paragraph): question.paragraph for question in questions}.values()
        )
        rows = {id(paragraph): row for row, paragraph in enumerate(paragraphs)}
        parts = [parts_of(len(paragraph.tokens), max_context) for paragraph in paragraphs]
        flat = [(row, *part) for row, of_row in enumerate(parts) for part in of_row]
        numbers = {part: number for number, part in enumerate(flat)}
        pairs, spans = [], []
        for i, question in enumerate(questions):
            row = rows[id(question.paragraph)]
            taught = window_of_answers(question, max_context)
            for part in parts[row]:
                pairs.append((i, numbers[row, *part], part[0]))
                spans.append(_within(question, part) if part == taught else [])
        whole = features.batch([paragraph.words for paragraph in paragraphs])
        return cls(
            tuple(questions),
            features.batch([question.tokens for question in questions]),
            whole if len(flat) == len(paragraphs) else whole.cut(flat),
            torch.tensor([i for i, _, _ in pairs]),
            torch.tensor([number for _, number, _ in pairs]),
            torch.tensor([start for _, _, start in pairs]),
            _padded(spans),
        )

    def to(self, device: torch.device | str) -> "SquadBatch":
        """The same on a device."""
        return replace(
            self,
            queries=self.queries.to(device),
            windows=self.windows.to(device),
            question_of=self.question_of.to(device),
            window_of=self.window_of.to(device),
            starts=self.starts.to(device),
            spans=self.spans.to(device),
        )

    def part(self, pairs: Int[Tensor, " chosen"]) -> "SquadBatch":
        """Some pairs, and the windows that these need."""
        needed, window_of = self.window_of[pairs].unique(return_inverse=True)
        read = self.windows
        if len(needed) < len(read.mask):
            lengths = read.lengths.tolist()
            read = read.cut([(row, 0, lengths[row]) for row in needed.tolist()])
        return replace(
            self,
            windows=read,
            question_of=self.question_of[pairs],
            window_of=window_of,
            starts=self.starts[pairs],
            spans=self.spans[pairs],
        )


def parts_of(n_tokens: int, max_context: int) -> list[tuple[int, int]]:
    """The windows of a paragraph: the first token of each, and that after its last."""
    return windows(n_tokens, size=max_context, overlap=max_context // 2)


def window_of_answers(question: Question, max_context: int) -> tuple[int, int] | None:
    """The window to learn from: it has an answer whole, with the most tokens on both sides.

    None if no answer is in the paragraph, or all are longer than half a window and cut by each.
    """
    n_tokens = len(question.paragraph.tokens)
    best: tuple[int, tuple[int, int]] | None = None
    for start, end in parts_of(n_tokens, max_context):
        for first, last in question.spans:
            # A window's end that is the paragraph's cuts nothing off.
            before = n_tokens if start == 0 else first - start
            after = n_tokens if end == n_tokens else end - 1 - last
            room = min(before, after)
            if room >= 0 and start <= first and last < end and (best is None or room > best[0]):
                best = room, (start, end)
    return best[1] if best else None


def _within(question: Question, part: tuple[int, int]) -> list[tuple[int, int]]:
    """The answers that a window has whole, counted from its start."""
    start, end = part
    return [
        (first - start, last - start)
        for first, last in question.spans
        if start <= first and last < end
    ]


def _padded(spans: Sequence[Sequence[tuple[int, int]]]) -> Int[Tensor, "pairs spans 2"]:
    width = max(1, *map(len, spans)) if spans else 1
    padded = torch.full((len(spans), width, 2), NO_TOKEN)
    for i, of_pair in enumerate(spans):
        if of_pair:
            padded[i, : len(of_pair)] = torch.tensor(of_pair)
    return padded
