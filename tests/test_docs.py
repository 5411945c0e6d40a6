"""What the documentation shows runs as it stands there."""

import re
from pathlib import Path

import pytest

from elmo.checkpoints.sources import DEFAULT_FOLDER

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


@pytest.mark.skipif(
    not (DEFAULT_FOLDER / "config.json").exists(), reason="this checkout has no default model"
)
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_python_on_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Fenced as `python no-run`: what downloads, or does harm. Everything else runs.
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.skipif(
    not (DEFAULT_FOLDER / "config.json").exists(), reason="this checkout has no default model"
)
def test_commands_of_the_guide_run(tmp_path, monkeypatch, capsys):
    import shlex

    from elmo.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "news.txt").write_text("The bank raised its rates.\n\nWe sat by the river.\n")
    page = (ROOT / "docs" / "guides" / "command-line.md").read_text("utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    commands = [line[2:] for line in "".join(blocks).splitlines() if line.startswith("$ elmo")]
    assert len(commands) >= 8
    for command in commands:
        try:
            main(shlex.split(command)[1:])
        except SystemExit as end:
            assert not end.code, command


def test_every_file_of_the_package_is_on_the_map():
    on_map = (ROOT / "README.md").read_text("utf-8")
    package = ROOT / "src" / "elmo"
    for path in sorted(package.iterdir()):
        if path.name.startswith("__") or path.suffix not in ("", ".py"):
            continue
        name = path.name if path.suffix else f"{path.name}/"
        assert name in on_map, f"{name} is not in the README's file map"
