import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo import Tokenizer
from elmo.tasks.squad.tokens import fine_tokens

ENGLISH = Tokenizer()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("the church.[citation needed]", "the|church|.|[|citation|needed|]"),
        ("(1592–1598)", "(|1592|–|1598|)"),
        ("US$200 is N/S now.", "US|$|200|is|N|/|S|now|."),
        ("It isn't 3,086.5 a-b", "It|is|n't|3,086.5|a|-|b"),
    ],
)
def test_answers_can_begin_and_end_within_what_others_leave_whole(text, tokens):
    assert "|".join(token.text for token in fine_tokens(text, ENGLISH)) == tokens


def test_text_that_is_tokenized_already_stays_as_it_is():
    tokens = fine_tokens("a/b [c]", Tokenizer("whitespace"))
    assert [token.text for token in tokens] == ["a/b", "[c]"]


@given(st.text(st.sampled_from("ab.,'[]/:–$ \n-")))
def test_each_token_stands_where_it_says_and_all_letters_are_in_one(text):
    tokens = fine_tokens(text, ENGLISH)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert "".join(token.text for token in tokens) == "".join(text.split())
