"""Pages of HTML that stand alone: no script, no other file, nothing from the network."""

import html
import os
from collections.abc import Sequence
from pathlib import Path

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
p.facts { color: #555; font-size: .9rem; }
table { border-collapse: collapse; font-size: .92rem; }
th { text-align: left; font-weight: 600; border-bottom: 1px solid #888; }
th, td { padding: .2rem .7rem .2rem 0; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.before { width: 46%; text-align: right; padding-right: .35rem; } td.word { font-weight: 700; }
td td { padding-top: 0; padding-bottom: .35rem; }
td.word { white-space: nowrap; padding-right: .35rem; }
mark { background: #fff1c2; color: inherit; font-weight: 700; padding: 0 .1em; }
figure { margin: 1rem 0; } figcaption { color: #555; font-size: .85rem; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 50%;
  margin-right: .4em; }
.scroll { overflow-x: auto; }
@media print { body { margin: 0; max-width: none; } }
"""


def text(given: str) -> str:
    """A text as HTML says it: none of its characters is markup."""
    return html.escape(given)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], classes: Sequence[str]) -> str:
    """A table.

    Args:
        header: Of each column, as text.
        rows: Cells as HTML.
        classes: Of each column's cells; empty for none.
    """
    of = [f' class="{name}"' if name else "" for name in classes]
    head = "".join(f"<th{c}>{text(cell)}</th>" for c, cell in zip(of, header, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{c}>{cell}</td>" for c, cell in zip(of, row, strict=True)) + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{head}</tr></thead>\n" if any(header) else ""
    return f'<div class="scroll"><table>\n{head}<tbody>\n{body}\n</tbody></table></div>'


def page(title: str, body: str) -> str:
    """A whole page around some HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{text(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def page_path(path: str | Path) -> Path:
    """The path of a page that can be written.

    Raises:
        ValueError: If it does not end in `.html`.
        FileNotFoundError: If the folder does not exist.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path} is no name of a page: end it in .html")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {path.parent} does not exist")
    return path


def write_page(path: str | Path, whole: str) -> None:
    """Write a page beside its place, and rename it; it raises as `page_path`."""
    path = page_path(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(whole, encoding="utf-8", errors="replace")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
