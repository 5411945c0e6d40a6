"""Write the figures of the default model's card from what was measured.

    python benchmarks/model_card.py [--results results/default-model] [--card README.md]

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
    parser.add_argument("--results", type=Path, default=ROOT / "results/default-model")
    parser.add_argument("--card", type=Path, default=CARD)
    arguments = parser.parse_args()
    card = arguments.card.read_text(encoding="utf-8")
    tables = {"perplexity": markdown, "layers": layers}
    for name, table in tables.items():
        result = json.loads((arguments.results / f"{name}.json").read_text(encoding="utf-8"))
        card = replaced(card, name, table(result))
    arguments.card.write_text(card, encoding="utf-8")


def replaced(card: str, name: str, table: str) -> str:
    """The card with a table in its place."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if len(place.findall(card)) != 1:
        raise SystemExit(f"the card has no one <!-- {name} --> … <!-- end -->")
    return place.sub(lambda marks: f"{marks[1]}\n{table}\n\n{marks[2]}", card)


def layers(result: dict[str, Any]) -> str:
    """Accuracy and F1 of each layer of the one model, beside what needs no layer."""
    (of,) = result["models"].values()
    columns = {
        "part of speech (UPOS)": ("pos", "UPOS"),
        "part of speech (Penn tags)": ("pos", "XPOS"),
        "word sense, all": ("wsd", "all"),
        "word sense, several seen": ("wsd", "several"),
    }
    names = [name for name in {**of["pos"], **of["wsd"]} if name != "words"]
    names.sort(key=lambda name: not name.startswith("layer"))
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name in names:
        numbers = [of[probe].get(name, {}).get(column) for probe, column in columns.values()]
        shown = " | ".join("" if number is None else f"{number:.1f}" for number in numbers)
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
