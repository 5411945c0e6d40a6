"""The task of semantic role labelling, as recipes name it."""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo.tasks.features import Features
from elmo.tasks.srl.columns import write_srl
from elmo.tasks.srl.data import Frame, SrlSentence, read_srl
from elmo.tasks.srl.decode import roles_of, tag_ids
from elmo.tasks.srl.model import RoleLabeller, SrlBatch, SrlConfig
from elmo.tasks.srl.score import score
from elmo.tasks.task import warn_of_unknown
from elmo.tasks.token_input import TokenInput
from elmo.text import Tokenizer, read_lines

logger = logging.getLogger(__name__)

MARKED = re.compile(r"\[\[(.+?)\]\]")


class SemanticRoles:
    """The arguments of given predicates. An example is a sentence with all of its predicates."""

    name = "srl"
    settings = SrlConfig

    def metric(self, labels: Mapping[str, Any]) -> str:
        """F1 of arguments."""
        return "f1"

    def read(self, path: Path, settings: SrlConfig, *, labelled: bool = True) -> list[SrlSentence]:
        """Sentences in CoNLL-2012's or CoNLL-2005's columns; those without predicates too."""
        return read_srl(path, labelled=labelled)

    def read_text(self, path: Path, tokenizer: Tokenizer) -> list[SrlSentence]:
        """A sentence per line, its predicates between `[[` and `]]`; empty lines are left out.

        Raises:
            ValueError: If nothing is marked, a mark is around no word, or a bracket is alone.
        """
        lines = enumerate(read_lines(path), 1)
        read = [_marked(line, tokenizer, f"{path}, line {n}") for n, line in lines]
        sentences = [sentence for sentence in read if sentence.tokens]
        if not any(sentence.frames for sentence in sentences):
            raise ValueError(
                f"{path}: no predicate is marked, but roles are those of given predicates; write "
                '"The cat [[chased]] it", or give columns in which predicates are marked'
            )
        return sentences

    def texts(self, example: SrlSentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return (example.tokens,)

    def n_rows(self, example: SrlSentence) -> int:
        """A row for each predicate."""
        return len(example.frames)

    def labels(self, examples: Sequence[SrlSentence], settings: SrlConfig) -> dict[str, Any]:
        """All roles.

        Raises:
            ValueError: If there are none.
        """
        roles = roles_of(examples)
        if not roles:
            raise ValueError("the training data has no argument of any predicate")
        _tell_left_out(examples, roles)
        return {"roles": roles}

    def check(self, examples: Sequence[SrlSentence], labels: Mapping[str, Any]) -> None:
        """Warn of roles that the training data does not have, and of data without predicates."""
        if examples and not any(example.frames for example in examples):
            logger.warning("no sentence has a predicate: every score is 0")
        unknown = Counter(
            argument.role
            for example in examples
            for frame in example.frames
            for argument in frame.arguments or ()
            if argument.role not in labels["roles"]
        )
        warn_of_unknown(
            unknown,
            "%s arguments have roles that the training data has not: %s; they count as missed",
        )

    def model(
        self, settings: SrlConfig, inputs: TokenInput, labels: Mapping[str, Any]
    ) -> RoleLabeller:
        """A deep alternating LSTM."""
        return RoleLabeller(settings, inputs, labels["roles"])

    def batch(
        self, examples: Sequence[SrlSentence], features: Features, labels: Mapping[str, Any]
    ) -> SrlBatch:
        """Sentences and frames, and the numbers of their tags where arguments are known."""
        sentences = features.batch([example.tokens for example in examples])
        return SrlBatch.of(sentences, [example.frames for example in examples], labels["roles"])

    def score(
        self,
        examples: Sequence[SrlSentence],
        predictions: Sequence[Sequence[Frame]],
        labels: Mapping[str, Any],
    ) -> dict[str, float]:
        """As `srl-eval.pl` counts."""
        return score([example.frames for example in examples], predictions)

    def write(
        self,
        path: Path,
        examples: Sequence[SrlSentence],
        predictions: Sequence[Sequence[Frame]],
    ) -> None:
        """What `srl-eval.pl` reads; CoNLL-2012's columns if the path ends in `.conll`."""
        write_srl(path, examples, predictions)


def _marked(line: str, tokenizer: Tokenizer, where: str) -> SrlSentence:
    """A sentence whose predicates are the first tokens of what is marked."""
    text, begins, ends, end = "", [], [], 0
    for mark in MARKED.finditer(line):
        text += line[end : mark.start()]
        begins.append(len(text))
        text += mark[1]
        ends.append(len(text))
        end = mark.end()
    text += line[end:]
    if "[[" in text or "]]" in text:
        raise ValueError(
            f"{where}: {line[:80]!r} has a [[ or ]] without the other around a word; write "
            '"The cat [[chased]] it"'
        )
    tokens = tokenizer(text)
    predicates = set()
    for begin, end in zip(begins, ends, strict=True):
        within = [i for i, token in enumerate(tokens) if begin < token.end and token.start < end]
        if not within:
            raise ValueError(
                f'{where}: there is no word between [[ and ]]; write "The cat [[chased]] it"'
            )
        predicates.add(within[0])
    frames = tuple(Frame(i, tokens[i].text.lower()) for i in sorted(predicates))
    return SrlSentence(tuple(token.text for token in tokens), frames)


def _tell_left_out(examples: Sequence[SrlSentence], roles: Sequence[str]) -> None:
    n_overlapping = sum(
        tag_ids(frame.arguments or (), len(example.tokens), roles).n_overlapping
        for example in examples
        for frame in example.frames
    )
    if n_overlapping:
        logger.warning(
            "%d training arguments lie within others of the same predicate, which tags cannot "
            "say: the outer ones are learned",
            n_overlapping,
        )


TASK = SemanticRoles()
