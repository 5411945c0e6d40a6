import gzip
import re

import pytest

from elmo.tasks.conll_columns import (
    Begin,
    End,
    check_words,
    read_documents,
    read_sentences,
)
from elmo.text import write_lines


def written(path, text):
    path.write_bytes(text.encode())
    return path


def test_tabs_part_columns_so_that_a_word_may_hold_a_space(tmp_path):
    rows = next(read_sentences(written(tmp_path / "a", "1 000\tCD\n.\t.\n")))
    assert [row.columns for row in rows] == [["1 000", "CD"], [".", "."]]


def test_without_a_tab_spaces_part_columns_however_many(tmp_path):
    rows = next(read_sentences(written(tmp_path / "a", "  The   DT  \nend NN\n")))
    assert [row.columns for row in rows] == [["The", "DT"], ["end", "NN"]]


def test_blank_lines_of_any_number_and_kind_part_sentences(tmp_path):
    path = written(tmp_path / "a", "\n\na\tX\r\n \t\n\nb\tY\r\n\r\nc\tZ")
    found = [(row.line, row.columns[0]) for (row,) in read_sentences(path)]
    assert found == [(3, "a"), (6, "b"), (8, "c")]


def test_a_word_may_be_a_number_sign_unless_it_begins_a_document(tmp_path):
    path = written(tmp_path / "a", "# begin document (x y); part 002\n# #\n#end document\n")
    parts = list(read_documents(path))
    assert parts[0] == Begin(1, "x y", "002", "(x y); part 002") and parts[2] == End(3)
    assert parts[1][0].columns == ["#", "#"]


@pytest.mark.parametrize(
    "line, name, part",
    [
        ("#begin document (bc/cctv/00/cctv_0000); part 000", "bc/cctv/00/cctv_0000", "000"),
        ("#begin document (a (b)); part 12", "a (b)", "12"),
        ("#begin document (LuoTestCase);", "LuoTestCase", ""),
        ("#begin document (b);part 0 \r", "b", "0"),
    ],
)
def test_the_first_line_of_a_document_names_it(tmp_path, line, name, part):
    (begin,) = read_documents(written(tmp_path / "a", f"{line}\n"))
    heading = line.removeprefix("#begin document ").removesuffix("\r")
    assert begin == Begin(1, name, part, heading)


def test_a_first_line_without_a_name_is_refused(tmp_path):
    path = written(tmp_path / "a", "#begin document x\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 1: '#begin document x' begins")):
        list(read_documents(path))


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\tb\n\na\tb\nc\td\te\n", "line 4: 3 columns, but its sentence, from line 3 on, has 2"),
        ("a\tb\nc\t\td\n", "line 2: column 2 is empty"),
        ("\tb\n", "line 1: column 1 is empty"),
        ("a\t \tb\n", "line 1: column 2 is empty"),
    ],
)
def test_broken_columns_are_refused_with_their_line(tmp_path, text, message):
    path = written(tmp_path / "a", text)
    with pytest.raises(ValueError, match=re.escape(f"{path}, {message}")):
        list(read_sentences(path))


def test_lines_are_written_compressed_where_the_name_says_so(tmp_path):
    write_lines(tmp_path / "a.gz", ["é", ""])
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).decode() == "é\n\n"


def test_a_file_is_not_touched_by_lines_that_fail(tmp_path):
    path = written(tmp_path / "a", "before")

    def lines():
        yield "after"
        raise ValueError

    with pytest.raises(ValueError):
        write_lines(path, lines())
    assert [p.name for p in tmp_path.iterdir()] == ["a"] and path.read_text() == "before"


@pytest.mark.parametrize("word", ["", " ", "a\tb", "a\nb"])
def test_a_word_that_a_column_cannot_hold_is_refused(word):
    with pytest.raises(ValueError, match=r"sentence 3: .* cannot stand in a column"):
        check_words(["fine", word], "sentence 3")


@pytest.mark.parametrize("word", ["\xa0", "\u3000", "1 000", "\u2028"])
def test_a_word_of_any_other_space_is_read_and_can_stand_in_a_column(tmp_path, word):
    (rows,) = read_sentences(written(tmp_path / "a", f"{word}\tX\n"))
    assert rows[0].columns == [word, "X"]
    check_words([word], "sentence 3")
