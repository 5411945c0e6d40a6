"""Write the figures of the default model's card from what was measured.

    python benchmarks/model_card.py [--results results] [--card README.md]

Replaces what stands between `<!-- perplexity -->` or `<!-- layers -->` and the `<!-- end -->` that
follows it.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from perplexity_baselines import markdown

ROOT = Path(__file__).parents[1]
CARD = ROOT / "src/elmo/default_model/README.md"


def main() -> None:
    """Read the results, write the card."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--card", type=Path, default=CARD)
    arguments = parser.parse_args()
    card = arguments.card.read_text(encoding="utf-8")
    tables = {
        "perplexity": (markdown, "default-model/perplexity.json"),
        "layers": (layers, "probes/layers.json"),
    }
    for name, (table, file) in tables.items():
        result = json.loads((arguments.results / file).read_text(encoding="utf-8"))
        card = replaced(card, name, table(result))
    arguments.card.write_text(card, encoding="utf-8")


def replaced(card: str, name: str, table: str) -> str:
    """The card with a table in its place."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if len(place.findall(card)) != 1:
        raise SystemExit(f"the card has no one <!-- {name} --> … <!-- end -->")
    return place.sub(lambda marks: f"{marks[1]}\n{table}\n\n{marks[2]}", card)


def layers(result: dict[str, Any]) -> str:
    """Accuracy and F1 of each layer of the default model, beside what needs no layer."""
    of = result["encoders"]["elmo"]
    rows: dict[str, dict[str, float]] = {}
    for column in ("upos", "xpos"):
        for row in of[column]["layers"]:
            rows.setdefault(row["layer"], {})[column] = row["test"]["value"]
    rows["most frequent tag of the word"] = {
        column: of[column]["most_frequent_label_of_the_word"]["value"]
        for column in ("upos", "xpos")
    }
    for row in of["wsd"]["rows"]:
        # The nearest mean is the paper's way, and stands beside the parts of speech.
        plain = row["layer"] is not None and row["method"] == "nearest mean"
        name = row["layer"] if plain else ", ".join(filter(None, (row["layer"], row["method"])))
        rows.setdefault(name, {}).update({g: row[g]["f1"] for g in ("all", "several")})
    columns = {
        "part of speech (UPOS)": "upos",
        "part of speech (Penn tags)": "xpos",
        "word sense, all": "all",
        "word sense, several seen": "several",
    }
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name in sorted(rows, key=without_layer):
        numbers = [rows[name].get(column) for column in columns.values()]
        shown = " | ".join("" if n is None else f"{100 * n:.1f}" for n in numbers)
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


def without_layer(name: str) -> bool:
    """Whether a row of the table is of what needs no layer."""
    return not name.startswith(("layer", "mean"))


if __name__ == "__main__":
    main()
