import re

import pytest

from elmo.plots.html import page, table, write_page
from elmo.plots.neighbours_table import (
    Line,
    NeighbourRow,
    Query,
    neighbours_table,
    save_neighbours_table,
)

QUERIES = {
    Query("a <b> [", "play", "] & more"): [
        NeighbourRow("static:glove.txt", words=[("game", 0.9), ("<i>", 0.8)]),
        NeighbourRow("elmo, layer 2", lines=[Line(0.7512, "they made a", "play", "on <it>")]),
    ]
}


def test_the_table_shows_each_source_with_its_neighbours():
    made = neighbours_table(QUERIES, title="Neighbours")
    assert "a &lt;b&gt; [<mark>play</mark>] &amp; more" in made
    assert '<span title="cosine 0.900">game</span>' in made and "&lt;i&gt;" in made
    assert '<td class="number">0.751</td><td class="before">they made a</td>' in made
    assert '<td class="word">play</td><td>on &lt;it&gt;</td>' in made
    assert made.count("<table>") == 2 and made.count("</table>") == 2


def test_every_element_is_closed_and_nothing_is_fetched():
    made = neighbours_table(QUERIES, title="a & b")
    for name in ("div", "table", "tr", "td", "h1", "h2", "mark", "span", "body", "html"):
        assert len(re.findall(rf"<{name}[ >]", made)) == made.count(f"</{name}>"), name
    assert not re.search(r"<script|<link|https?://|src=", made)
    assert "<title>a &amp; b</title>" in page("a & b", "")


def test_pages_are_written_whole_or_refused(tmp_path):
    save_neighbours_table(tmp_path / "n.html", QUERIES, title="Neighbours")
    assert [path.name for path in tmp_path.iterdir()] == ["n.html"]
    with pytest.raises(ValueError, match=re.escape("n.txt is no name of a page: end it in .html")):
        write_page(tmp_path / "n.txt", "")
    with pytest.raises(FileNotFoundError, match="no does not exist"):
        write_page(tmp_path / "no" / "n.html", "")


def test_a_table_without_names_of_columns_has_no_head():
    assert "<thead>" not in table(["", ""], [["a", "b"]], ["", ""])
    assert "<thead><tr><th>x</th>" in table(["x", ""], [["a", "b"]], ["", ""])
