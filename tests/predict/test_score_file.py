import json

import pytest
from tests.predict.predictors import SENTENCES, random_predictor

from elmo.predict.score_file import Written, write_scores


@pytest.fixture(scope="module")
def scored():
    return random_predictor().score(SENTENCES)


def table(path):
    header, *rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_a_row_per_token_says_where_it_stands(scored, tmp_path):
    assert write_scores(scored, tmp_path / "a.tsv") == Written(5, 16, 1)
    rows = table(tmp_path / "a.tsv")
    assert [(r["line"], r["place"], r["token"]) for r in rows[:4]] == [
        ("1", "1", "a"), ("1", "2", "b"), ("1", "3", "zzz"), ("3", "1", "b")
    ]  # fmt: skip
    assert [r["known"] for r in rows[:3]] == ["yes", "yes", "no"]
    assert float(rows[2]["combined"]) == pytest.approx(scored[0].combined.tokens[2], abs=1e-4)
    assert len(rows) == 16


def test_sentence_ends_are_rows_on_request(scored, tmp_path):
    write_scores(scored, tmp_path / "a.tsv", ends=True)
    rows = [row for row in table(tmp_path / "a.tsv") if row["line"] == "1"]
    assert [(r["place"], r["token"]) for r in (rows[0], rows[-1])] == [("0", "<S>"), ("4", "</S>")]
    assert rows[0]["forward"] == rows[-1]["backward"] == rows[-1]["combined"] == ""
    for direction, of in (("forward", scored[0].forward_lm), ("backward", scored[0].backward_lm)):
        assert sum(float(r[direction] or 0) for r in rows) == pytest.approx(of.total, abs=1e-3)


def test_a_row_per_sentence_sums_up(scored, tmp_path):
    write_scores(scored, tmp_path / "a.tsv", rows="sentences")
    rows = table(tmp_path / "a.tsv")
    assert [r["tokens"] for r in rows] == ["3", "0", "1", "10", "2"] and rows[0]["unknown"] == "1"
    assert rows[1]["forward_total"] == rows[1]["forward_mean"] == ""
    assert float(rows[3]["backward_perplexity"]) == pytest.approx(
        scored[3].backward_lm.perplexity, abs=1e-3
    )


def test_parquet_holds_the_same_numbers(scored, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for rows in ("tokens", "sentences"):
        write_scores(scored, tmp_path / f"{rows}.parquet", rows=rows, ends=True)
    tokens, sentences = (
        parquet.read_table(tmp_path / f"{rows}.parquet").to_pylist()
        for rows in ("tokens", "sentences")
    )
    assert tokens[0]["token"] == "<S>" and tokens[0]["forward"] is None
    assert tokens[1]["forward"] == scored[0].forward_lm.tokens[0] and tokens[1]["known"] is True
    assert sentences[0]["combined_total"] == scored[0].combined.total
    assert sentences[1]["combined_mean"] is None


def test_json_lines_hold_tokens_and_sums(scored, tmp_path):
    write_scores(scored, tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    assert [line["line"] for line in lines] == [1, 2, 3, 4, 5]
    assert lines[0]["forward"]["total"] == scored[0].forward_lm.total
    assert lines[0]["known"] == [True, True, False] and lines[0]["unit"] == "bits"
    assert lines[1]["forward"]["mean"] is None and lines[0]["combined"]["end"] is None


def test_nothing_half_written_is_left_and_nothing_replaced_unasked(scored, tmp_path):
    def broken():
        yield scored[0]
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_scores(broken(), tmp_path / "a.tsv")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.tsv").write_text("precious")
    with pytest.raises(FileExistsError, match="--force"):
        write_scores(scored, tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == "precious"
    write_scores(scored, tmp_path / "a.tsv", force=True)
    with pytest.raises(FileNotFoundError, match="create it first"):
        write_scores(scored, tmp_path / "no" / "a.tsv")
    with pytest.raises(ValueError, match=r"names no format; choose one of .tsv, .jsonl, .parquet"):
        write_scores(scored, tmp_path / "a.xls")
    with pytest.raises(ValueError, match="rows is 'words', but expected one of tokens, sentences"):
        write_scores(scored, tmp_path / "b.tsv", rows="words")
