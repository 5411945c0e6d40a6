import gzip
import json
import re

import pytest

from elmo.json_files import field, read_json, read_json_lines
from elmo.text import write_lines


def test_a_compressed_file_reads_as_a_plain_one(tmp_path):
    content = {"a": ["é", 1]}
    (tmp_path / "plain.json").write_text(json.dumps(content, indent=1))
    (tmp_path / "small.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    assert read_json(tmp_path / "plain.json") == read_json(tmp_path / "small.json.gz") == content


def test_what_is_not_json_is_refused_with_its_line(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{\n"a": 1,\n}')
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 3: is not JSON")):
        read_json(path)


def test_what_is_nested_too_deeply_is_refused_in_one_line(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "x.jsonl").write_text(f'{{}}\n{{"a": {deep}}}')
    with pytest.raises(ValueError, match=r"x\.jsonl, line 2: its lists and objects stand too deep"):
        list(read_json_lines(tmp_path / "x.jsonl"))
    (tmp_path / "x.json").write_text(deep)
    with pytest.raises(ValueError, match=r"x\.json: its lists and objects stand too deep"):
        read_json(tmp_path / "x.json")


def test_records_come_with_their_line_and_empty_lines_are_none(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert list(read_json_lines(path)) == [
        (f"{path}, line 1", {"a": 1}),
        (f"{path}, line 3", {"a": 2}),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "line 2 is a list, [1], but an object is wanted"),
        ("nonsense", "line 2: is not JSON (Expecting value), but a record on each line is wanted"),
    ],
)
def test_a_line_that_is_no_record_is_refused(tmp_path, line, said):
    (tmp_path / "x.jsonl").write_text("{}\n" + line)
    with pytest.raises(ValueError, match=re.escape(said)):
        list(read_json_lines(tmp_path / "x.jsonl"))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({}, 'here: "a" is missing, but a string is wanted'),
        ({"a": None}, 'here: "a" is null, but a string is wanted'),
        ({"a": 3}, 'here: "a" is a whole number, 3, but a string is wanted'),
        ({"a": ["x" * 50]}, f'here: "a" is a list, ["{"x" * 38}…, but a string is wanted'),
        ({"a": "\ud800"}, 'here: "a" holds a lone surrogate at character 0'),
    ],
)
def test_a_field_that_is_not_as_wanted_is_refused_with_its_place(record, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        field(record, "a", str, "here")


def test_a_truth_value_is_no_number():
    with pytest.raises(ValueError, match="is a truth value, true, but a whole number is wanted"):
        field({"a": True}, "a", int, "here")


def test_a_file_that_fails_on_the_way_is_not_there(tmp_path):
    def lines():
        yield "one"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_lines(tmp_path / "x.txt", lines())
    assert not list(tmp_path.iterdir())
