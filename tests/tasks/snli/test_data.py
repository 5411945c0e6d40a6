import json
import re
from collections import Counter

import pytest

from elmo import Tokenizer
from elmo.tasks.snli.data import (
    Pair,
    agreed,
    parsed_tokens,
    read_pairs,
    read_text_pairs,
    write_pairs,
)

OFFICIAL = {
    "annotator_labels": ["neutral"],
    "gold_label": "neutral",
    "pairID": "1r1n",
    "sentence1": "A man (old) can't ski.",
    "sentence1_binary_parse": "( ( A ( man ( -LRB- ( old -RRB- ) ) ) ) ( ( ca n't ) ski ) . )",
    "sentence2": "Nobody skis.",
    "sentence2_binary_parse": "( Nobody ( skis . ) )",
}
SICK = """pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment
4\tThe boys aren't here\tNo boys are here\t4.1\tENTAILMENT
"""


@pytest.fixture
def written(tmp_path):
    def write(*records, name="x.jsonl"):
        text = records[0] if isinstance(records[0], str) else "\n".join(map(json.dumps, records))
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_sentence_is_split_as_its_parse_is(written):
    assert read_pairs(written(OFFICIAL)) == [
        Pair(
            ("A", "man", "(", "old", ")", "ca", "n't", "ski", "."),
            ("Nobody", "skis", "."),
            "neutral",
            "1r1n",
        )
    ]


def test_a_sentence_without_a_parse_is_split_by_the_tokenizer(written):
    path = written({"sentence1": "It isn't well-known.", "sentence2": "x-y ."})
    (pair,) = read_pairs(path, labelled=False)
    assert pair.premise == ("It", "is", "n't", "well", "-", "known", ".")
    assert pair.label is None and pair.id == "1"
    (pair,) = read_pairs(path, Tokenizer("whitespace"), labelled=False)
    assert pair.hypothesis == ("x-y", ".")


def test_pairs_without_agreement_are_kept_apart_and_counted(written):
    path = written(OFFICIAL, {**OFFICIAL, "gold_label": "-"}, OFFICIAL)
    pairs = read_pairs(path)
    assert [pair.label for pair in pairs] == ["neutral", None, "neutral"]
    kept, n_left_out = agreed(pairs)
    assert len(kept) == 2 and n_left_out == 1


def test_sicks_own_table_is_read(written):
    (pair,) = read_pairs(written(SICK, name="SICK_train.txt"))
    assert pair.premise == ("The", "boys", "are", "n't", "here")
    assert (pair.label, pair.id) == ("entailment", "4")


def test_snlis_table_says_what_its_json_lines_say(written):
    names = [name for name in OFFICIAL if name != "annotator_labels"]
    table = "\t".join(names) + "\n" + "\t".join(OFFICIAL[name] for name in names) + "\n"
    assert read_pairs(written(table, name="x.txt")) == read_pairs(written(OFFICIAL))


def test_brackets_of_the_sentence_are_told_from_those_of_the_parse():
    assert parsed_tokens("( -LSB- ( x -RSB- ) )") == ["[", "x", "]"]


def test_what_is_written_is_read_again(written, tmp_path):
    path = written(OFFICIAL, {**OFFICIAL, "pairID": "2"})
    for labels in (True, False):
        pairs = read_pairs(path, labelled=labels)
        write_pairs(tmp_path / "y.jsonl", pairs, ["entailment", "neutral"])
        found = read_pairs(tmp_path / "y.jsonl", Tokenizer("whitespace"), labelled=labels)
        assert found == pairs
    records = [json.loads(line) for line in (tmp_path / "y.jsonl").read_text().splitlines()]
    assert [record["predicted_label"] for record in records] == ["entailment", "neutral"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"sentence1": "a"}, 'x.jsonl, line 2: "sentence2" is missing, but a string is wanted'),
        (
            {**OFFICIAL, "sentence1_binary_parse": "( )"},
            "line 2: \"sentence1_binary_parse\" is '( )'",
        ),
        ({"sentence1": "", "sentence2": "b"}, "line 2: \"sentence1\" is '', but a sentence of at"),
        (
            {"sentence1": "a", "sentence2": "b"},
            'line 2: "gold_label" is missing, but a string is wanted',
        ),
        ({**OFFICIAL, "gold_label": ""}, 'line 2: "gold_label" is empty: give a label, or "-"'),
        ({**OFFICIAL, "gold_label": 2}, 'line 2: "gold_label" is a whole number, 2, but a string'),
    ],
)
def test_a_pair_that_is_not_as_wanted_is_refused_with_its_line(written, record, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_pairs(written(OFFICIAL, record))


def test_labels_that_are_not_wanted_are_passed_over(written):
    for label in ("", 2, "neutral"):
        (pair,) = read_pairs(written({**OFFICIAL, "gold_label": label}), labelled=False)
        assert pair.label is None


def test_pairs_of_plain_text_have_a_tab_between_premise_and_hypothesis(written):
    path = written("It isn't.\tIt is.\n\n a b \tc\n", name="pairs.txt")
    assert read_text_pairs(path, Tokenizer()) == [
        Pair(("It", "is", "n't", "."), ("It", "is", "."), None, "1"),
        Pair(("a", "b"), ("c",), None, "3"),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a b", "pairs.txt, line 2: has 0 tabs, but one between premise and hypothesis is wanted"),
        ("a\tb\tc", "pairs.txt, line 2: has 2 tabs"),
        ("a\t ", "pairs.txt, line 2: \"sentence2\" is ' ', but a sentence of at least one token"),
    ],
)
def test_a_line_of_text_that_is_no_pair_is_refused(written, line, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_text_pairs(written(f"a\tb\n{line}\n", name="pairs.txt"), Tokenizer())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no pairs of sentences, but at least one is wanted"),
        ("a\tb\n", 'x.txt, line 1: is neither a JSON object nor a header with "sentence1"'),
        (SICK + "5\ta\n", "x.txt, line 3: has 2 columns, but the header has 5"),
    ],
)
def test_a_table_that_is_not_as_wanted_is_refused(written, text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_pairs(written(text, name="x.txt"))


@pytest.mark.parametrize(
    ("file", "language", "counts"),
    [
        ("snli-small/train.jsonl.gz", "whitespace", (2998, 2907, 2956)),
        ("snli-small/dev.jsonl", "whitespace", (331, 328, 322)),
        ("sick/train.jsonl", "en", (1299, 2536, 665)),
        ("sick/dev.jsonl", "en", (144, 282, 74)),
        ("sick/test.jsonl", "en", (1414, 2793, 720)),
    ],
)
@pytest.mark.slow
def test_the_whole_data_set_is_read(shared, file, language, counts):
    path = shared / "datasets/nli" / file
    if not path.exists():
        pytest.skip(f"needs {path}")
    pairs = read_pairs(path, Tokenizer(language))
    labels = Counter(pair.label for pair in pairs)
    assert labels == dict(zip(("entailment", "neutral", "contradiction"), counts, strict=True))
