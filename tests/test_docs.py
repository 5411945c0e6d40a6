"""What the documentation shows runs as it stands there."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from elmo.checkpoints.sources import DEFAULT_FOLDER
from elmo.cli import app, main

ROOT = Path(__file__).parents[1]
needs_default = pytest.mark.skipif(
    not (DEFAULT_FOLDER / "config.json").exists(), reason="this checkout has no default model"
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


def tagged(text):
    """CoNLL-U of `the/DET river/NOUN`."""
    words = [word.split("/") for word in text.split()]
    rows = [f"{i}\t{form}\t_\t{tag}" + "\t_" * 6 for i, (form, tag) in enumerate(words, 1)]
    return "\n".join(rows) + "\n\n"


def with_senses(*beside):
    """The XML and the keys of *bank* beside each of these words."""
    sentence = '<sentence><wf>{1}</wf><instance id="s{0}" lemma="bank" pos="NOUN">bank</instance>'
    xml = "".join(sentence.format(i, word) + "</sentence>" for i, word in enumerate(beside))
    return f"<corpus>{xml}</corpus>", "".join(f"s{i} {w}\n" for i, w in enumerate(beside))


LEARN, ASK = with_senses("river", "money", "river"), with_senses("money", "river")
PAIRS = "bank\tN\t1-1\triver bank\tmoney bank\nbank\tN\t1-1\triver bank\tthe bank\n"
FILES = {
    "news.txt": "The bank raised its rates.\n\nWe sat by the river.\nThe river bank was wet.\n"
    "A bank by the river.\n",
    "train.data.xml": LEARN[0],
    "train.gold.key.txt": LEARN[1],
    "test.data.xml": ASK[0],
    "test.gold.key.txt": ASK[1],
    "pairs-train.data.txt": PAIRS,
    "pairs-train.gold.txt": "F\nT\n",
    "pairs-test.data.txt": PAIRS,
    "pairs-test.gold.txt": "F\nT\n",
    "train.conllu": tagged("the/DET river/NOUN") + tagged("a/DET bank/NOUN"),
    "dev.conllu": tagged("the/DET bank/NOUN"),
    "test.conllu": tagged("a/DET river/NOUN"),
    "pairs.tsv": "river\tbank\t7\nriver\train\t6\nbank\tthe\t1\n",
}
"""What the guides' commands read."""


@needs_default
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_python_on_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Fenced as `python no-run`: what downloads, or does harm. Everything else runs.
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def commands_on(page):
    """What stands behind `$ elmo` on a page, with lines that go on joined."""
    blocks = re.findall(
        r"^```console\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ elmo")]


@needs_default
@pytest.mark.parametrize(
    "page", ["command-line", pytest.param("i-want-to", marks=pytest.mark.slow)]
)
def test_commands_of_a_guide_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    commands = commands_on(ROOT / "docs" / "guides" / f"{page}.md")
    assert len(commands) >= 8
    for command in commands:
        try:
            main(command)
        except SystemExit as end:
            assert not end.code, command


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_commands_on_a_page_have_the_options_that_they_are_given(page):
    for given in commands_on(page):
        context, command = None, typer.main.get_command(app)
        name, rest = "elmo", given
        while True:
            context = command.make_context(name, rest, parent=context)
            if not hasattr(command, "resolve_command"):
                break
            rest = [*context._protected_args, *context.args]
            name, command, rest = command.resolve_command(context, rest)


def test_every_file_of_the_package_is_on_the_map():
    on_map = (ROOT / "README.md").read_text("utf-8")
    package = ROOT / "src" / "elmo"
    for path in sorted(package.iterdir()):
        if path.name.startswith("__") or path.suffix not in ("", ".py"):
            continue
        name = path.name if path.suffix else f"{path.name}/"
        assert name in on_map, f"{name} is not in the README's file map"


@pytest.mark.parametrize(
    "experiment, page, first, column",
    [
        ("table1", "README.md", "| task, metric |", 3),
        ("encoders", "README.md", "| on dev |", 2),
        ("table2", "docs/guides/tasks.md", "| table 2:", 2),
        ("table3", "docs/guides/tasks.md", "| table 3:", 2),
        ("gamma", "docs/guides/tasks.md", "| γ,", 2),
        ("figure1", "docs/guides/tasks.md", "| figure 1,", 2),
    ],
)
def test_scores_in_tables_are_those_of_results(experiment, page, first, column):
    """Of each task, in the order of the columns."""
    names = {
        "ner": "named entities",
        "squad": "questions",
        "coref": "coreference",
        "srl": "semantic roles",
        "snli": "entailment",
        "sst5": "sentiment in five classes",
    }
    results = json.loads((ROOT / "results" / "paper" / f"{experiment}.json").read_text("utf-8"))
    text = (ROOT / page).read_text("utf-8")
    table = text[text.index(first) :].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip(" *") for cell in row.split("|")] for row in table]
    shown = {row[1].partition(",")[0]: row[column:] for row in cells}
    shown.pop("in the paper", None)
    assert set(shown) == {names[task] for task in results["tasks"]}
    for task, of_task in results["tasks"].items():
        expected = [_rounded(row) for row in of_task["rows"].values()]
        assert shown[names[task]][: len(expected)] == expected, task


def _rounded(row):
    mean, deviation = row["mean"], row["deviation"]
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"
