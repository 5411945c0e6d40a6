import gzip
import re

import pytest

from elmo.tagged import TaggedSentence, read_tagged

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
\u00a0 NNP I-NP I-MISC


-DOCSTART- -X- O O

Peter NNP I-NP I-PER"""

CONLLU = """# newdoc id = w
# text = From the AP's
1\tFrom\tfrom\tADP\tIN\t_\t3\tcase\t3:case\t_
2-3\tthe AP\t_\t_\t_\t_\t_\t_\t_\t_
2\tthe\tthe\tDET\tDT\t_\t3\tdet\t3:det\t_
3\tA P\tAP\tPROPN\tNNP\t_\t4\tobl\t_\t_
3.1\tleft\tleave\tVERB\tVBN\t_\t_\t_\t_\t_

# text = #
1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_

"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_columns_are_read_with_the_tag_last(write):
    assert read_tagged(write(CONLL_2003)) == [
        TaggedSentence(("EU", "rejects", "\u00a0"), ("I-ORG", "O", "I-MISC")),
        TaggedSentence(("Peter",), ("I-PER",)),
    ]


def test_another_column_can_hold_the_tags(write):
    path = write(CONLL_2003)
    assert read_tagged(path, column=1)[0].tags == ("NNP", "VBZ", "NNP")
    assert read_tagged(path, column=-2) == read_tagged(path, column=2)


def test_tabs_and_lines_of_white_space_are_read(write):
    path = write("a\tO\r\n \t \r\nb \t B-x\r\n\t\r\n")
    assert read_tagged(path) == [TaggedSentence(("a",), ("O",)), TaggedSentence(("b",), ("B-x",))]


def test_conllu_is_known_by_its_first_token_too(write):
    by_name = read_tagged(write(CONLLU, "data.conllu"))
    assert read_tagged(write(CONLLU, "data.txt")) == by_name
    bare = "".join(line for line in CONLLU.splitlines(True) if not line.startswith("#"))
    assert [s.tags for s in read_tagged(write(bare, "stdin"))] == [s.tags for s in by_name]
    columns = "1 B-X\nAda O\n"
    assert read_tagged(write(columns, "columns.txt"))[0].tokens == ("1", "Ada")


def test_conllu_has_words_and_neither_ranges_nor_empty_nodes(write):
    path = write(CONLLU, "data.conllu")
    first, second = read_tagged(path)
    assert first == TaggedSentence(("From", "the", "A P"), ("ADP", "DET", "PROPN"))
    assert second.tokens == ("#",)
    assert read_tagged(path, column="xpos")[0].tags == ("IN", "DT", "NNP")


def test_compressed_files_are_read(tmp_path):
    path = tmp_path / "data.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    assert len(read_tagged(path)) == 2


def test_tokens_without_tags_are_read_only_if_no_tags_are_wanted(write):
    path = write("-DOCSTART-\n\na\nb\n\nc\n")
    assert read_tagged(path, labelled=False) == [TaggedSentence(("a", "b")), TaggedSentence(("c",))]
    message = re.escape(f"{path}, line 3: 'a' has one column, but a token and its tag")
    with pytest.raises(ValueError, match=message):
        read_tagged(path)


def test_tags_that_are_not_wanted_are_passed_over(write):
    assert read_tagged(write("a O\n"), labelled=False) == [TaggedSentence(("a",))]


@pytest.mark.parametrize(
    ("text", "options", "line", "message"),
    [
        ("a O\nb\n", {}, 2, "'b' has 1 columns, but line 1 has 2"),
        ("a O\n\nb O O\n", {}, 3, "'b O O' has 3 columns, but line 1 has 2"),
        ("\na O\n", {"column": 2}, 2, "has 2 columns, of which 2 holds no tags"),
        ("a O\n", {"column": 0}, 1, "has 2 columns, of which 0 holds no tags"),
        ("a O\n", {"column": -2}, 1, "has 2 columns, of which -2 holds no tags"),
    ],
)
def test_broken_columns_are_refused_with_file_and_line(write, text, options, line, message):
    path = write(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}, line {line}: {message}")):
        read_tagged(path, **options)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1\ta\n", 1, "'1\\ta' has 2 columns, but CoNLL-U has 10"),
        ("# x\n" + "x\ta" + "\t_" * 8, 2, "has id 'x' and form 'a'"),
        ("# x\n\n", 1, "begins a sentence without tokens"),
    ],
)
def test_broken_conllu_is_refused_with_file_and_line(write, text, line, message):
    path = write(text, "data.conllu")
    with pytest.raises(ValueError, match=re.escape(f"{path}, line {line}: ") + ".*") as error:
        read_tagged(path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (CONLLU, "upo", 'column is "upo", which CoNLL-U has not. Did you mean "upos"?'),
        (CONLLU, 3, 'column is "3", which CoNLL-U has not.'),
        ("Ada O\n", "upos", "column is 'upos', but columns have numbers here"),
    ],
)
def test_a_column_that_there_is_not_is_refused(write, text, column, message):
    path = write(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {message}")):
        read_tagged(path, column=column)


@pytest.mark.parametrize("text", ["", "\n\n", "-DOCSTART- O\n\n"])
def test_a_file_without_sentences_is_refused(write, text):
    with pytest.raises(ValueError, match="has no sentences, but at least one is needed"):
        read_tagged(write(text))


def test_a_sentence_without_tokens_is_refused():
    with pytest.raises(ValueError, match="a sentence has no tokens"):
        TaggedSentence(())


def test_a_sentence_has_one_tag_for_each_token():
    with pytest.raises(ValueError, match="1 tags were given for the 2 tokens of 'a b'"):
        TaggedSentence(("a", "b"), ("O",))


def test_a_treebank_has_the_counts_of_its_readme(shared):
    sentences = read_tagged(shared / "datasets/pos/ud-english-ewt/en_ewt-ud-dev.conllu.gz")
    assert (len(sentences), sum(len(s.tokens) for s in sentences)) == (2001, 25147)
