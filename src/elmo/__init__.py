"""One contextual vector per word, by a bidirectional language model over characters (ELMo).

Start with `Elmo.from_pretrained()`.
"""

from typing import TYPE_CHECKING, Any

from elmo.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.encode import Elmo, ElmoOutput
from elmo.model.bilm import BiLM, BiLMOutput, BiLMState
from elmo.model.scalar_mix import ScalarMix
from elmo.text import Token, Tokenizer, Vocabulary, batch_char_ids

if TYPE_CHECKING:
    from elmo.predict.word_predictor import WordPredictor

__version__ = "0.1.0"
__all__ = [
    "BiLM",
    "BiLMConfig",
    "BiLMOutput",
    "BiLMState",
    "CharCnnConfig",
    "Elmo",
    "ElmoOutput",
    "LstmConfig",
    "ScalarMix",
    "Token",
    "Tokenizer",
    "Vocabulary",
    "WordPredictor",
    "batch_char_ids",
]


def __getattr__(name: str) -> Any:
    # Who wants vectors need not wait for what predicts words.
    if name == "WordPredictor":
        from elmo.predict.word_predictor import WordPredictor

        return WordPredictor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
