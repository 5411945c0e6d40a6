"""Tokens fine enough for answers to begin and end at their edges."""

import re

from elmo.text import WHITESPACE, Token, Tokenizer

EDGES = re.compile(r"([\[\](){}/:;–—$£€])")
"""Where answers begin and end within what is one token to other tasks."""


def fine_tokens(text: str, tokenizer: Tokenizer) -> list[Token]:
    """Tokens of a text, split further at brackets, slashes, colons, long dashes and currencies.

    Wikipedia writes "the church.[citation needed]", "1592–1598" and "US$200". On 9,702 questions of
    SQuAD the best that whole tokens can reach rises from 98.9 to 99.6 exact match, for 0.6 % more
    tokens. Text that is tokenized already stays as it is.

    Source:
        `NltkAndPunctTokenizer` in `allenai/document-qa` likewise splits at further signs.

    Example:
        >>> [token.text for token in fine_tokens("the church.[citation", Tokenizer("en"))]
        ['the', 'church', '.', '[', 'citation']
    """
    tokens = tokenizer(text)
    if tokenizer.language == WHITESPACE:
        return tokens
    return [piece for token in tokens for piece in _pieces(token, tokenizer)]


def _pieces(token: Token, tokenizer: Tokenizer) -> list[Token]:
    parts = [part for part in EDGES.split(token.text) if part]
    if len(parts) == 1:
        return [token]
    pieces, start = [], token.start
    for part in parts:
        # What stands before a sign may end with others, as in "church." before "[".
        for piece in tokenizer(part):
            pieces.append(Token(piece.text, start + piece.start, start + piece.end))
        start += len(part)
    return pieces
