"""One contextual vector per word, by a bidirectional language model over characters (ELMo).

Start with `Elmo.from_pretrained()`.
"""

from elmo.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.encode import Elmo, ElmoOutput
from elmo.model.bilm import BiLM, BiLMOutput, BiLMState
from elmo.model.scalar_mix import ScalarMix
from elmo.text import Token, Tokenizer, Vocabulary, batch_char_ids

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
    "batch_char_ids",
]
