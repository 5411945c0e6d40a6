"""What a run tells: while it is under way, and at its end."""

from dataclasses import dataclass

from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import Perplexity
from elmo.text import Vocabulary


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever draws it.

    Attributes:
        share: Of the budget that is used, 0 to 1.
        step: Steps made.
        tokens_per_second: Predictions per direction, since the last report.
        seconds_left: At the speed so far, if nothing stops it earlier.
        softmax: `sampled`, which makes the two numbers below estimates and no perplexities, or
            `full`.
        forward_lm: exp of the training loss.
        backward_lm: Likewise.
        heldout: The last measurement on held-out text, by the full softmax.
    """

    share: float
    step: int
    tokens_per_second: float
    seconds_left: float
    softmax: str
    forward_lm: float
    backward_lm: float
    heldout: Perplexity | None


@dataclass(frozen=True)
class Pretrained:
    """What a run made.

    Attributes:
        model: The best by held-out perplexity; without held-out text the last.
        vocabulary: The words that it predicts.
        heldout: Its perplexity on all held-out text; None where there is none.
        before: That of the model the run started from, where it started from one.
        n_steps: Steps made.
        best_step: The step that made `model`.
        n_tokens: Predictions per direction.
        seconds: Of training, without saving and measuring.
        stopped: `budget`, or `patience` when it no longer got better.
        first_process: Whether this is the process that speaks, of several.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    heldout: Perplexity | None
    before: Perplexity | None
    n_steps: int
    best_step: int
    n_tokens: int
    seconds: float
    stopped: str
    first_process: bool = True
