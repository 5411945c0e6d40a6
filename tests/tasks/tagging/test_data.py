import gzip
import re

import pytest

from elmo.tasks.tag_spans import tag_spans
from elmo.tasks.tagging.data import (
    TaggedSentence,
    read_tagged,
    repaired,
    span_labels,
    unknown_tags,
    write_tagged,
)

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


def test_conllu_has_words_and_neither_ranges_nor_empty_nodes(write):
    path = write(CONLLU, "data.conllu")
    first, second = read_tagged(path)
    assert first == TaggedSentence(("From", "the", "A P"), ("ADP", "DET", "PROPN"))
    assert second.tokens == ("#",)
    assert read_tagged(path, column="xpos")[0].tags == ("IN", "DT", "NNP")


@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        (None, ["\tADP\t", "\tDET\t", "\tPROPN\t", "\tSYM\t"], "\t{}\t"),
        ("xpos", ["\tIN\t", "\tDT\t", "\tNNP\t", "\tNN\t"], "\t{}\t"),
    ],
)
def test_conllu_that_was_to_be_tagged_is_written_with_its_tags_alone_replaced(
    write, tmp_path, column, old, new
):
    path = write(CONLLU, "data.conllu")
    sentences = read_tagged(path, column=column, labelled=False)
    assert [s.tags for s in sentences] == [None, None]
    write_tagged(tmp_path / "out.conllu", sentences, [["T0", "T1", "T2"], ["T3"]])
    expected = CONLLU
    for k, before in enumerate(old):
        assert expected.count(before) == 1
        expected = expected.replace(before, new.format(f"T{k}"))
    assert (tmp_path / "out.conllu").read_text() == expected
    write_tagged(tmp_path / "scored", read_tagged(path), [["T0", "T1", "T2"], ["T3"]])
    assert (tmp_path / "scored").read_text().startswith("From ADP T0\n")


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
    ("name", "column", "message"),
    [
        ("data.conllu", "upo", 'column is "upo", which CoNLL-U has not. Did you mean "upos"?'),
        ("data.conllu", 3, 'column is "3", which CoNLL-U has not.'),
        ("data.txt", "upos", "column is 'upos', but columns have numbers here"),
    ],
)
def test_a_column_that_there_is_not_is_refused(write, name, column, message):
    path = write(CONLLU, name)
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


def test_tags_that_are_not_bio_are_repaired_and_counted():
    sentences = [
        TaggedSentence(("a", "b", "c"), ("I-PER", "I-PER", "B-PER")),
        TaggedSentence(("d", "e"), ("B-LOC", "I-LOC")),
        TaggedSentence(("f",)),
        TaggedSentence(("g", "h"), ("B-LOC", "I-ORG")),
    ]
    fixed, n_changed = repaired(sentences)
    assert n_changed == 2
    assert [s.tags for s in fixed] == [
        ("B-PER", "I-PER", "B-PER"),
        ("B-LOC", "I-LOC"),
        None,
        ("B-LOC", "B-ORG"),
    ]
    assert span_labels(fixed) == ["LOC", "ORG", "PER"]


def test_unknown_tags_are_counted_by_token():
    sentences = [TaggedSentence(("a", "b"), ("B-NEW", "O")), TaggedSentence(("c",), ("B-NEW",))]
    assert unknown_tags(sentences, ["O", "B-PER"]) == {"B-NEW": 2}


def test_predictions_are_written_as_conlleval_reads_them(tmp_path):
    path = tmp_path / "predicted.txt"
    sentences = [
        TaggedSentence(("A P", "b"), ("I-ORG", "O")),
        TaggedSentence(("c", "-X-", "e"), ("S-PER", "B-LOC", "E-LOC")),
    ]
    write_tagged(path, sentences, [["B-ORG", "O"], ["S-PER", "S-PER", "O"]])
    assert path.read_text() == (
        "A_P I-ORG B-ORG\nb O O\n\nc B-PER B-PER\n_X_ B-LOC B-PER\ne I-LOC O\n\n"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_predictions_of_unlabelled_sentences_can_be_read_as_labelled_ones(tmp_path):
    path = tmp_path / "predicted.txt.gz"
    write_tagged(path, [TaggedSentence(("S", "b"))], [["NOUN", "S"]])
    assert read_tagged(path) == [TaggedSentence(("S", "b"), ("NOUN", "S"))]


def test_predictions_need_a_tag_for_each_token(tmp_path):
    with pytest.raises(ValueError, match="1 tags were given for the 2 tokens"):
        write_tagged(tmp_path / "x", [TaggedSentence(("a", "b"))], [["O"]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "n_sentences", "n_tokens", "n_spans"),
    [
        ("ner/wnut17/dev.txt", 1009, 15733, 836),
        ("ner/wikigold/dev.txt", 176, 3702, 386),
        ("ner/btc/dev.txt", 2000, 29476, 3368),
        ("bioner/ncbi-disease/dev.txt", 923, 23969, 787),
    ],
)
def test_data_sets_have_the_counts_of_their_readmes(shared, file, n_sentences, n_tokens, n_spans):
    sentences = read_tagged(shared / "datasets" / file)
    assert len(sentences) == n_sentences
    assert sum(len(s.tokens) for s in sentences) == n_tokens
    assert sum(len(tag_spans(s.tags)) for s in sentences) == n_spans


def test_a_treebank_has_the_counts_of_its_readme(shared):
    sentences = read_tagged(shared / "datasets/pos/ud-english-ewt/en_ewt-ud-dev.conllu.gz")
    assert (len(sentences), sum(len(s.tokens) for s in sentences)) == (2001, 25147)
